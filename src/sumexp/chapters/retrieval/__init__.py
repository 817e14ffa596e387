"""Sampled negatives and rare labels in retrieval: sparse multi-label data, and sparse steps.

- `training`: the task that tunes and trains one method on one data set;
- `judging`, `metrics`: recall and precision of a trained method, and the list of the most frequent labels;
- `bags`: sparse features as embedding bags;
- `outlook`: the task that predicts the order of methods from label frequencies;
- `summary`: summaries of runs over seeds, and the best order of labels;
- `informed`: the task that computes the offset of a method for an informative example;
- `grids`: the runs of each profile, and the comparison that decides each claim;
- `own`: the same on your files.

Import the last three by name: modules that only read or choose runs are not part of the keys of runs.
"""

from sumexp.chapters.retrieval.training import Config, train

__all__ = ["Config", "train"]
