r"""Which sampled cross entropies learn the probabilities, also with few negatives.

A sampled loss is *consistent* if its population minimiser is :math:`f_y = \log P(y\mid x)` up to a constant. All usual
weights are products, :math:`w_{yy'} = e^{a_y + b_{y'}}`. With :math:`c_y = e^{a_y-f_y}` and
:math:`z_{y'} = e^{b_{y'}+f_{y'}}` the sum of label y is :math:`X_y = c_y Z`, and the losses of all labels share a grid,

.. math:: \mathbb E\log(1+X_y) = \int_0^\infty e^{-s/c_y}\,\big(1-\mathbb E_y e^{-sZ}\big)\,\frac{ds}s ,

of classes times nodes instead of classes squared. Three schemes are consistent for every number of negatives:

- m independent draws, hits *kept*, :math:`\log q` subtracted from all logits, the positive's too (relative weights);
- Poisson sampling, hits *left out*, the logarithm of the inclusion probabilities subtracted from all logits;
- m *distinct* ids other than the label, with a correction that depends on the sample, see `sumexp.negatives.race`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, cg
from torch import Tensor

from sumexp import _checks as checks
from sumexp._checks import typed
from sumexp.expectations.quadrature import rule
from sumexp.negatives.population import Losses
from sumexp.negatives.schemes import Weights, _given
from sumexp.samplers._negatives import Hits

STRIDE = 5.0
"""The largest move of a score in a Newton step: far from the minimum the quadratic model is poor."""


@typed
def factors(
    weights: Weights, log_q: Tensor, m: int, *, hits: Hits = "mask", prior: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    r"""The two factors of the weights, :math:`\log w_{yy'} = a_y + b_{y'}`, [classes] each.

    ``log_q`` [classes] is the law of one draw over all classes, ``prior`` [classes] the label law, for ``tail``. Under
    ``redraw`` importance and tail weights use the law that is drawn, :math:`q_{y'}/(1-q_y)`; relative weights keep
    :math:`q_y/q_{y'}`, as corrections by a table of :math:`\log q` do.

    Source: Rawat et al., Table 1 and equation (16).
    """
    checks.choice("weights", weights, get_args(Weights))
    zero, log_m = torch.zeros_like(log_q), math.log(checks.whole("m", m, 1))
    renewed = zero
    if hits == "redraw":  # 1 - q of a class drawn almost always has lost its digits
        renewed = torch.where(log_q > -0.5, others(log_q.exp()).log(), torch.log1p(-log_q.exp()))
    match weights:
        case "constant":
            return zero - log_m, zero
        case "importance":
            return renewed - log_m, -log_q
        case "relative":
            return log_q, -log_q
    prior = _given(prior)
    return renewed - log_m - prior, prior - log_q


@typed
def multiset_losses(
    log_q: Tensor, m: int, weights: tuple[Tensor, Tensor], hits: Hits = "mask", tol: float = 1e-12
) -> Losses:
    r"""The exact implicit losses of all classes for m independent draws, twice differentiable in the scores.

    Args:
        log_q: [classes] law of one draw; ``-inf`` for a class that is never drawn.
        m: number of draws.
        weights: their factors, see :func:`factors`. They may be those of another law, as in a bug.
        hits: draws of the positive are counted (``keep``), left out (``mask``) or redrawn (``redraw``).
        tol: relative error of the quadrature.

    Raises:
        ValueError: if m is not from 1 to 2^53, q does not sum to 1, hits are redrawn from a law with one class, or,
            when called, scores are not finite numbers [classes].
    """
    m, q = checks.whole("m", m, 1, 1 << 53), checks.log_law("log_q", log_q).exp()
    checks.choice("hits", hits, get_args(Hits))
    if hits == "redraw" and q.max() >= 1:
        raise ValueError("a class is drawn with certainty; as a label it leaves no negative to redraw")
    return _Multiset(q, m, weights, hits, tol)


@dataclass(frozen=True)
class _Multiset:
    """The losses of :func:`multiset_losses`."""

    q: Tensor
    m: int
    weights: tuple[Tensor, Tensor]
    hits: Hits
    tol: float

    def __call__(self, scores: Tensor) -> Tensor:
        u, _, kernel, log_z = self._nodes(scores)
        total, none_left = self._drawn(-self.q * torch.expm1(-torch.exp(u + log_z)))
        log_power = self.m * torch.log1p(-torch.where(none_left, total, 0.5))
        return (kernel * torch.where(none_left, -torch.expm1(log_power), 1.0)).sum(0)

    @torch.no_grad()
    def curvature(self, scores: Tensor, posterior: Tensor) -> Callable[[Tensor], Tensor]:
        r"""The Hessian of :math:`\sum_y P(y)\,\ell(y,f)`, as its product with a vector [classes].

        At each node classes interact through one sum only, so it is a diagonal plus :math:`D^\top B + B^\top D`, both
        [nodes, classes], where D is the derivative of a class's part of the sum in its score.
        """
        u, rate, kernel, log_z = self._nodes(scores)
        masked, share = self.hits != "keep", 1 / others(self.q) if self.hits == "redraw" else 1.0
        z = torch.exp(u + log_z)
        total, none_left = self._drawn(-self.q * torch.expm1(-z))
        log_rest = torch.log1p(-torch.where(none_left, total, 0.5))
        # 1 - (1 - total)^m and its two derivatives in the sum over classes
        value = torch.where(none_left, -torch.expm1(self.m * log_rest), 1.0)
        first = torch.where(none_left, self.m * torch.exp((self.m - 1) * log_rest), 0.0) * share
        second = (1 - self.m) * torch.exp(-log_rest) * first * share
        grows, weight = self.q * z * torch.exp(-z), posterior * kernel
        falls = -rate * weight
        sum_first, sum_second = (torch.sum(weight * part, -1, keepdim=True) for part in (first, second))
        diagonal = falls * (1 - rate) * value + grows * (1 - z) * (sum_first - masked * weight * first)
        diagonal += masked * grows * (grows * weight * second - 2 * falls * first)
        off_diagonal = falls * first + grows * (sum_second / 2 - masked * weight * second)
        diagonal_sum = diagonal.sum(0)
        return lambda v: diagonal_sum * v + grows.T @ (off_diagonal @ v) + off_diagonal.T @ (grows @ v)

    def _nodes(self, scores: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return _grid(scores, self.weights, math.log(self.m), self.q > 0, self.tol)

    def _drawn(self, lost: Tensor) -> tuple[Tensor, Tensor]:
        """1 - E e^{-sz} of one draw for each label, and where it is below 1; both [nodes, classes]."""
        total = lost.sum(-1, keepdim=True) if self.hits == "keep" else others(lost)  # 1 - E e^{-sz}
        if self.hits == "redraw":
            total = total / others(self.q)
        return total, total < 1


@typed
def coin_losses(log_inclusion: Tensor, correction: Tensor | None = None) -> Losses:
    r"""The exact implicit losses for Poisson sampling, class y with probability :math:`\pi_y`; hits are left out.

    ``log_inclusion`` is :math:`\log\pi < 0` [classes]. ``correction`` [classes], by default the same, is subtracted
    from every logit, the positive's included.

    Raises:
        ValueError: if a probability is 1 or more.

    Source: "Candidate Sampling Algorithms Reference" of TensorFlow derives the sampled softmax for such sets.
    """
    if not bool((log_inclusion < 0).all()):
        raise ValueError("an inclusion probability is 1 or more; it must be below 1")
    inclusion = log_inclusion.exp()
    log_q = log_inclusion if correction is None else correction

    def of_scores(scores: Tensor) -> Tensor:
        weights = log_q, -log_q
        u, _, kernel, log_z = _grid(scores, weights, math.log(len(scores)), inclusion > 0, 1e-12)
        log_each = torch.log1p(inclusion * torch.expm1(-torch.exp(u + log_z)))
        return (kernel * -torch.expm1(-others(-log_each))).sum(0)

    return of_scores


def set_losses(members: Tensor, probability: Tensor, correction: Tensor) -> Losses:
    """The implicit losses for any law of the set of negatives, by summing over all sets; hits are left out.

    ``members`` is [sets, classes] bool, ``probability`` [sets]. ``correction`` is subtracted from every logit:
    [classes], or [sets, classes] if it depends on the draw.
    """

    def of_scores(scores: Tensor) -> Tensor:
        return probability @ log1p_sums(members, scores, correction, correction)

    return of_scores


def others(terms: Tensor) -> Tensor:
    """Sums of all other terms, [..., classes], from terms >= 0; subtracting the largest would cost its sum's digits."""
    place = terms.argmax(-1, keepdim=True)
    rest = terms.scatter(-1, place, 0.0).sum(-1, keepdim=True)
    return (terms.sum(-1, keepdim=True) - terms).scatter(-1, place, rest)


