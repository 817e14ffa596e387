"""What sampled negatives do to rare classes: pictures with a long tail, and what theory predicts of each method.

- `config`: stacks of methods;
- `images`, `features`: the pictures, their classes, and the fixed features that networks are trained on;
- `training`: the task that trains all methods of a seed side by side;
- `residual`: the task that trains the paper's own network, for users who have the images and a GPU;
- `frequencies`: how often each label occurs in the data sets that there are;
- `grids`: what each profile trains, and which comparison decides which claim.

The last three are imported by name: what only reads or chooses runs is no part of their keys, nor is another task.
`sumexp.chapters.models.sampled` has the methods, what theory predicts of them, and how runs are compared.
"""

from sumexp.chapters.longtail.config import Stack
from sumexp.chapters.longtail.training import train

__all__ = ["Stack", "train"]
