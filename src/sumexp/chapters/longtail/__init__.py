"""What sampled negatives do to rare classes: images with a long tail, and what theory predicts of each method.

- `config`: stacks of methods;
- `images`, `features`: the images, their classes, and the fixed features that networks are trained on;
- `training`: the task that trains all methods of a seed side by side;
- `residual`: the task that trains the paper's network, which needs a GPU;
- `frequencies`: how often each label occurs in the available data sets;
- `grids`: the runs of each profile, and what decides.

The last three are imported by name. `sumexp.chapters.models.sampled` has methods, predictions and comparisons.
"""

from sumexp.chapters.longtail.config import Stack
from sumexp.chapters.longtail.training import train

__all__ = ["Stack", "train"]
