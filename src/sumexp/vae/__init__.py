"""The categorical VAE with perturbed argmax: published and corrected protocol, many models trained as one."""

from sumexp.vae import bounds, gradients, posterior, stack, verdict
from sumexp.vae.config import Member, Stack, Temperature, fixed
from sumexp.vae.grids import PUBLISHED, data, grid, work
from sumexp.vae.training import train

__all__ = [
    "PUBLISHED",
    "Member",
    "Stack",
    "Temperature",
    "bounds",
    "data",
    "fixed",
    "gradients",
    "grid",
    "posterior",
    "stack",
    "train",
    "verdict",
    "work",
]
