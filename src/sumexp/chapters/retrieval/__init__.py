"""What sampled negatives do to rare labels of retrieval: sparse examples with several labels each, and sparse steps.

- `training`: the task that tunes and trains one method on one data set;
- `judging`, `metrics`: recall and precision of a trained method, and the list of the most frequent labels;
- `bags`: sparse features as embedding bags;
- `outlook`: the task that predicts the methods' order from the frequencies of the labels;
- `summary`: what the runs of several seeds say of a method, and which order of labels is best;
- `informed`: the task that says what a method adds where an example says something;
- `grids`: what each profile trains, and which comparison decides which claim;
- `own`: the same on your files.

The last three are imported by name: what only chooses or reads runs is no part of their keys.
"""

from sumexp.chapters.retrieval.training import Config, train

__all__ = ["Config", "train"]
