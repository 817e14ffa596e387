r"""Gradient descent on a sampled loss, against the minimum of its exact implicit loss and that of the bound.

With a linear model and the penalty :math:`\frac\lambda2\lVert W\rVert^2` all three end points are unique: the
minimisers of the exact implicit loss and of Lemma 2's bound, and averaged stochastic gradient descent on the sampled
loss.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from sumexp import _checks as checks
from sumexp.functional import pairwise_margin, sampled_softmax
from sumexp.negatives.implicit import implicit_loss
from sumexp.negatives.schemes import Scheme, scheme, uniform
from sumexp.samplers import Uniform, draw


@dataclass(frozen=True)
class Problem:
    r"""Examples for a linear model trained on a sampled loss with uniform negatives and importance weights.

    Attributes:
        features: [N, d].
        labels: [N] classes 0..L-1, all of which occur.
        m: negatives of an example; hits are redrawn.
        penalty: :math:`\lambda`, positive.
    """

    features: Tensor
    labels: Tensor
    m: int
    penalty: float = 0.01

    def __post_init__(self) -> None:
        if self.features.ndim != 2 or self.labels.shape != self.features.shape[:1]:
            raise ValueError(f"features {tuple(self.features.shape)} and labels must be [N, d] and [N]")
        if len(self.labels.unique()) != self.classes:  # type: ignore[no-untyped-call]
            raise ValueError("a class between 0 and the largest label does not occur; number the classes without gaps")
        if self.m < 1 or not self.penalty > 0:
            raise ValueError(f"m is {self.m}, penalty {self.penalty}; both must be positive")

    @property
    def classes(self) -> int:
        """The number of classes L."""
        return int(self.labels.max()) + 1

    def scheme(self, label: int) -> Scheme:
        """The sampling scheme of a label."""
        return scheme(uniform(self.classes), label, self.m, "importance", "redraw")


def long_tail(labels: Tensor, most: int, ratio: float) -> Tensor:
    r"""Rows of the first :math:`n_c = \text{round}(\text{most}\cdot\text{ratio}^c)` examples of each class c."""
    kept = [(labels == c).nonzero().squeeze(1)[: round(most * ratio**c)] for c in range(int(labels.max()) + 1)]
    return torch.cat(kept)


def principal(images: Tensor, components: int) -> Tensor:
    """The leading principal components of the rows, each of variance 1, and a constant: [N, components + 1]."""
    centred = images.to(torch.float64) - images.to(torch.float64).mean(0)
    left, scale, _ = torch.linalg.svd(centred, full_matrices=False)
    components = checks.whole("components", components, 1, int((scale > 1e-10 * scale[0]).sum()))
    constant = torch.ones(len(images), 1, dtype=torch.float64, device=images.device)
    return torch.cat([left[:, :components] * len(images) ** 0.5, constant], -1)


def exact_minimum(problem: Problem) -> Tensor:
    """The weights [d, L] that minimise the mean exact implicit loss; their columns sum to 0."""
    rows = [(label, problem.labels == label) for label in range(problem.classes)]

    def loss(logits: Tensor) -> Tensor:
        parts = [implicit_loss(logits[of_label], problem.scheme(label), tol=1e-10).loss for label, of_label in rows]
        return torch.cat(parts).mean()

    return _minimum(problem, loss, bound_minimum(problem))


def bound_minimum(problem: Problem) -> Tensor:
    """The weights [d, L] that minimise the mean of Lemma 2's bound, which is the full cross entropy here."""
    log_rho = torch.stack([problem.scheme(label).log_rho for label in range(problem.classes)])[problem.labels]
    start = problem.features.new_zeros(problem.features.shape[1], problem.classes, dtype=torch.float64)
    return _minimum(problem, lambda logits: pairwise_margin(logits, problem.labels, log_rho), start)


def descend(
    problem: Problem,
    *,
    doublings: int,
    runs: int,
    first: int = 64,
    batch: int = 64,
    rate: float = 0.5,
    generator: torch.Generator,
) -> dict[int, Tensor]:
    r"""Stochastic gradient descent on the sampled loss, several runs in parallel, each averaged over its second half.

    Examples are drawn with replacement, negatives by :func:`sumexp.samplers.draw`, and the loss is
    :func:`sumexp.functional.sampled_softmax`. Step t has the rate :math:`\gamma\,(1+t/100)^{-0.6}`.

    The averaged weights are [runs, d, L], after first, 2 first, ..., 2^doublings first steps; columns sum to 0.

    Source: Polyak and Juditsky (1992) for the average.
    """
    features = problem.features.to(torch.float64)
    sampler = Uniform(problem.classes)
    weights = features.new_zeros(runs, features.shape[1], problem.classes, requires_grad=True)
    total = torch.zeros_like(weights)
    ends = [first << k for k in range(doublings + 1)]
    kept = {first // 2, *ends}
    totals = {0: torch.zeros_like(weights)}
    for t in range(first << doublings):
        chosen = torch.randint(len(features), (runs, batch), generator=generator, device=generator.device)
        labels = problem.labels[chosen].flatten()
        negatives = draw(sampler, labels, problem.m, hits="redraw", generator=generator)
        logits = (features[chosen] @ weights).flatten(0, 1)
        loss = sampled_softmax(
            logits.gather(1, labels.unsqueeze(1)).squeeze(1),
            logits.gather(1, negatives.ids),
            log_q=negatives.log_q,
            correct="importance",
            reduction="sum",
        )
        (slope,) = torch.autograd.grad(loss / batch + problem.penalty / 2 * weights.square().sum(), weights)
        with torch.no_grad():
            weights -= rate * (1 + t / 100) ** -0.6 * slope
            total += weights
        if t + 1 in kept:
            totals[t + 1] = total.clone()
    averages = {n: (totals[n] - totals[n // 2]) / (n - n // 2) for n in ends}
    return {n: average - average.mean(-1, keepdim=True) for n, average in averages.items()}


@dataclass(frozen=True)
class Distance:
    """The distance of the mean of several runs from a point, and its standard error if the point is the expectation."""

    root: float
    error: float


def distance(problem: Problem, runs: Tensor, point: Tensor) -> Distance:
    r"""The distance of the runs' mean from a point, :math:`\sqrt{\overline{(\Delta f)^2}}` over all logits."""
    logits = problem.features.to(torch.float64) @ runs
    target = problem.features.to(torch.float64) @ point
    return Distance(
        (logits.mean(0) - target).square().mean().sqrt().item(), (logits.var(0) / len(runs)).mean().sqrt().item()
    )


def _minimum(problem: Problem, loss: Callable[[Tensor], Tensor], start: Tensor) -> Tensor:
    features = problem.features.to(torch.float64)

    def risk(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weights = torch.tensor(point, device=features.device, requires_grad=True)
        value = loss(features @ weights.view(start.shape)) + problem.penalty / 2 * weights.square().sum()
        (slope,) = torch.autograd.grad(value, weights)
        return value.item(), slope.cpu().numpy()

    first: NDArray[np.float64] = start.flatten().cpu().numpy()
    exact = 1e-6 * problem.penalty
    solution = minimize(risk, first, jac=True, method="L-BFGS-B", options={"ftol": 0, "gtol": exact, "maxiter": 5000})
    if not (off := float(np.linalg.norm(solution.jac)) / problem.penalty) < 1e-3:  # the risk curves by the penalty
        raise ValueError(f"the search ended up to {off:.1e} from the minimum; penalty is {problem.penalty}: raise it")
    weights = torch.from_numpy(solution.x).to(features.device).view(start.shape)
    return weights - weights.mean(-1, keepdim=True)
