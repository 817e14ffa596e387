"""What cosines can hold, by construction and by a search of another kind; which scores to serve."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from sumexp.audit import AuditError
from sumexp.audit._setup import read_setup
from sumexp.audit.results import Line
from sumexp.audit.serving import clipped, cosines, largest_temperature, served

LAW = np.array([0.6, 0.25, 0.1, 0.04, 0.01])


def softmax(scores: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(scores - np.logaddexp.reduce(scores)))


def test_at_the_largest_temperature_two_dimensions_hold_a_law() -> None:
    """The context is (1, 0), a class the unit vector at the angle of its cosine; the ends are at 0 and pi."""
    log_p = np.log(LAW)
    temperature = largest_temperature(log_p)
    assert temperature == pytest.approx(2 / math.log(60))
    cosines = temperature * (log_p - (log_p.max() + log_p.min()) / 2)
    angles = np.arccos(np.clip(cosines, -1, 1))
    items = np.stack([np.cos(angles), np.sin(angles)], 1)
    assert np.linalg.norm(items, axis=1) == pytest.approx(1)
    assert softmax(items @ np.array([1.0, 0.0]) / temperature) == pytest.approx(LAW, abs=1e-12)


@pytest.mark.parametrize("factor", [1.02, 1.5, 4.0, 50.0])
def test_above_it_no_cosines_do_and_the_best_are_the_clipped(factor: float) -> None:
    """A search over angles, from several starts, ends at the divergence of the clipped scores, which is not 0."""
    temperature = factor * largest_temperature(np.log(LAW))

    def divergence(angles: np.ndarray) -> float:
        scores = np.cos(angles) / temperature
        return float(LAW @ (np.log(LAW) - scores + np.logaddexp.reduce(scores)))

    starts = np.random.default_rng(0).uniform(0.2, 3, (5, 5))
    best = min(minimize(divergence, start, method="BFGS", options={"gtol": 1e-9}).fun for start in starts)
    scores, kl = clipped(np.log(LAW), 2 / temperature)
    assert 1e-6 < kl == pytest.approx(best, rel=1e-5)
    assert np.ptp(scores) <= 2 / temperature + 1e-12
    assert divergence(np.arccos(np.clip(temperature * scores - 1, -1, 1))) == pytest.approx(kl, rel=1e-9)


def test_a_span_that_is_wide_enough_costs_nothing() -> None:
    scores, kl = clipped(np.log(LAW), math.log(60) + 1e-9)
    assert kl == 0
    assert softmax(scores) == pytest.approx(LAW)
    assert largest_temperature(np.zeros(3)) == math.inf


def test_which_scores_are_served_by_scheme() -> None:
    def of(weights: str, hits: str = "keep", sampler: str = "within-batch", log_p: bool = False) -> str:
        batch = 5 if sampler == "mixed" else None
        return served(read_setup(LAW, sampler, weights, hits, 4, batch), log_p)  # type: ignore[arg-type]

    assert of("relative", log_p=True).startswith("for recall@k, MRR and NDCG of one label: the scores as they are")
    assert "plus log q; where a label of frequency pi counts 1/pi: as they are" in of("none")
    assert of("none", sampler="uniform").endswith("plus log q, minus log pi")
    for other in (of("none", "mask"), of("constant"), of("importance", "mask")):
        assert other == ""
    assert [of("none", sampler=pools) for pools in ("union:uniform", "mixed")] == ["", ""]


def test_the_line_says_what_cosines_need() -> None:
    def line(temperature: float | None, weights: str = "relative", sampler: str = "within-batch") -> Line:
        return cosines(LAW, read_setup(LAW, sampler, weights, "keep", 2, None), temperature)  # type: ignore[arg-type]

    wide = line(0.9)
    assert wide.says.startswith("log P of these counts needs T <= 0.488, log P/q any T: at T = 0.9 the best scores")
    assert (wide.found, wide.instead, wide.nats) == (True, True, clipped(np.log(LAW), 2 / 0.9)[1])
    assert wide.fix.startswith("subtract nothing from the logits, keep accidental hits, and add log q to the scores")
    assert line(0.9, "none").fix == "add log q to the scores that you serve"
    uniform = line(0.9, "none", "uniform")  # q is flat: log P/q spans what log P does
    assert (uniform.instead, uniform.fix) == (False, "lower T to 0.488 or less")
    assert (line(0.4).found, line(0.4).says.endswith("the counts do not rule out T = 0.4")) == (False, True)
    assert not line(None).found
    with pytest.raises(AuditError, match="temperature is 0; it must be a positive number"):
        line(0)
