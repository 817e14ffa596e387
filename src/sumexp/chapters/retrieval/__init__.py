"""Sampled negatives and rare labels in retrieval: sparse multi-label data, and sparse steps.

- `training`: the task that tunes and trains one method on one data set;
- `judging`, `metrics`: recall and precision of a trained method, and the list of the most frequent labels;
- `bags`: sparse features as embedding bags;
- `outlook`: the task that predicts the order of methods from label frequencies;
- `summary`: the runs over seeds, and the best order of labels;
- `informed`: the task that computes the offset of a method for an informative example;
- `grids`: the runs of each profile, and what decides;
- `own`: the same on your files.

The last four are imported by name, so that no run depends on them.
"""

from sumexp.chapters.retrieval.training import Config, train

__all__ = ["Config", "train"]
