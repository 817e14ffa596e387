"""What is read off a trained stack, on made-up numbers."""

import numpy as np
import pytest

from sumexp.intervals import interval
from sumexp.vae import comparison
from sumexp.vae.config import Member, Stack, fixed

CASES = [
    Member("gumbel", temperature=fixed(0.5)),
    Member("gumbel", temperature=fixed(1.0)),
    Member("gaussian", temperature=fixed(0.5)),
    Member("gaussian", 1.28, temperature=fixed(0.5)),
]
MEMBERS = [Member(one.noise, one.scale, temperature=one.temperature, seed=seed) for one in CASES for seed in (7, 3, 5)]
STACK = Stack(members=tuple(MEMBERS), epochs=2)
# The value of case c with seed s is 100 c + s; a history adds 1000 an epoch and lists the members backwards.
VALUES = [100 * (i // 3) + member.seed for i, member in enumerate(MEMBERS)]
HISTORY = {
    "epoch": [epoch for epoch in (1, 0) for _ in MEMBERS],
    "member": [s for _ in (1, 0) for s in reversed(range(12))],
    "validation_bound": [1000 * epoch + VALUES[s] for epoch in (1, 0) for s in reversed(range(12))],
}


def test_runs_are_gathered_by_case_in_the_order_of_the_seeds() -> None:
    found = comparison.by_case(STACK, VALUES)
    assert list(found) == CASES
    assert [found[one].tolist() for one in CASES] == [[100 * c + s for s in (3, 5, 7)] for c in range(4)]
    curves = comparison.curves(STACK, HISTORY, "validation_bound")
    assert curves[CASES[2]].tolist() == [[203, 1203], [205, 1205], [207, 1207]]


def test_differences_are_paired_by_seed() -> None:
    values = np.array(VALUES) + np.array([0, 0, 0, 1, 2, 4, 0, 0, 0, 0, 0, 0])  # case 1, seeds 7, 3, 5
    found = comparison.difference(STACK, values, CASES[1], CASES[0])
    assert found == interval([102, 104, 101])
    backwards = comparison.difference(STACK, values, CASES[0], MEMBERS[4])  # a member stands for its case
    assert backwards.mean == pytest.approx(-found.mean)
    by_epoch = comparison.differences(STACK, HISTORY, "validation_bound", (CASES[2], CASES[0]))
    assert by_epoch.tolist() == [[200, 200]] * 3


def test_seeds_that_one_case_lacks_are_left_out() -> None:
    stack = Stack(members=tuple(MEMBERS[:5]))  # case 1 has the seeds 7 and 3 only
    assert comparison.difference(stack, VALUES[:5], CASES[1], CASES[0]) == interval([100, 100])
    with pytest.raises(ValueError, match="two or more"):
        comparison.difference(Stack(members=tuple(MEMBERS[:4])), VALUES[:4], CASES[1], CASES[0])


def test_the_temperature_is_chosen_by_the_last_validation_bound_among_unit_scales() -> None:
    assert comparison.chosen(STACK, HISTORY) == {"gumbel": CASES[0], "gaussian": CASES[2]}
    turned = HISTORY | {"validation_bound": [-value for value in HISTORY["validation_bound"]]}
    assert comparison.chosen(STACK, turned) == {"gumbel": CASES[1], "gaussian": CASES[2]}


def test_stacks_are_joined() -> None:
    """A stack cut in two and joined again, its history's members numbered from 0 in each part."""
    parts = []
    for start, stop in ((0, 5), (5, 12)):
        kept = [i for i, s in enumerate(HISTORY["member"]) if start <= s < stop]
        history = {name: np.array(column)[kept] for name, column in HISTORY.items()}
        history["member"] = history["member"] - start
        arrays = {"test_bound": np.array(VALUES[start:stop]), "images": np.zeros(3)}
        parts.append((Stack(members=tuple(MEMBERS[start:stop]), epochs=2), arrays, history))
    stack, arrays, history = comparison.joined(parts)
    assert stack == STACK
    assert list(arrays) == ["test_bound"]
    assert arrays["test_bound"].tolist() == VALUES
    whole, again = (comparison.curves(STACK, one, "validation_bound") for one in (HISTORY, history))
    assert {one: curve.tolist() for one, curve in whole.items()} == {
        one: curve.tolist() for one, curve in again.items()
    }


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="0 stacks are joined"):
        comparison.joined([])
    with pytest.raises(ValueError, match=r"2 stacks are joined; .* differ in members alone"):
        comparison.joined([(STACK, {}, HISTORY), (Stack(members=STACK.members, epochs=3), {}, HISTORY)])
    with pytest.raises(ValueError, match="3 values for 12 members"):
        comparison.by_case(STACK, VALUES[:3])
    with pytest.raises(ValueError, match="of which 1 differ"):
        comparison.by_case(Stack(members=(MEMBERS[0], MEMBERS[0])), [1, 2])
    with pytest.raises(ValueError, match="no member Member"):
        comparison.difference(STACK, VALUES, CASES[0], Member("logistic"))
