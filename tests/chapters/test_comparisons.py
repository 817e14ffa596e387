"""Cells and points of comparisons, against values worked out in comments."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from sumexp.chapters import comparisons


def test_points_have_intervals() -> None:
    fig, ax = plt.subplots()
    comparisons.points(ax, ["a", "b"], {"head": [np.array([0.0, 0.2]), np.array([0.3, 0.3])]})
    (drawn,) = ax.containers
    line, _, (bars,) = drawn
    assert line.get_xydata().tolist() == [[0.1, 0], [pytest.approx(0.3), 1]]
    low, high = bars.get_segments()[0][:, 0]
    # Deviation 0.1414: 2.25 * 12.706 * 0.1.
    assert (high - low) / 2 == pytest.approx(2.8589, rel=1e-4)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]
    assert ax.yaxis_inverted()  # the first on top
    plt.close(fig)


def test_points_of_a_row_do_not_hide_one_another() -> None:
    fig, ax = plt.subplots()
    same = [np.array([0.0, 0.2])]
    comparisons.points(ax, ["a"], {"head": same, "torso": same, "tail": same})
    heights = [drawn[0].get_ydata()[0] for drawn in ax.containers]
    assert heights == pytest.approx([-0.2, 0, 0.2])
    plt.close(fig)


def test_methods_are_ranked_by_their_means() -> None:
    assert comparisons.ranked([np.array([3.0, 1.0]), np.array([0.0, 1.0]), np.array([5.0])]) == [1, 0, 2]
