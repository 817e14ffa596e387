"""The grids: who is in them, what they read, and how much work they are."""

from collections import Counter

import pytest
from scipy import stats

from sumexp import datasets
from sumexp.vae import Member, Stack, Temperature, grids
from sumexp.vae.grids import MATCHED, PUBLISHED, corrected, published

ALL = ("digits", "mnist", "fashion-mnist", "omniglot")


def test_published_is_the_public_codes_run() -> None:
    expected = Stack(
        source="mnist",
        members=(Member("gumbel", 1.0, "softmax", 10, Temperature(1.0, 1e-5, 0.1, 1000), False, 775),),
        variables=10,
        hidden=300,
        epochs=300,
        batch=100,
        learning_rate=1e-3,
        samples=100,
    )
    assert expected == PUBLISHED


@pytest.mark.parametrize("profile", ["smoke", "cpu", "paper"])
@pytest.mark.parametrize("sources", [(), ("digits",), ("mnist",), ALL])
def test_every_family_has_the_same_seeds(profile: str, sources: tuple[str, ...]) -> None:
    stacks = grids.grid(profile, sources)
    for stack in stacks:
        assert len(set(stack.members)) == len(stack.members)
        cases = Counter(
            (one.noise, one.scale, one.divergence, one.categories, one.temperature) for one in stack.members
        )
        assert len(set(cases.values())) == 1
        seeds = {one.seed for one in stack.members}
        assert seeds == set(range(3 if profile == "smoke" else 8))
        assert set(grids.data(stack)) <= set(sources) - {"digits"}
    assert len(set(stacks)) == len(stacks)


def test_smoke_needs_no_data() -> None:
    assert grids.grid("smoke", ()) == grids.grid("smoke", ALL)
    assert all(grids.data(stack) == () for stack in grids.grid("smoke", ALL))


def test_paper_has_the_runs_that_its_docstring_promises() -> None:
    stacks = grids.grid("paper", ALL)
    assert [(stack.source, len(stack.members)) for stack in stacks] == [
        (source, count) for source in ("mnist", "fashion-mnist", "omniglot") for count in (2 * 3 * 8 + 8, 2 * 6 * 8 + 8)
    ]
    assert sum(len(stack.members) for stack in stacks) == 480
    assert sum(map(grids.work, stacks)) == pytest.approx(2.1e16, rel=0.02)


def test_matched_gaussian_has_the_variance_of_the_gumbel() -> None:
    assert stats.norm(scale=MATCHED).var() == pytest.approx(stats.gumbel_r.var(), rel=1e-12)
    matched = [one for one in corrected("digits", 2, {"gumbel": (0.5,), "gaussian": (0.5,)}).members if one.scale != 1]
    assert [(one.noise, one.temperature, one.seed) for one in matched] == [
        ("gaussian", Temperature(), 0),
        ("gaussian", Temperature(), 1),
    ]


def test_work_by_hand() -> None:
    """Digits: P = 64; N K = 20, H = 10: layers of 2 * 64 * 10 = 1,280 and 2 * 20 * 10 = 400 operations an image.

    Training: encoder 2 * 1280 + 3 * 400, decoder 3 * 400 + 3 * 1280: 8,800 for each of 1,200 images; validation
    1280 + 400 + 400 + 1280 = 3,360 for each of 297; test 7 samples of 1,680 for each of 50.
    """
    stack = published("digits", 3, (2,), variables=10, hidden=10, epochs=5, samples=4, importance=3, test_images=50)
    assert len(stack.members) == 6
    assert grids.work(stack) == 6 * (5 * (1200 * 8_800 + 297 * 3_360) + 50 * 7 * 1_680)


def test_work_knows_the_sizes_of_the_digits() -> None:
    data = datasets.images("digits")
    few = published("digits", 1, samples=1)
    exact = published("digits", 1, samples=1, images=len(data.train), test_images=len(data.test))
    assert grids.work(few) == grids.work(exact)
    assert (len(data.train), len(data.validation), len(data.test), data.train.shape[1]) == (1200, 297, 300, 64)


def test_unknown_profile() -> None:
    with pytest.raises(ValueError, match="profile is 'huge'; there are smoke, cpu, paper"):
        grids.grid("huge", ALL)