def log1p_sums(counts: Tensor, scores: Tensor, minus: Tensor, own: Tensor | float, *, hits: bool = False) -> Tensor:
    r"""The losses :math:`\log(1+\sum_jn_je^{s_j-c_j-(s_y-o_y)})` of each draw and label y.

    They are finite for any finite scores s [classes]. ``counts`` n are [draws, classes], or bool; ``minus`` c and
    ``own`` o, of like shape, are subtracted from negatives and from the label. Unless ``hits`` count, j is not y.
    """
    scores = scores - scores.detach().max()  # a common shift would cost digits
    log_z, log_own = scores - minus, scores - own
    top = torch.where(counts > 0, log_z, log_z.amin(-1, keepdim=True)).amax(-1, keepdim=True).detach()
    terms = counts * torch.exp(torch.where(counts > 0, log_z - top, -math.inf))
    total, shift = terms.sum(-1, keepdim=True) if hits else others(terms), top - log_own
    far = (shift > 100) & (total > 0)  # the sum may leave the range of floats
    near = torch.log1p(total * torch.exp(shift.clamp_max(100)))
    log_sum = torch.where(far, total, 1.0).log() + shift
    return torch.where(far, torch.logaddexp(log_sum, torch.zeros_like(log_sum)), near)


@typed
def union_law(log_q: Tensor, m: int) -> tuple[Tensor, Tensor]:
    r"""The law of the union of m draws, from :math:`P(U_{k+l}=C) = \sum_{A\cup B=C}P(U_k=A)P(U_l=B)`.

    Members [2^classes, classes] and probability [2^classes], for :func:`set_losses`; at most 12 classes.
    """
    m, classes = checks.whole("m", m, 1), log_q.shape[-1] if log_q.ndim else 0
    if classes > 12:
        raise ValueError(f"there are 2^{classes} sets of {classes} classes; give at most 12 classes")
    sets, single = torch.arange(2**classes, device="cpu"), 2 ** torch.arange(classes, device="cpu")  # as bits
    draw = chance = torch.zeros(len(sets), dtype=torch.float64, device="cpu")
    draw[single] = checks.log_law("log_q", log_q.detach()).exp().cpu()
    for bit in f"{m:b}"[1:]:
        for other in (chance, draw)[: 1 + int(bit)]:
            doubled, chance = chance, torch.zeros_like(chance)
            for a in other.nonzero().flatten().tolist():
                chance.index_add_(0, sets | a, other[a] * doubled)  # no difference: rare unions keep their digits
            chance = chance / chance.sum()  # each doubling would double what rounding lacks of 1
    return ((sets.unsqueeze(-1) & single) > 0).to(log_q.device), chance.to(log_q.device)


