"""The grids: members, data and cost."""

from collections import Counter
from dataclasses import replace

import pytest
from scipy import stats

from sumexp import datasets
from sumexp.chapters.vae import Temperature, fixed, grids, public
from sumexp.chapters.vae.grids import CORE, MATCHED, SIDE, Plan

ALL = ("digits", "mnist", "fashion-mnist", "omniglot")


@pytest.mark.parametrize("profile", ["smoke", "cpu", "paper"])
def test_every_family_has_the_same_seeds_at_each_temperature(profile: str) -> None:
    for stack in grids.grid(profile, ALL):
        assert len(set(stack.members)) == len(stack.members) <= 144
        assert profile == "paper" or len({member.temperature for member in stack.members}) == 1
        assert len(set(Counter(replace(member, seed=0) for member in stack.members).values())) == 1


def test_what_is_crossed_with_what() -> None:
    """Three families at the schedule and two temperatures, the first two longer, eight more at the schedule."""
    stacks = grids.stacks("digits", Plan(5, 2, (0.5, 1.0), side=True, longer=True, importance=7))
    schedule = public(5 * 12)
    assert [(stack.members[0].temperature, stack.epochs, len(stack.members)) for stack in stacks] == [
        (schedule, 5, 6),
        (fixed(1.0), 5, 6),
        (fixed(0.5), 5, 6),
        (public(15 * 12), 15, 4),
        (schedule, 5, 16),
    ]
    assert [stack.importance for stack in stacks] == [7, 30, 30, 30, 30]
    assert {(member.noise, member.scale, member.divergence) for member in CORE} == {
        ("gumbel", 1.0, "softmax"),
        ("gaussian", 1.0, "softmax"),
        ("gaussian", 1.0, "exact"),
    }


def test_the_public_schedule_is_the_public_codes_own_where_the_steps_are() -> None:
    first = grids.grid("paper", ALL)[0]
    assert (first.source, first.members[0].temperature) == ("mnist", Temperature())
    assert [grids.steps(source) for source in ("digits", "mnist", "omniglot")] == [12, 500, 230]


def test_without_mnist_paper_is_cpu() -> None:
    assert grids.grid("paper", ()) == grids.grid("cpu", ())
    assert {stack.source for stack in grids.grid("cpu", ALL)} == set(ALL)


def test_paper_takes_less_than_an_hour_and_a_half_on_an_h200() -> None:
    assert sum(grids.seconds(stack)["cuda"] for stack in grids.grid("paper", ALL)) < 1.5 * 3600


def test_side_exchanges_the_variances() -> None:
    laws = {"gaussian": stats.norm, "logistic": stats.logistic, "gumbel": stats.gumbel_r}
    assert stats.norm(scale=MATCHED).var() == pytest.approx(stats.gumbel_r.var(), rel=1e-12)
    scaled = [member for member in SIDE if member.scale != 1]
    assert [member.noise for member in scaled] == ["gumbel", "gumbel", "gaussian", "gaussian", "logistic", "logistic"]
    for member in scaled:
        expected = 1.0 if member.noise == "gumbel" else stats.gumbel_r.var()
        assert laws[member.noise](scale=member.scale).var() == pytest.approx(expected, rel=1e-12)


def test_the_sizes_of_the_digits() -> None:
    data = datasets.images("digits")
    assert grids._SIZES["digits"] == (data.train.shape[1], len(data.train))
    assert (len(data.train), len(data.validation), len(data.test), data.train.shape[1]) == (1200, 297, 300, 64)
