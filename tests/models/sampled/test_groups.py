"""Groups of classes by their numbers of examples, by hand."""

import numpy as np
import pytest

from sumexp.chapters.models.sampled.groups import groups


def test_groups_by_hand() -> None:
    numbers = groups(np.array([500, 100, 99, 20, 19, 1]), "numbers")
    assert {name: own.nonzero()[0].tolist() for name, own in numbers.items()} == {
        "head": [0, 1],
        "torso": [2, 3],
        "tail": [4, 5],
    }
    # A fifth of the scale: 20 and 4.
    assert groups(np.array([100, 20, 19, 4, 3]), "numbers")["torso"].tolist() == [False, False, True, True, False]
    assert set(groups(np.array([500, 5]), "numbers")) == {"head", "tail"}
    # Of 1..100 the quantiles are 33.67 and 66.34.
    sizes = {name: own.sum() for name, own in groups(np.arange(1, 101), "quantiles").items()}
    assert sizes == {"head": 34, "torso": 33, "tail": 33}
    with pytest.raises(ValueError, match="rule is 'thirds'"):
        groups(np.array([1]), "thirds")  # type: ignore[arg-type]
    for wrong in ([], [0, 0], [-1, 2]):
        with pytest.raises(ValueError, match="they must be numbers >= 0, not all 0"):
            groups(np.array(wrong, dtype=np.int64), "numbers")
