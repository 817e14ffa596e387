"""What sampled negatives do to rare classes: pictures with a long tail, and what theory predicts of each method.

- `config`: stacks of methods;
- `sources`, `features`: the pictures, their classes, and the fixed features that networks are trained on;
- `training`: the task that trains all methods of a seed side by side;
- `grids`: what each profile trains, and which comparison decides which claim.

The last is imported by name: what only chooses runs is no part of their keys. `sumexp.models.sampled` has the methods,
what theory predicts of them, and how runs are compared.
"""

from sumexp.longtail.config import Stack
from sumexp.longtail.training import train

__all__ = ["Stack", "train"]
