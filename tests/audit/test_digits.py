"""The digits that are printed, against searches over single classes, for counts of many shapes."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from sumexp.audit._effects import Truth, effect, minimum
from sumexp.audit._rows import given, groups
from sumexp.audit._setup import Floats, Setup, Weights, read_setup
from sumexp.audit._text import nats
from sumexp.negatives.consistency import factors, minimiser, multiset_losses
from sumexp.samplers import Hits

CLASSES = 600
RANK = np.arange(1, CLASSES + 1.0)
FAR = -60.0
"""Score of a class without labels: as a negative it weighs nothing."""


def tables() -> dict[str, NDArray[np.int64]]:
    """Counts: power laws, few different ones, one class with nearly all labels, and a third without any."""
    zipf = 80_000 / RANK
    shapes = {
        "power 1/2": 80_000 / RANK**0.5,
        "power 1": zipf,
        "power 2": 4e9 / RANK**2,
        "ties": np.repeat([1000, 3, 2, 1], CLASSES * np.array([1, 1, 2, 4]) // 8),
        "giant": np.where(RANK == 1, 50 * zipf.sum(), zipf),
        "zeros": np.where(np.arange(CLASSES) % 3 == 1, 0, zipf),
    }
    return {name: np.asarray(values, dtype=np.int64) for name, values in shapes.items()}


def exact(counts: NDArray[np.int64], how: Setup, p: Floats, start: Floats) -> Floats:
    """The scores of single classes with labels at the minimum, by the search of `sumexp.negatives.consistency`.

    The risk is convex, so that where the search starts changes how long it takes and not where it ends.
    """
    labels, log_q, m = torch.from_numpy(counts > 0), torch.from_numpy(how.log_q), round(how.negatives)
    zero = torch.zeros(CLASSES, dtype=torch.float64)
    weights = (zero, zero) if how.weights == "none" else factors(how.weights, log_q, m, hits=how.hits)
    all_losses = multiset_losses(log_q, m, weights, how.hits, tol=1e-9)

    def losses(scores: Tensor) -> Tensor:
        return all_losses(torch.full((CLASSES,), FAR, dtype=torch.float64).masked_scatter(labels, scores))[labels]

    truth = torch.from_numpy(p)[labels]
    minimum = minimiser(all_losses if labels.all() else losses, truth, torch.from_numpy(start)[labels], tol=1e-6)
    return np.asarray(minimum.log_softmax(-1).numpy())


def of_bins(truth: Truth, how: Setup) -> Floats:
    """A score for each class with labels, that of its bin: far off in rare classes if bins are as wide as they may."""
    fine = minimum(truth, how, digits=1e-5)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(truth.p) + fine.error[fine.place[truth.cells.index]])


@pytest.mark.parametrize("name", tables())
@pytest.mark.parametrize(
    "sampler, weights, hits, m, sigma",
    [
        ("within-batch", "none", "keep", 64, 1.0),
        ("within-batch", "importance", "mask", 64, 3.0),
        ("log-uniform", "relative", "mask", 16, 2.0),
        ("uniform", "none", "mask", 256, 2.0),
    ],
)
def test_the_divergence_is_right_to_the_digits_that_are_printed(
    name: str, sampler: str, weights: Weights, hits: Hits, m: int, sigma: float
) -> None:
    """Within a unit of the last digit: half for rounding, half for the bins; and what each group learns."""
    counts = tables()[name]
    p = counts * np.exp(sigma * np.random.default_rng(0).standard_normal(CLASSES))
    p /= p.sum()
    prior = counts / counts.sum()
    how = read_setup(prior, sampler, weights, hits, m, None)
    truth = Truth(given(counts, prior), p, how)
    result, scores = effect(truth, how), exact(counts, how, p, of_bins(truth, how))
    law, text = p[counts > 0], nats(result.kl)
    error = scores - np.log(law) + law @ (np.log(law) - scores)
    assert abs(float(text) - law @ (np.log(law) - scores)) <= unit(text)
    member = np.eye(3)[groups(counts)[counts > 0]]
    number = np.maximum(member.sum(0), 1)
    assert result.items == pytest.approx(error @ member / number, abs=0.03 * (1 + abs(error).mean()))
    assert result.learned == pytest.approx(np.exp(scores) @ member, abs=0.01)
    best = set(np.argsort(-law)[:10]) & set(np.argsort(-scores)[:10])
    assert result.overlap == pytest.approx(len(best), abs=1)


def unit(text: str) -> float:
    """Of the last digit of a number as it is printed; of 0, the least that is not."""
    digits, _, power = text.partition("e")
    return 1e-7 if text == "0" else 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
