"""Perturb-Softmax fitted to discrete distributions: from samples, as published, and with exact means.

`grids`, the runs of the chapter, is imported by name, so that no run depends on it.

Source: H. Cohen Indelman, T. Hazan, On the Statistical Representation Properties of the Perturb-Softmax and the
Perturb-Argmax Probability Distributions, section 6.1.
"""

from sumexp.chapters.fits.reach import condition, excess, gain, steps_to
from sumexp.chapters.fits.targets import Target, published, window
from sumexp.chapters.fits.training import FitConfig, train

__all__ = [
    "FitConfig",
    "Target",
    "condition",
    "excess",
    "gain",
    "published",
    "steps_to",
    "train",
    "window",
]
