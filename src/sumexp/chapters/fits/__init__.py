r"""Perturb-Softmax fitted to discrete laws: the published way with samples, and the exact one without.

- `targets`: the four distributions, and their truncation;
- `objectives`: the distances from the target;
- `training`: Adam on the mean of draws or on the exact mean, many members at once;
- `reach`: the exact solution, and the speed of a descent to it;
- `protocols`: the runs of the chapter; import it by name, since it is not part of the keys of runs.

Source: H. Cohen Indelman, T. Hazan, On the Statistical Representation Properties of the Perturb-Softmax and the
Perturb-Argmax Probability Distributions, section 6.1.
"""

from sumexp.chapters.fits.reach import condition, excess, gain, solution, spread, steps_to
from sumexp.chapters.fits.targets import Target, published, window
from sumexp.chapters.fits.training import FitConfig, seconds, train

__all__ = [
    "FitConfig",
    "Target",
    "condition",
    "excess",
    "gain",
    "published",
    "seconds",
    "solution",
    "spread",
    "steps_to",
    "train",
    "window",
]
