"""A real catalogue: two towers trained on users and the items that they took, by each form of the sampled softmax.

- `pairs`: which users and items, and which pairs are trained on, picked on, and judged on, under one law and another;
- `forms`: the losses in plain torch, and the towers;
- `training`: the task that trains one form at several learning rates, and picks one on validation pairs;
- `baseline`: the task that judges one list of the most frequent items for all users;
- `outlook`: the task that predicts the order of the forms from their exact minima;
- `summary`: what the runs of several seeds say;
- `grids`: what each profile trains, and what decides.

The last three are imported by name: what only chooses, predicts or reads runs is no part of their keys. Nor are the
package's own losses: the forms are written in plain torch, as somebody without the package would, and tests hold
both to one value and one gradient. So a change of the package's losses trains nothing again.
"""

from sumexp.chapters.catalogue.training import Config, train

__all__ = ["Config", "train"]
