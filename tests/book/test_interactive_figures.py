"""The curves of figures that a hand can move: at points of their grids, by other ways than theirs."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from claimbook.authoring import interactive
from claimbook.authoring.interactive import Interactive, table
from sumexp.chapters.classifiers import Example
from sumexp.chapters.sliders import draws, failures, nce, negatives
from sumexp.negatives import consistency
from sumexp.negatives.schemes import Weights
from tests.negatives.search import searched

LOGITS, FREQUENCY = torch.tensor([0.5, -1.0, 2.0, 0.0]).double(), torch.tensor([4.0, 3.0, 2.0, 1.0]).double()


@pytest.fixture(scope="module")
def consistent() -> Interactive:
    return negatives.consistency(interactive)


@pytest.fixture(scope="module")
def figures(consistent: Interactive) -> dict[str, Interactive]:
    """All of them, by the name of what makes them."""
    return {
        "consistency": consistent,
        "failures": failures.failures(interactive),
        "bounds": nce.bounds(interactive),
        "draws": draws.draws(interactive, [Example("one", LOGITS, 2)], FREQUENCY.log()),
    }


FIGURES = ("consistency", "failures", "bounds", "draws")


def number(choice: str) -> float:
    return float(choice.replace(",", ""))


@pytest.mark.parametrize("name", FIGURES)
def test_the_mark_stands_at_what_is_chosen(figures: dict[str, Interactive], name: str) -> None:
    for panel in figures[name].panels:
        if panel.mark is not None:
            values = [number(choice) for choice in figures[name].controls[panel.mark].choices]
            assert_allclose(values, panel.x, atol=0.005)


@pytest.mark.parametrize(
    ("name", "lines", "panel"),
    [
        *(("consistency", (0, 1), 0), ("failures", (0, 2), 0)),
        *(("bounds", (0, 2), 0), ("bounds", (0, 2), 1), ("draws", (1,), 0)),
    ],
)
def test_curves_stay_within_their_axes(
    figures: dict[str, Interactive], name: str, lines: Sequence[int], panel: int
) -> None:
    axes = figures[name].panels[panel]
    for line in lines:
        values = figures[name].lines[line].curves[panel]
        assert axes.ylim[0] <= values.min() <= values.max() <= axes.ylim[1]


@pytest.mark.parametrize(("line", "d", "s", "h"), [(0, 2, 1, 0), (1, 5, 3, 1), (1, 4, 2, 2)])
def test_the_minima_are_those_of_another_search(consistent: Interactive, line: int, d: int, s: int, h: int) -> None:
    weights: Weights = ("importance", "relative")[line]  # type: ignore[assignment]
    hits, m, log_q = list(negatives.HITS)[h], negatives.DRAWS[d], negatives.zipf(negatives.SKEWS[s])
    factors = consistency.factors(weights, log_q, m, hits=hits)
    truth = negatives.zipf(negatives.TRUTH)
    minimiser = searched(consistency.multiset_losses(log_q, m, factors, hits), truth.exp())
    shift = minimiser - truth
    shift = (shift - (truth.exp() * shift).sum())[torch.tensor(negatives.RANKS) - 1]
    assert_allclose(consistent.lines[line].curves[1][d, s, h], shift, atol=1e-7)
    nats = (truth.exp() * (truth - minimiser.log_softmax(-1))).sum().item()
    assert_allclose(consistent.lines[line].curves[0][0, s, h, d], max(nats, negatives.LEAST), rtol=1e-4, atol=1e-9)


def test_relative_weights_are_right_for_any_number_if_hits_are_kept(consistent: Interactive) -> None:
    relative = consistent.lines[1]
    kept = list(negatives.HITS).index("keep")
    assert (relative.curves[0][:, :, kept] == negatives.LEAST).all()
    assert relative.curves[0][:, :, 0, -1].min() > 1e-3
    assert relative.reading is not None
    assert set(relative.reading[:, :, kept].ravel()) == {"0 nats, up to rounding"}


def test_one_draw_falls_short_by_what_can_be_reckoned(figures: dict[str, Interactive]) -> None:
    figure = figures["failures"]
    sizes = failures.RANKS - 1
    for number, w in ((0, 1), (4, 20)):
        closed = sizes / failures.NEGATIVES * math.log1p(w) - np.log1p(sizes)
        assert_allclose(figure.lines[1].curves[0][0, number], closed, rtol=1e-9)
    closed = sizes / failures.NEGATIVES * math.log1p(failures.NEGATIVES) - np.log1p(sizes)
    assert_allclose(figure.lines[2].curves[0][0, 0], closed, rtol=1e-9)
    assert_allclose(figure.lines[3].curves[0][0, 0], sizes * math.log(2) - np.log1p(sizes), rtol=1e-9, atol=1e-12)
    assert failures.worst(np.array([0.0, -0.25, 1])) == "falls 0.25 below, at rank 3"


def test_the_least_valid_weight_never_falls_below_and_importance_weights_do(figures: dict[str, Interactive]) -> None:
    _, _, importance, least = figures["failures"].lines
    assert importance.reading is not None
    assert least.reading is not None
    assert all(text.endswith("never falls below") for text in least.reading.ravel())
    assert all("falls" in text and "never" not in text for text in importance.reading.ravel())


def test_the_law_has_the_information_asked_for() -> None:
    for information in nce.INFORMATION[::4]:
        assert_allclose(nce.law(information).mutual_information, information, atol=1e-10)


def test_the_best_value_of_equal_pairs_is_a_binomial_mean(figures: dict[str, Interactive]) -> None:
    value, log_n, information = figures["bounds"].lines
    for place, n in ((0, 2), (4, 32)):
        k, p = np.arange(n), 1 / nce.VALUES
        pmf = np.array([math.comb(n - 1, j) for j in k]) * p**k * (1 - p) ** (n - 1 - k)
        assert_allclose(value.curves[0][0, -1, place], math.log(n) - pmf @ np.log1p(k), rtol=1e-7)
    assert (value.curves[0] <= np.minimum(log_n.curves[0], information.curves[0]) + 1e-9).all()
    assert_allclose(value.curves[1][:, 0].T, value.curves[0][0])


def test_errors_of_a_sampled_softmax_are_those_of_all_draws(figures: dict[str, Interactive]) -> None:
    logits, frequency = LOGITS, FREQUENCY
    p = logits.softmax(0)[2].item()
    q = frequency**0.75 / (frequency**0.75)[[0, 1, 3]].sum()
    means = np.zeros(4)
    for first, second in ((a, b) for a in (0, 1, 3) for b in (0, 1, 3)):
        x = sum((logits[y] - logits[2]).exp() / q[y] / 2 for y in (first, second)).item()
        chance = (q[first] * q[second]).item()
        means += chance * np.array([1 / (1 + x), 1 / (1 + x) ** 2, math.log1p(x), math.log1p(x) ** 2])
    bias, deviation = figures["draws"].lines
    at = draws.POWERS.index(0.75)
    assert_allclose(bias.curves[0][0, at, 0, 0, 1], abs(means[0] / p - 1), rtol=1e-9)
    assert_allclose(deviation.curves[0][0, at, 0, 0, 1], math.sqrt(means[1] - means[0] ** 2) / p, rtol=1e-7)
    assert_allclose(bias.curves[1][1, 0, 0, 1, at], abs(means[2] + math.log(p)), rtol=1e-9)
    assert_allclose(deviation.curves[1][1, 0, 0, 1, at], math.sqrt(means[3] - means[2] ** 2), rtol=1e-7)
    signed = [f"{error:+.2g}".replace("-", "−") for error in (means[0] / p - 1, means[2] + math.log(p))]
    assert bias.reading[1, at, 0].tolist() == signed
    assert not any(text.startswith("+") for text in deviation.reading.ravel())


@pytest.mark.parametrize("name", FIGURES)
def test_every_table_is_small(figures: dict[str, Interactive], name: str) -> None:
    assert len(str(table(figures[name]))) < 100_000
