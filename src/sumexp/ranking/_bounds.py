"""What a cross entropy promises about a rank, in both directions. The proof in short: see the package."""

import math
from collections.abc import Callable
from numbers import Real
from typing import NamedTuple

import torch
from torch import Tensor

from sumexp import _checks as checks


class Ranks(NamedTuple):
    """The least and the greatest rank that a class can have."""

    least: int
    greatest: int


def possible_ranks(cross_entropy: float, classes: int) -> Ranks:
    r"""All ranks that a class with a given cross entropy c can have; every rank between the two occurs.

    The greatest is the largest :math:`r \le \min(n, e^c)`. The least is 1 if :math:`c \le \log n` and 2 beyond: a
    class that is first has :math:`p \ge 1/n`, one that is second can have any p below 1/2. A tie may be broken either
    way. Where :math:`e^c` is a whole number below n, that rank needs logits of -inf; finite ones stay below it.

    >>> ranking.possible_ranks(0.5, 10)
    Ranks(least=1, greatest=1)

    Raises:
        ValueError: if the cross entropy is negative or NaN, or there are fewer than two classes.
    """
    classes = checks.whole("classes", classes, 2)
    if not (isinstance(cross_entropy, Real) and cross_entropy >= 0):
        raise ValueError(f"the cross entropy is {cross_entropy!r}; it must be a number >= 0")
    slack = 1e-14  # c = log r itself allows r
    greatest = min(classes, math.floor(math.exp(min(cross_entropy, 700)) * (1 + slack)))
    return Ranks(1 if cross_entropy <= math.log(classes) * (1 + slack) else 2, greatest)


def least_rr(cross_entropy: checks.Values, relevant: checks.Values = 1, *, classes: int | None = None) -> Tensor:
    r"""The mean reciprocal rank that a mean cross entropy c guarantees.

    It is the chord, at c, of the points

    .. math:: \big(\log(R + r - 1),\ 1/r\big), \qquad r = 1, 2, 3, \dots

    R items are relevant in each list, and the rank is that of the first; c is the mean of
    :func:`sumexp.functional.listnet` with uniform labels. With the first at place r, r - 1 others are at or above all R
    relevant ones, whose probabilities then sum to at most :math:`R/(R+r-1)`; so each list has :math:`c \ge
    \log(R+r-1)`. The points lie on the convex curve :math:`1/(e^c - R + 1)`, which the chords touch there. Lists with
    different R have at least what the smallest R guarantees, and lists with any gains what R = 1 does.

    >>> ranking.least_rr(0.5)
    tensor(0.6393, dtype=torch.float64)

    Args:
        cross_entropy: [...], means over lists.
        relevant: R, a whole number or of a shape that broadcasts.
        classes: the number of items, below whose rank none can fall; unbounded if None.

    Returns:
        [...], float64: the greatest lower bound over all scores of all lists.

    Raises:
        ValueError: if R < 1, or a cross entropy is NaN or below its least value :math:`\log R`.
    """
    given = checks.double(checks.reals("cross_entropy", cross_entropy))
    size = checks.onto(checks.double(checks.reals("relevant", relevant)), given.device)
    if checks.read(((size < 1) | (size % 1 != 0)).any())[0]:
        raise ValueError(f"relevant is {relevant!r}; the numbers of relevant items must be whole and at least 1")
    checks.together(cross_entropy=given, relevant=size)
    return _chord(given, lambda r: 1 / r, lambda c: (-c).exp() / (1 - (size - 1) * (-c).exp()), size, classes)


def least_ndcg(cross_entropy: checks.Values, *, classes: int | None = None) -> Tensor:
    r"""The mean NDCG that a mean cross entropy c guarantees.

    It is the chord, at c, of the points

    .. math:: \big(\log r,\ 1/\log_2(1+r)\big), \qquad r = 1, 2, 3, \dots

    They lie on the convex curve :math:`1/\log_2(1+e^c)`, which falls like 1/c, where the usual
    :math:`e^{-c} \le 1/\log_2(1+e^c)` falls exponentially. It holds for :func:`sumexp.functional.listnet` with any
    gains, and is the greatest lower bound for lists with one relevant item.

    >>> ranking.least_ndcg(0.5)
    tensor(0.7338, dtype=torch.float64)

    Args:
        cross_entropy: [...], means over lists.
        classes: the number of items, below whose rank none can fall; unbounded if None.

    Returns:
        [...], float64.

    Raises:
        ValueError: if a cross entropy is NaN or negative.
    """

    def metric(r: Tensor) -> Tensor:
        return math.log(2) / torch.log1p(r)

    def curve(c: Tensor) -> Tensor:
        return math.log(2) / (c + torch.log1p((-c).exp()))

    return _chord(cross_entropy, metric, curve, torch.ones((), dtype=torch.float64, device="cpu"), classes)


