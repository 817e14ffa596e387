"""What sampled negatives do to rare classes: pictures with a long tail, and what theory predicts of each method.

- `config`: stacks of methods;
- `images`, `features`: the pictures, their classes, and the fixed features that networks are trained on;
- `training`: the task that trains all methods of a seed side by side;
- `residual`: the task that trains the paper's network, which needs a GPU;
- `frequencies`: how often each label occurs in the data sets that there are;
- `grids`: what each profile trains, and which comparison decides which claim.

Import the last three by name: modules that only read or choose runs are not part of the keys of runs.
`sumexp.chapters.models.sampled` has the methods, their predictions, and the comparison of runs.
"""

from sumexp.chapters.longtail.config import Stack
from sumexp.chapters.longtail.training import train

__all__ = ["Stack", "train"]
