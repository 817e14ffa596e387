"""The categorical VAE with perturbed argmax: published and corrected protocol, many models trained as one.

- `config`: the settings of a stack of models;
- `stack`: the networks, as functions of stacked parameters;
- `posterior`: the law that a member's samples come from, and its divergence;
- `bounds`: what bounds -log p(x), and what estimates it;
- `training`: the task that trains and measures a stack;
- `grids`: the stacks that each profile trains; `comparison`: what they say;
- `gradients`: bias and variance of the relaxed gradient.

The last three are imported by name: what only chooses or reads runs must not be among the code that their keys depend
on, or a change there would discard them.
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
