"""Sampled negatives and rare labels in retrieval: sparse multi-label data, and sparse steps.

`summary`, `informed` and `grids` are imported by name, so that no training run depends on them.
"""

from sumexp.chapters.retrieval.training import Config, train

__all__ = ["Config", "train"]
