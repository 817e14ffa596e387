r"""Which sampled cross entropies still bound the log rank, exactly.

A sampling scheme, fixed before the logits, gives each of the n negatives y' a random total weight :math:`W_{y'} \ge 0`
(0 where it is not drawn). The loss is :math:`\log(1 + \sum_{y'} W_{y'} e^{f_{y'} - f_y})`. As it rises in every score
of a negative, its expected value is at least :math:`\log r` for *all* logits if and only if

.. math:: (C)\qquad \mathbb E\log\Big(1 + \sum_{y'\in S} W_{y'}\Big) \ge \log(1 + |S|)
          \quad\text{for every set } S \text{ of negatives:}

the worst logits tie on S and are :math:`-\infty` elsewhere. For draws with replacement from any q, for the
union of such draws, for conditional Poisson sampling (uniform subsets among them) and for independent coins, but not
always for draws until m ids are distinct, the sets of one element suffice: (C) holds if and only if
:math:`\mathbb E\log(1 + W_{y'}) \ge \log 2` for each y' (the proof is in the chapter).
"""

import math
from collections.abc import Sequence
from itertools import combinations, combinations_with_replacement
from numbers import Real
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from sumexp import _checks as checks
from sumexp import expectations

LARGEST = 16
"""Negatives for which all sets are visited."""

MOST = 1 << 24
"""Draws, or ranks, over which a sum or a search goes."""

WHOLE = 1 << 53
"""Negatives: up to here float64 counts by one."""

_CHUNK = 1 << 22

_STEPS = 60
"""Of Newton's method, which takes six."""

_LINEAR = 40.0
"""From this log w on E log(1 + wK) is linear in it to 1e-17, with the probability of a hit as its slope."""


def expected_loss(
    logits: checks.Values,
    label: int,
    num_negatives: int,
    weights: checks.Values = 1.0,
    log_q: checks.Values | None = None,
) -> Tensor:
    r"""The exact mean of :math:`\log(1 + \sum_j w_{y_j} e^{f_{y_j} - f_y})`, m negatives drawn with replacement from q.

    >>> ranking.expected_loss(torch.zeros(3), 0, 1)  # log 2
    tensor(0.6931, dtype=torch.float64)

    Args:
        logits: [..., L]; the label's is finite.
        label: the positive, never drawn.
        num_negatives: m, the number of draws.
        weights: one for all negatives or [L], what a draw counts; 1 is InfoNCE, :math:`1/(mq)` importance sampling.
        log_q: [L] log probabilities up to a constant, normalised over the negatives; uniform if None.

    Returns:
        [...], float64.

    Raises:
        ValueError: if the label is no class, a weight is not positive, or as `sumexp.expectations.with_replacement`.
    """
    for name, given in (("logits", logits), ("weights", weights), ("log_q", log_q)):
        checks.check_order(name, given)
    logits = checks.reals("logits", logits)
    classes = logits.shape[-1] if logits.ndim else 0
    if classes < 2:
        raise ValueError(f"logits have {classes} classes; a positive and a negative are needed")
    label = checks.whole("label", label, 0, classes - 1)
    num_negatives = checks.whole("num_negatives", num_negatives, 1, MOST)
    log_w = checks.double(checks.reals("weights", weights)).log()
    law = None if log_q is None else checks.double(checks.reals("log_q", log_q))
    if log_w.shape not in {(), (1,), (classes,)} or (law is not None and law.shape != (classes,)):
        shapes = tuple(log_w.shape), law if law is None else tuple(law.shape)
        raise ValueError(f"weights and log_q have the shapes {shapes}; give one weight or [{classes}], and [{classes}]")
    if not bool((log_w.isfinite()).all()):
        raise ValueError("weights must be positive and finite")
    f = checks.double(logits)
    others = torch.arange(classes, device=f.device) != label
    terms = (f - f[..., label : label + 1] + log_w.to(f.device))[..., others]
    proposal = None if law is None else torch.log_softmax(law.to(f.device)[others], -1)
    return expectations.expect(expectations.with_replacement(terms, num_negatives, proposal)).loss


