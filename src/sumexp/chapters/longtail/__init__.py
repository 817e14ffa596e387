"""Sampled negatives and rare classes: images with a long tail, and what theory predicts of each method.

`residual`, `frequencies` and `grids` are imported by name. `sumexp.chapters.models.sampled` has methods, predictions
and comparisons.
"""

from sumexp.chapters.longtail.config import Stack
from sumexp.chapters.longtail.training import train

__all__ = ["Stack", "train"]
