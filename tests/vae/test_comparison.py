"""Comparisons of trained stacks, on made-up numbers."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from sumexp.chapters.intervals import Decision, interval
from sumexp.chapters.vae import comparison
from sumexp.chapters.vae.comparison import CRITERIA
from sumexp.chapters.vae.config import Member, Stack, Temperature, fixed

CASES = [
    Member("gumbel", temperature=fixed(0.5)),
    Member("gumbel", temperature=fixed(1.0)),
    Member("gaussian", temperature=fixed(0.5)),
    Member("gaussian", 1.28, temperature=fixed(0.5)),
]
MEMBERS = [replace(member, seed=seed) for member in CASES for seed in (7, 3, 5)]
STACK = Stack(members=tuple(MEMBERS), epochs=2)
# The value of case c with seed s on image i is 100 c + s + i / 10 for the loss and ten times that for the rest; a
# history adds 1000 an epoch and lists the members backwards.
VALUES = np.array([[100 * (s // 3) + member.seed + i / 10 for i in range(3)] for s, member in enumerate(MEMBERS)])
ARRAYS = {
    f"{part}_{key}": VALUES * (1 if key == "relaxed" else 10) * (-1 if part == "validation" and key == "bound" else 1)
    for part in ("validation", "test")
    for key in CRITERIA
} | {"by_count": VALUES[:, :2]}
COUNTS = {"counts": np.array([1, 3])}
HISTORY = {
    "epoch": [epoch for epoch in (1, 0) for _ in MEMBERS],
    "member": [s for _ in (1, 0) for s in reversed(range(12))],
    "train_loss": [1000 * epoch + VALUES[s, 0] for epoch in (1, 0) for s in reversed(range(12))],
}
FOUND = comparison.gathered([(STACK, ARRAYS | COUNTS, HISTORY)])


def test_runs_are_gathered_by_case_in_the_order_of_the_seeds() -> None:
    assert list(FOUND) == CASES
    for c, case in enumerate(CASES):
        runs = FOUND[case]
        assert runs.seeds == (3, 5, 7)
        assert runs.losses.tolist() == [[100 * c + s, 1000 + 100 * c + s] for s in (3, 5, 7)]
        assert runs.test["relaxed"][:, 1].tolist() == [100 * c + s + 0.1 for s in (3, 5, 7)]
        assert runs.validation["bound"][:, 0].tolist() == [-10 * (100 * c + s) for s in (3, 5, 7)]


def test_stacks_of_other_seeds_join() -> None:
    """The seeds 3 and 5 in one stack and 7 in another say what one stack of all says."""

    def of(seeds: set[int]) -> tuple[Stack, comparison.Arrays, comparison.Arrays]:
        kept = [s for s, member in enumerate(MEMBERS) if member.seed in seeds]
        arrays = {name: values[kept] for name, values in ARRAYS.items()} | COUNTS
        lines = [line for line, s in enumerate(HISTORY["member"]) if s in kept]
        history = {name: [values[line] for line in lines] for name, values in HISTORY.items()}
        history["member"] = [kept.index(s) for s in history["member"]]
        return replace(STACK, members=tuple(MEMBERS[s] for s in kept)), arrays, history

    whole = comparison.gathered([of({7}), of({3, 5})])
    np.testing.assert_equal(*({case: asdict(cases[case]) for case in CASES} for cases in (whole, FOUND)))


def test_differences_are_paired_by_seed_and_by_image() -> None:
    second = FOUND[CASES[0]]
    moved = np.array([[1.0, 2.0, 6.0], [2.0, 3.0, 1.0], [3.0, 3.0, 3.0]])
    first = replace(second, test={key: values + moved for key, values in second.test.items()})
    difference = comparison.difference(first, second, "bound")
    assert difference.seeds.mean == pytest.approx(24 / 9) == difference.images.mean
    assert difference.seeds.high == pytest.approx(interval([3, 2, 3]).high)
    assert difference.images.high == pytest.approx(interval([2, 8 / 3, 10 / 3]).high)
    assert comparison.difference(second, first, "bound").seeds.mean == -difference.seeds.mean
    condensed = replace(second, test={key: values.mean(1, keepdims=True) for key, values in second.test.items()})
    assert comparison.difference(first, condensed, "bound").apart.tolist() == pytest.approx(np.array([[3.0], [2], [3]]))


def test_estimates_are_compared_at_equal_numbers_of_samples() -> None:
    """An estimate falls with its samples: 200 more and 30 samples instead of 3 are still 200 more at 3, not at 1."""
    second = FOUND[CASES[0]]
    more = replace(FOUND[CASES[2]], by_count={1: np.ones(3), 3: FOUND[CASES[2]].by_count[3], 30: np.zeros(3)})
    assert comparison.difference(more, second, "likelihood").apart.tolist() == pytest.approx(np.full((3, 1), 200.0))
    for runs, criterion in ((more, "bound"), (FOUND[CASES[2]], "likelihood")):  # of each image
        assert comparison.difference(runs, second, criterion).apart.shape == (3, 3)  # type: ignore[arg-type]


def test_curves_of_differences() -> None:
    first, second = FOUND[CASES[2]], FOUND[CASES[0]]
    assert [interval.mean for interval in comparison.training_loss(first, second)] == [200, 200]
    assert comparison.speed(replace(first, losses=first.losses + np.array([0.0, 50.0])), second).mean == 225
    for read in (comparison.training_loss, comparison.speed, lambda a, b: comparison.difference(a, b, "bound")):
        with pytest.raises(ValueError, match=r"seeds \(3, 5, 7\) are paired with \(3, 5, 8\)"):
            read(first, replace(second, seeds=(3, 5, 8)))


def test_the_temperature_is_chosen_on_validation_within_a_family() -> None:
    assert list(comparison.temperatures(FOUND, Member("gumbel"))) == [fixed(0.5), fixed(1.0)]
    assert [comparison.name(tau) for tau in (fixed(0.25), Temperature())] == ["0.25", "the public schedule"]
    assert comparison.chosen(FOUND, Member("gumbel"), "likelihood") == CASES[0]
    assert comparison.chosen(FOUND, Member("gumbel"), "bound") == CASES[1]  # whose sign is turned on validation
    assert comparison.chosen(FOUND, Member("gaussian", 1.28), "bound") == CASES[3]
    with pytest.raises(ValueError, match=r"no run of Member.*logistic"):
        comparison.chosen(FOUND, Member("logistic"), "bound")


def test_a_lost_temperature_must_not_matter() -> None:
    below, further = (interval(np.array([m, m + 0.1, m - 0.1])) for m in (-2, -5))
    above, across = interval(np.array([2, 2.1, 1.9])), interval(np.array([-1, 1, 0]))
    assert comparison.decides([further, below], parts=6) == Decision("shown", below)
    # What excludes has its share of the error: t of two degrees at 97.5/6 %.
    assert comparison.decides([above], parts=6) == Decision("excluded", above.at(1 - 0.05 / 6))
    for mixed in ([below, above], [below, across]):
        assert comparison.decides(mixed).verdict == "undecided"
    # A mean nearer to zero does not decide, but the end that reaches nearer.
    wide = interval(np.array([-2.4, -3.6, -3.0]))
    assert comparison.decides([wide, below]).interval == wide


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="12 runs for 11 members"):
        comparison.gathered([(replace(STACK, members=STACK.members[:11]), ARRAYS, HISTORY)])
    with pytest.raises(ValueError, match=r"have the seeds \(3, 3, 5, 5, 7, 7\); give each member once"):
        comparison.gathered([(STACK, ARRAYS | COUNTS, HISTORY)] * 2)