def hit_losses(n: int, num_negatives: int, weight: float, sizes: checks.Values, *, replacement: bool = True) -> Tensor:
    r""":math:`\mathbb E\log(1 + wK_s)`, :math:`K_s` the number of the m uniform draws that fall among s of n negatives.

    The least expected loss of a positive of rank 1 + s, by a sum over the values of :math:`K_s` (binomial, or
    hypergeometric without replacement). With w = 1 it is the expected log of the rank among the sampled candidates.

    >>> ranking.hit_losses(9, 3, 1.0, torch.tensor([0, 9]))
    tensor([0.0000, 1.3863], dtype=torch.float64)

    Args:
        n: number of all negatives, L - 1.
        num_negatives: m, the number of draws.
        weight: w, the same for all.
        sizes: [...] integers s in 0..n.
        replacement: whether a negative can be drawn twice.

    Raises:
        ValueError: if a number is out of range.
    """
    n = checks.whole("n", n, 1, WHOLE)
    m = checks.whole("num_negatives", num_negatives, 1, MOST if replacement else min(n, MOST))
    weight, sizes = checks.number("weight", weight), checks.reals("sizes", sizes)
    s = checks.double(sizes).reshape(-1, 1)
    if (wrong := ~((s >= 0) & (s <= n) & (s == s.floor()))).any():
        raise ValueError(f"a size is {s[wrong][0].item():g}; sizes must be whole numbers in 0..{n}")
    k = torch.arange(m + 1, dtype=torch.float64, device=s.device)
    gain = torch.log1p(weight * k)
    parts = [hit_law(n, m, rows, k, replacement) @ gain for rows in torch.split(s, max(1, _CHUNK // (m + 1)))]
    return torch.cat([*parts, s.new_zeros(0)]).reshape(sizes.shape)


def deficits(n: int, num_negatives: int, weight: float, sizes: checks.Values, *, replacement: bool = True) -> Tensor:
    r""":math:`\log(1+s) - \mathbb E\log(1+wK_s)`: how far the loss can fall below the log rank; (C) says never above 0.

    Arguments and errors as for :func:`hit_losses`.

    >>> ranking.deficits(9, 3, 1.0, torch.tensor([0, 9]))
    tensor([0.0000, 0.9163], dtype=torch.float64)
    """
    least = hit_losses(n, num_negatives, weight, sizes, replacement=replacement)
    return torch.log1p(checks.double(checks.reals("sizes", sizes))) - least


class Constant(NamedTuple):
    """What must be added to a sampled loss, and the rank at which it is needed."""

    constant: float
    rank: int


def additive_constant(n: int, num_negatives: int, weight: float | None = None, *, replacement: bool = True) -> Constant:
    r"""The least c with :math:`\mathbb E\,\ell + c \ge \log r` for all logits, for uniform sampling.

    >>> found = ranking.additive_constant(9, 3)
    >>> round(found.constant, 12), found.rank
    (0.29004208917, 3)

    Args:
        n: number of all negatives, L - 1; all ranks are visited, m + 1 numbers for each.
        num_negatives: m, the number of draws.
        weight: the importance weight n/m if None.
        replacement: whether a negative can be drawn twice.

    Raises:
        ValueError: as :func:`hit_losses`.
    """
    n, m = checks.whole("n", n, 1, MOST), checks.whole("num_negatives", num_negatives, 1, MOST)
    weight = n / m if weight is None else weight
    missing = deficits(n, m, weight, torch.arange(n + 1, device="cpu"), replacement=replacement)
    worst = int(missing.argmax())
    return Constant(missing[worst].item(), 1 + worst)


def log_least_weight(q: checks.Values, num_negatives: int) -> Tensor:
    r"""The log of the least constant weight of each negative with which the loss bounds the log rank.

    m draws with replacement; the root of :math:`\mathbb E\log(1 + wK) = \log 2`, K binomial (m, q). For small mq it is
    near :math:`2^{1/(mq)}`, which no float can hold: hence the logarithm. For one draw it is
    :math:`2^{1/q} - 1`; for a k-subset of n, put m = 1 and q = k/n. The mean is one integral
    (`sumexp.expectations.with_replacement`), so that the number of draws costs nothing.

    >>> ranking.log_least_weight(torch.tensor([1.0, 0.5]), 1).exp()  # 2^(1/q) - 1
    tensor([1.0000, 3.0000], dtype=torch.float64)

    Args:
        q: [...] probabilities of a draw, in (0, 1].
        num_negatives: m, the number of draws, 1 to 2^53.

    Raises:
        ValueError: if a probability or m is out of range.
    """
    checks.check_order("q", q)
    q = checks.reals("q", q)
    p = checks.double(q.detach()).flatten()
    m = checks.whole("num_negatives", num_negatives, 1, WHOLE)
    if len(p) and not (p.min() > 0 and p.max() <= 1):
        raise ValueError(f"q must lie in (0, 1], got {p.min().item()!r} to {p.max().item()!r}")
    log_q = torch.stack([p.log(), torch.log1p(-p)], -1)  # of this negative, and of all others, whose weight is 0
    hit = -torch.expm1(m * torch.log1p(-p))
    # The mean is convex in log w, so that Newton's steps fall to the root from any start above it. There is one: the
    # loss is at least log(1 + w) whenever there is a hit.
    x = math.log(2) / hit
    log_w = x + torch.log(-torch.expm1(-x))
    for _ in range(_STEPS):
        mean, slope = _mean_and_slope(log_w.clamp(max=_LINEAR), m, log_q)
        slope = torch.where(log_w < _LINEAR, slope, hit)
        step = log_w.clamp(max=_LINEAR) + (math.log(2) - mean) / slope - log_w
        log_w = log_w + step
        if bool((step.abs() <= 1e-9 * log_w.abs().clamp(min=1)).all()):
            break  # the next step would be near its square
    return log_w.reshape(q.shape)


def _mean_and_slope(log_w: Tensor, m: int, log_q: Tensor) -> tuple[Tensor, Tensor]:
    """E log(1 + wK) and its derivative in log w, [rows], as one integral: the number of draws costs nothing."""
    with torch.inference_mode(False), torch.enable_grad():
        x, log_q = log_w.clone().requires_grad_(), log_q.clone()
        terms = torch.stack([x, torch.full_like(x, -math.inf)], -1)
        mean = expectations.expect(expectations.with_replacement(terms, m, log_q), 1e-13).loss
        (slope,) = torch.autograd.grad(mean.sum(), x)
    return mean.detach(), slope


def certified_rank(loss: float, n: int, num_negatives: int, weight: float = 1.0, *, replacement: bool = True) -> int:
    r"""The greatest rank that a positive can have whose expected sampled loss is at most ``loss``.

    The expected loss of rank r is at least :math:`\mathbb E\log(1 + wK_{r-1})`, which rises with r: so even InfoNCE
    (w = 1) says something of the full rank, only not that its log is below the loss.

    >>> ranking.certified_rank(0.5, 99, 10)
    9

    Args:
        loss: the mean over negatives for one positive, >= 0.
        n: number of all negatives, L - 1, of which the m are drawn uniformly.
        num_negatives: m, the number of draws.
        weight: of each.
        replacement: whether a negative can be drawn twice.

    Raises:
        ValueError: if the loss is negative or NaN, or as :func:`hit_losses`.
    """
    if not (isinstance(loss, Real) and loss >= 0):
        raise ValueError(f"loss is {loss!r}; an expected loss is a number >= 0")
    # The least loss of 1 + low is at most the loss, that of 1 + high above it. Rounding moves least losses by 1e-14:
    # with a slack of 1e-12 no rank is left out.
    low, high = 0, checks.whole("n", n, 1, WHOLE) + 1
    while high - low > 1:
        middle = (low + high) // 2
        least = hit_losses(n, num_negatives, weight, middle, replacement=replacement).item()
        low, high = (middle, high) if least / (1 + 1e-12) <= loss else (low, middle)
    return 1 + low


class WeightLaw(NamedTuple):
    """A finite law of the weights: outcome i has ``probabilities[i]`` and gives the negatives ``weights[i]`` [n]."""

    probabilities: Tensor
    weights: Tensor


def draws(q: Sequence[float], m: int, weights: Sequence[float]) -> WeightLaw:
    """The weights of m draws with replacement from q, a draw of y' counting ``weights[y']``: all its multisets."""
    rows, chances = [], []
    for drawn in combinations_with_replacement(range(len(q)), m):
        counts = [drawn.count(y) for y in range(len(q))]
        ways = math.factorial(m) / math.prod(math.factorial(c) for c in counts)
        chances.append(ways * math.prod(p**c for p, c in zip(q, counts, strict=True)))
        rows.append([w * c for w, c in zip(weights, counts, strict=True)])
    return WeightLaw(checks.reals("chances", chances), checks.reals("rows", rows))


def subsets(n: int, k: int, weights: Sequence[float]) -> WeightLaw:
    """The weights of a uniform k-subset of n negatives."""
    k = checks.whole("k", k, 0, n)
    rows = [[w * (y in c) for y, w in zip(range(n), weights, strict=True)] for c in combinations(range(n), k)]
    return WeightLaw(checks.reals("chances", [1 / len(rows)] * len(rows)), checks.reals("rows", rows))


class Worst(NamedTuple):
    """The set of negatives on which (C) fails most, or holds most narrowly, and by how much."""

    deficit: float
    negatives: tuple[int, ...]


@checks.typed
def worst_set(scheme: WeightLaw) -> Worst:
    r"""Visit every non-empty set S of negatives and return the one with the greatest deficit.

    The deficit is :math:`\log(1+|S|) - \mathbb E\log(1+W_S)`; the expected loss bounds the log rank for all logits if
    and only if it is not positive.

    >>> law = ranking.sampled.draws([0.5, 0.5], 1, [1.0, 1.0])
    >>> ranking.worst_set(law).deficit
    0.4054651081081645

    Raises:
        ValueError: for shapes that do not fit, probabilities that do not sum to 1, a negative weight, or more than 16
            negatives.
    """
    probabilities, weights = map(checks.reals, scheme._fields, scheme)
    n = weights.shape[-1] if weights.ndim else 0
    if probabilities.ndim != 1 or weights.shape != (len(probabilities), n) or not 1 <= n <= LARGEST:
        raise ValueError(
            f"probabilities {tuple(probabilities.shape)} and weights {tuple(weights.shape)} must be [K] and [K, n], "
            f"1 <= n <= {LARGEST}"
        )
    probabilities, weights = checks.double(checks.law("probabilities", probabilities)), checks.double(weights)
    if not (weights.min() >= 0 and weights.max() < math.inf):
        raise ValueError("weights must be finite numbers >= 0")
    numbers, place = (torch.arange(*span, device=weights.device) for span in ((1, 2**n), (n,)))
    sets = numbers.unsqueeze(-1).bitwise_right_shift(place).bitwise_and(1).double()
    missing = torch.log1p(sets.sum(-1)) - probabilities @ torch.log1p(weights @ sets.T)
    worst = int(missing.argmax())
    return Worst(missing[worst].item(), tuple(sets[worst].nonzero().flatten().tolist()))


def hit_law(n: int, m: int, s: Tensor, k: Tensor, replacement: bool) -> Tensor:
    """P(K_s = k), [rows, m + 1], by the ratios of neighbours from the mode on: log factorials would cancel."""
    if replacement:
        mode, up, down = torch.floor((m + 1) * (s / n)).clamp(max=m), s, n - s
    else:
        mode = torch.floor((m + 1) * ((s + 1) / (n + 2))).clamp(max=m).minimum(s).maximum(m - (n - s))
        up, down = (s - k).clamp(min=0), (n - s - m + k + 1).clamp(min=0)
    step = torch.log(((m - k) / (k + 1) * (up / down))[:, :-1])  # from k to k + 1
    rise = torch.where(k[:-1] >= mode, step, 0.0).cumsum(-1)
    fall = torch.where(k[:-1] < mode, -step, 0.0).flip(-1).cumsum(-1).flip(-1)
    return torch.softmax(F.pad(rise, (1, 0)) + F.pad(fall, (0, 1)), -1)
