"""A real catalogue: two towers of users and items, trained by each form of the sampled softmax.

- `pairs`: users, items, and the pairs to train on, to tune on, and to judge by;
- `forms`: the losses in plain torch, and the towers;
- `training`: the task that trains one form at several learning rates;
- `baseline`: the task that judges one list of the most frequent items for all users;
- `outlook`: the task that predicts the order of the forms from their exact minima;
- `summary`: the runs of several seeds;
- `grids`: the runs of each profile, and what decides.

The last three are imported by name, so that no run depends on them.
"""

from sumexp.chapters.catalogue.training import Config, train

__all__ = ["Config", "train"]