@typed
def minimiser(of_scores: Losses, posterior: Tensor, start: Tensor | None = None, tol: float = 1e-9) -> Tensor:
    r"""The scores that minimise :math:`\sum_y P(y)\,\ell(y,f)`, shifted to mean 0, for thousands of classes.

    Newton's method with conjugate gradients, in the coordinates :math:`\sqrt{p_y}\,f_y`, in which the curvature is of
    order 1 for rare classes too.

    Args:
        of_scores: scores [classes] to the loss of each class as the label, twice differentiable. If it has a method
            ``curvature``, steps use that; it need not be exact.
        posterior: [classes] :math:`P(y\mid x)`, all positive.
        start: initial scores; the logarithm of the posterior by default.
        tol: largest change of a score by the last step.

    Raises:
        ValueError: if the posterior is not a positive law, or the steps stay above ``tol``: the minimum may lie at
            infinity, as for a class that is never drawn.
    """
    p = checks.law("posterior", posterior.detach())
    if not bool((p > 0).all()):
        raise ValueError("the posterior of a class is 0; give a positive law")
    closed: Callable[[Tensor, Tensor], Callable[[Tensor], Tensor]] | None = getattr(of_scores, "curvature", None)
    scale = p.sqrt()

    def slope(scores: Tensor) -> tuple[Tensor, Tensor]:
        point = scores.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(p @ of_scores(point), point, create_graph=closed is None)
        return point, gradient

    def hessian(point: Tensor, gradient: Tensor) -> Callable[[Tensor], Tensor]:
        """Its product with a vector, in closed form or from the graph of the gradient."""
        if closed is not None:
            return closed(point, p)
        return lambda v: torch.autograd.grad(gradient, point, v, retain_graph=True)[0]

    point, gradient = slope(p.log() if start is None else start.to(torch.float64))
    change = math.inf
    for _ in range(60):
        direction = _newton_direction(hessian(point, gradient), gradient.detach(), scale)
        change = direction.abs().max().item()
        if change <= tol:
            return point.detach() - point.detach().mean()
        direction = direction * min(1.0, STRIDE / change)
        length = (gradient / scale).norm()
        for halvings in range(30):
            trial = slope(point + 0.5**halvings * direction)
            if (trial[1] / scale).norm() < length:
                break
        point, gradient = trial
    raise ValueError(f"the search still moves a score by {change:.1e}; is the minimum finite?")


