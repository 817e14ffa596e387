"""The categorical VAE with perturbed argmax: published and corrected protocol, many models trained as one.

- `config`: the settings of a stack of models;
- `stack`: the networks, as functions of stacked parameters;
- `posterior`: the law of a member's samples, and its divergence;
- `bounds`: bounds on -log p(x), and estimates of it;
- `training`: the task that trains and measures a stack;
- `grids`: the stacks of each profile; `comparison`: what they show;
- `gradients`: bias and variance of the relaxed gradient.

The last three are imported by name, so that no run depends on them.
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
