"""A real catalogue: two towers of users and items, trained by each form of the sampled softmax.

`baseline`, `outlook`, `summary` and `grids` are imported by name, so that no training run depends on them.
"""

from sumexp.chapters.catalogue.training import Config, train

__all__ = ["Config", "train"]