def _newton_direction(hessian: Callable[[Tensor], Tensor], gradient: Tensor, scale: Tensor) -> Tensor:
    flat = (scale / scale.norm()).cpu().numpy()  # a common shift, which has no curvature

    def curvature(vector: NDArray[np.float64]) -> NDArray[np.float64]:
        product = hessian(torch.from_numpy(vector).to(scale.device) / scale) / scale
        return np.asarray(product.cpu().numpy() + flat * (flat @ vector))

    operator = LinearOperator((len(scale), len(scale)), matvec=curvature, dtype=np.float64)
    step, _ = cg(operator, -(gradient / scale).cpu().numpy(), rtol=1e-2, maxiter=60)
    return torch.from_numpy(step).to(scale.device) / scale


def _grid(
    scores: Tensor, weights: tuple[Tensor, Tensor], log_draws: float, drawn: Tensor, tol: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r"""Nodes u = log s [nodes, 1], :math:`s/c_y` and :math:`h\,e^{-s/c_y}` [nodes, classes], and log z [classes]."""
    log_a, log_b = weights
    if scores.shape != log_a.shape or not bool(scores.isfinite().all()):
        raise ValueError(
            f"scores {tuple(scores.shape)} must be finite numbers {tuple(log_a.shape)}, one for each class"
        )
    worthless = log_a == -math.inf  # the weights of such a label are 0, and so is its loss
    scores = scores - scores.detach().max()  # a common shift changes nothing but the rounding
    log_c = torch.where(worthless, log_a[~worthless].amin(), log_a) - scores
    log_z = torch.where(drawn, log_b + scores, -math.inf)
    spread = (log_c.max() - log_c.min()).item()
    largest = (log_z.max() + log_c.max()).item() + log_draws
    base = rule(tol, max(largest, 0.0) + spread)
    nodes = base.nodes(scores.device).unsqueeze(-1) + log_c.detach().max()
    rate = torch.exp(nodes - log_c)
    return nodes, rate, torch.where(worthless, 0.0, base.step * torch.exp(-rate)), log_z
