"""Offsets for informative examples, against losses summed over all draws."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from sumexp.chapters.models.sampled.informed import added
from sumexp.chapters.models.sampled.methods import LAWS, SCHEMES, Method

PRIOR = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)


def by_enumeration(method: Method, label: int, ratio: float) -> float:
    """The minimiser of the loss summed over all m-tuples of draws, found without derivatives of ours."""
    pi, classes, m = PRIOR.numpy(), range(3), method.negatives
    q = pi if method.law == "batch" else np.full(3, 1 / 3)
    weight = {
        "constant": lambda y, z: 1 / m,
        "importance": lambda y, z: 1 / (m * q[z]),
        "relative": lambda y, z: q[y] / q[z],
        "tail": lambda y, z: pi[z] / (m * q[z] * pi[y]),
    }[method.weighting]
    posterior = pi * np.where(np.arange(3) == label, ratio, 1)
    posterior /= posterior.sum()

    def loss(free: np.ndarray) -> float:  # type: ignore[type-arg]
        f, total = [*free, 0.0], 0.0
        for drawn in itertools.product(classes, repeat=m):
            for y in classes:
                terms = [weight(y, z) * math.exp(f[z] - f[y]) for z in drawn if method.hits == "keep" or z != y]
                total += math.prod(q[z] for z in drawn) * posterior[y] * math.log1p(sum(terms))
        return total

    b = np.append(minimize(loss, np.zeros(2), method="BFGS", options={"gtol": 1e-8}).x, 0) - np.log(posterior)
    others = np.arange(3) != label
    return float(b[label] - posterior[others] @ b[others] / posterior[others].sum())


@pytest.mark.parametrize("law, weighting", [*itertools.product(LAWS, SCHEMES)])
def test_by_enumeration(law: str, weighting: str) -> None:
    for hits in ("mask", "keep"):
        method = Method("softmax", law, weighting, 2, hits)  # type: ignore[arg-type]
        assert added(method, PRIOR, 2, 5.0) == pytest.approx(by_enumeration(method, 2, 5.0), abs=1e-4)


def test_margins_and_consistent_methods_by_arithmetic() -> None:
    adjusted = Method(weighting="logit-adjusted")
    # -log 0.2 less the mean of -log 0.5 and -log 0.3, five to three
    wanted = -math.log(0.2) + (5 * math.log(0.5) + 3 * math.log(0.3)) / 8
    for ratio in (0.1, 1.0, 50.0):
        assert added(Method(), PRIOR, 2, ratio) == pytest.approx(0, abs=1e-6)
        assert added(Method("softmax", "uniform", "relative", 4, "keep"), PRIOR, 1, ratio) == pytest.approx(0, abs=1e-6)
        assert added(adjusted, PRIOR, 2, ratio) == pytest.approx(wanted, abs=1e-6)
