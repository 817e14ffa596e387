"""The categorical VAE with perturbed argmax: published and corrected protocol, many models trained as one.

`grids`, `comparison` and `gradients` are imported by name, so that no run depends on them.
"""

from sumexp.chapters.vae import bounds, posterior, stack
from sumexp.chapters.vae.config import Member, Stack, Temperature, fixed, public
from sumexp.chapters.vae.training import train

__all__ = [
    "Member",
    "Stack",
    "Temperature",
    "bounds",
    "fixed",
    "posterior",
    "public",
    "stack",
    "train",
]