def least_recall(cross_entropy: checks.Values, k: int) -> Tensor:
    r"""The mean recall at k that a mean cross entropy c guarantees: :math:`1 - c/\log(k+1)`, or 0 if that is negative.

    It is the lower convex hull of the points :math:`(\log r, 1)` for :math:`r \le k` and :math:`(\log r, 0)` beyond,
    and the greatest lower bound for lists with one relevant item. With several the recall of an item counts by its
    share of the gains, as in the loss: with uniform labels it is the usual recall, with graded gains
    ``recall(scores, gains, k)``.

    >>> ranking.least_recall(0.5, 1)
    tensor(0.2787, dtype=torch.float64)

    Args:
        cross_entropy: [...], means over lists.
        k: how many places count; with so many items or fewer, recall is 1 and there is nothing to promise.

    Returns:
        [...], float64.

    Raises:
        ValueError: if k < 1, or a cross entropy is NaN or negative.
    """
    k = checks.whole("k", k, 1)
    least = torch.zeros((), dtype=torch.float64, device="cpu")
    return (1 - _cross_entropy(cross_entropy, least) / math.log(k + 1)).clamp_min(0)


def expected_rank(scores: checks.Values, labels: checks.Values, sigma: float) -> Tensor:
    r"""SoftRank: the expected rank of a label if each score is the centre of a Gaussian, smooth in the scores.

    .. math:: \mathbb E\,r_i = 1 + \sum_{j\ne i} \Phi\Big(\frac{z_j - z_i}{\sigma\sqrt2}\Big)

    >>> ranking.expected_rank(torch.tensor([[2.0, 1.0, 0.0]]), [0], 1.0)
    tensor([1.3184], dtype=torch.float64)

    Args:
        scores: [B, L].
        labels: [B].
        sigma: standard deviation of each Gaussian, > 0.

    Returns:
        [B], float64.

    Raises:
        ValueError: if sigma is not positive, a score is not finite, a shape does not fit, or a label is no item; of the
            scores and labels in graphs and under ``vmap`` only the shapes are checked.

    Source: the ranking post, footnote 1; Taylor et al. (2008).
    """
    sigma = checks.number("sigma", sigma)
    scores, labels = checks.reals("scores", scores), checks.integers("label", labels)
    if scores.ndim != 2 or labels.shape != scores.shape[:1]:
        raise ValueError(f"scores {tuple(scores.shape)} and labels {tuple(labels.shape)} must be [B, L] and [B]")
    z = checks.double(scores)
    labels = labels.to(z.device)
    if not checks.read(z.detach().isfinite().all(), default=1.0)[0]:
        raise ValueError("scores must be finite to be centres of Gaussians")
    positive = z.gather(-1, checks.ids("label", labels, z.shape[1]).unsqueeze(-1))
    # The root of two first: a difference by a tiny sigma may overflow to infinity, which has its limit.
    ahead: Tensor = torch.special.ndtr((z - positive) / math.sqrt(2) / sigma)
    return 0.5 + ahead.sum(-1)  # the label itself contributes 1/2


def _cross_entropy(values: checks.Values, least: Tensor) -> Tensor:
    """Mean cross entropies in float64, raised to the least that there can be."""
    c = checks.double(checks.reals("cross_entropy", values))
    if not checks.read((c.detach() >= least - 1e-5).all(), default=1.0)[0]:  # 1e-5: a loss in single precision
        raise ValueError("a cross entropy is NaN or negative, or below log R, the least that R relevant items can have")
    return torch.maximum(c, least)


def _chord(
    values: checks.Values,
    metric: Callable[[Tensor], Tensor],
    curve: Callable[[Tensor], Tensor],
    size: Tensor,
    classes: int | None,
) -> Tensor:
    """The chord at c of the points (log(R + r - 1), metric(r)) of a convex curve."""
    c = _cross_entropy(values, size.log())
    if classes is not None:
        largest = checks.read(size.max(), default=1.0)[0] if size.numel() else 1
        c = c.clamp_max(math.log(checks.whole("classes", classes, int(largest))))
    # Far out a chord is its curve in floats, and the difference of its ends has no digits left for a gradient.
    far = (c > 34) | (c.exp() - size > 1 << 26)
    total = torch.where(far, size, c.detach().exp()).floor().maximum(size)  # R + r - 1, or one off by rounding
    low, high = total - size + 1, total - size + 2
    share = (c - total.log()) / torch.log1p(1 / total)
    chord = metric(low) + share * (metric(high) - metric(low))
    return torch.where(far, curve(c), chord)
