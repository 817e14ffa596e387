"""Head, torso and tail: groups of classes by their frequency in the training set."""

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Group: TypeAlias = Literal["head", "torso", "tail"]
Rule: TypeAlias = Literal["numbers", "quantiles"]
GROUPS: tuple[Group, ...] = ("head", "torso", "tail")


def groups(counts: NDArray[np.int64], rule: Rule) -> dict[Group, NDArray[np.bool_]]:
    """Head, torso and tail [C], without empty groups, by the training ``counts`` of the classes [C].

    ``numbers``: head has 100 training examples or more, tail fewer than 20; where the most frequent class has n instead
    of 500, both are times n/500. ``quantiles``: head is above the 66 % quantile of the counts, torso above that of 33
    %.

    Raises:
        ValueError: if the rule is unknown, or there is no class or no example.

    Source: Rawat et al., section 5.1, after Kang et al. (2020), and section 5.2.
    """
    if not len(counts) or counts.min() < 0 or counts.max() < 1:
        raise ValueError(f"counts of {len(counts)} classes; they must be numbers >= 0, not all 0")
    if rule == "numbers":
        head, tail = counts * 500 >= 100 * counts.max(), counts * 500 < 20 * counts.max()
    elif rule == "quantiles":
        low, high = np.quantile(counts, (0.33, 0.66))
        head, tail = counts > high, counts <= low
    else:
        raise ValueError(f"rule is {rule!r}; there are 'numbers' and 'quantiles'")
    by_name: dict[Group, NDArray[np.bool_]] = {"head": head, "torso": ~head & ~tail, "tail": tail}
    return {name: members for name, members in by_name.items() if members.any()}
