r"""What a cross entropy promises about a rank, in both directions.

A class of rank r has r - 1 others at or above its score, so :math:`p \le 1/r`, by whatever rule ties are broken: the
cross entropy :math:`c = -\log p` is at least :math:`\log r`. Read from c to r, each bound here is the best possible one
unless its function says otherwise. With a label distribution over several relevant items (:func:`listnet`),
:math:`c \ge \sum_i t_i \log r_i`.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from sumexp.losses import cross_entropy
from sumexp.losses.arguments import Reduction, reduce


def listnet(logits: Tensor, targets: Tensor, *, reduction: Reduction = "mean") -> Tensor:
    r"""The ListNet loss: the cross entropy between a label distribution and the softmax of the scores.

    .. math:: \ell = -\sum_i t_i \log p_i, \qquad t_i = \frac{g_i}{\sum_j g_j}, \qquad p = \mathrm{softmax}(z)

    For 0/1 relevance it is :math:`-\frac1R\sum_{i\in\mathrm{Rel}}\log p_i`, the mean of the softmax cross entropies of
    the R relevant items, each taken for the only one; with R = 1 it is the softmax cross entropy.

    Args:
        logits: [B, L]; -inf for an item that cannot be, unless it is relevant.
        targets: [B, L] bool, or gains >= 0, which are normalised; at least one is positive.
        reduction: ``mean``, ``sum`` or ``none``.

    Raises:
        ValueError: for shapes that do not fit, NaN or +inf, a list without relevant item, a relevant item with logit
            -inf, a negative gain, or the mean of an empty batch.

    Source: the ranking post, ListNet loss; Bruch et al. (2019).
    """
    gains = _check(logits, targets)
    shares = gains / gains.sum(-1, keepdim=True)
    log_p = torch.log_softmax(logits, -1)
    return reduce(-(shares * log_p.masked_fill(gains == 0, 0)).sum(-1), reduction)


def marginal(logits: Tensor, relevant: Tensor, *, reduction: Reduction = "mean") -> Tensor:
    r"""The marginal loss :math:`-\log\sum_{i\in\mathrm{Rel}} p_i`, which is *no* bound of the log rank for R > 1.

    What it bounds is :math:`\log\big(1 + \frac{r-1}R\big)`, with r the rank of the first of the R relevant items.

    Args:
        logits: [B, L].
        relevant: [B, L] bool.
        reduction: ``mean``, ``sum`` or ``none``.

    Raises:
        ValueError: as :func:`listnet`.
    """
    gains = _check(logits, relevant)
    log_p = torch.log_softmax(logits, -1)
    return reduce(-log_p.masked_fill(gains == 0, -torch.inf).logsumexp(-1), reduction)


def margin_cross_entropy(
    logits: Tensor, labels: Tensor, margin: float | Tensor, *, reduction: Reduction = "mean"
) -> Tensor:
    r"""The softmax cross entropy with a margin taken off the target's logit, as in CosFace.

    .. math:: \ell = \log\Big(1 + \sum_{y'\ne y} e^{f_{y'} - f_y + \delta}\Big)

    For :math:`\delta \ge 0` it is at least the cross entropy without margin, and so at least the log rank by f.

    Args:
        logits: [B, L], for CosFace a scale times cosines.
        labels: [B].
        margin: :math:`\delta`, for CosFace the scale times its margin; a number or [B].
        reduction: ``mean``, ``sum`` or ``none``.

    Raises:
        ValueError: as :func:`sumexp.losses.cross_entropy`.
    """
    own = torch.nn.functional.one_hot(labels, logits.shape[-1]).to(logits.dtype)
    shift = torch.as_tensor(margin, dtype=logits.dtype, device=logits.device).expand(len(labels))
    return cross_entropy(logits - own * shift.unsqueeze(-1), labels, reduction=reduction)


def arcface_margin(cosine: Tensor, margin: float, *, guarded: bool = True) -> Tensor:
    r"""By how much ArcFace lowers the cosine of the target, :math:`\cos\theta - \cos(\theta + m)`.

    As printed this is *negative* for :math:`\theta > \pi - m/2`: there the target's logit is raised, and the loss
    bounds no rank. Implementations guard it: beyond :math:`\theta = \pi - m` they take :math:`m\sin m` instead, which
    is never negative.

    Args:
        cosine: of the angle between an example and its own class, in [-1, 1].
        margin: m in radians, 0 <= m <= pi/2.
        guarded: False for the formula as printed.

    Raises:
        ValueError: if the margin is out of range.
    """
    if not 0 <= margin <= math.pi / 2:
        raise ValueError(f"margin is {margin!r}; ArcFace's margin is an angle in [0, pi/2]")
    square = 1 - cosine.square()
    inside = square > 0  # at cosines of 1 and -1 the root has no derivative
    sine = torch.where(inside, torch.where(inside, square, 1).sqrt(), 0)
    lowered = cosine * (1 - math.cos(margin)) + sine * math.sin(margin)
    if not guarded:
        return lowered
    return torch.where(cosine > -math.cos(margin), lowered, margin * math.sin(margin))


class Ranks(NamedTuple):
    """The least and the greatest rank that a class can have."""

    least: int
    greatest: int


def possible_ranks(cross_entropy: float, classes: int) -> Ranks:
    r"""All ranks that a class with a given cross entropy c can have; every rank between the two occurs.

    The greatest is the largest :math:`r \le \min(n, e^c)`. The least is 1 if :math:`c \le \log n` and 2 beyond: a
    class that is first has :math:`p \ge 1/n`, one that is second can have any p below 1/2. Logits of -inf are allowed,
    and a tie may be broken either way.

    Raises:
        ValueError: if the cross entropy is negative or NaN, or there are fewer than two classes.
    """
    if not cross_entropy >= 0 or classes < 2:
        raise ValueError(f"cross entropy {cross_entropy!r} and {classes} classes; expected a number >= 0 and >= 2")
    slack = 1e-12  # c = log r itself allows r
    greatest = min(classes, math.floor(math.exp(min(cross_entropy, 700)) * (1 + slack)))
    return Ranks(1 if cross_entropy <= math.log(classes) * (1 + slack) else 2, greatest)


def least_rr(cross_entropy: Tensor) -> Tensor:
    """The reciprocal rank, and the mean reciprocal rank, that a (mean) cross entropy c guarantees: exp(-c)."""
    return torch.exp(-cross_entropy)


def least_ndcg(cross_entropy: Tensor) -> Tensor:
    r"""The NDCG, and the mean NDCG, that a (mean) cross entropy c guarantees: :math:`1/\log_2(1+e^c)`.

    It falls like 1/c, where the usual :math:`e^{-c} \le 1/\log_2(1+e^c)` falls exponentially. It holds for
    :func:`listnet` with any gains, and at every n and R.
    """
    return math.log(2) / -torch.nn.functional.logsigmoid(-cross_entropy)


def least_recall(cross_entropy: Tensor, k: int) -> Tensor:
    r"""The mean recall at k that a mean cross entropy c guarantees: :math:`1 - c/\log(k+1)`, or 0 if that is negative.

    By Markov's inequality, as :math:`\log r \ge \log(k+1)` for each relevant item that is not among the first k.

    Raises:
        ValueError: if k < 1.
    """
    if k < 1:
        raise ValueError(f"k is {k}; expected at least 1")
    return (1 - cross_entropy / math.log(k + 1)).clamp_min(0)


def least_first_rr(cross_entropy: Tensor, relevant: Tensor) -> Tensor:
    r"""The reciprocal rank of the first of R relevant items that a ListNet cross entropy c guarantees.

    .. math:: r \le e^c - R + 1

    With the first at place r, r - 1 others are at or above all R relevant ones, whose probabilities then sum to at most
    :math:`R/(R+r-1)`; so their mean logarithm is at most :math:`-\log(R+r-1)`, attained where all of these tie. For
    R = 1 it is :func:`least_rr`. For uniform labels, and each list by itself: not for means over lists.

    Args:
        cross_entropy: [B].
        relevant: [B] the numbers R of relevant items.

    Raises:
        ValueError: if the shapes differ, R < 1, or a cross entropy is NaN or below its least value :math:`\log R`.
    """
    c, size = cross_entropy.double(), relevant.double()
    if c.shape != size.shape or bool((size < 1).any()):
        raise ValueError(
            f"cross entropies {tuple(c.shape)} and numbers of relevant items {tuple(size.shape)} must both be [B], the "
            "numbers at least 1"
        )
    if not bool((c >= size.log() - 1e-5).all()):  # 1e-5: a loss in single precision
        raise ValueError("a cross entropy is NaN or below log R, the least that R relevant items can have")
    return 1 / (c.exp() - size + 1).clamp_min(1)


def expected_rank(scores: Tensor, labels: Tensor, sigma: float) -> Tensor:
    r"""SoftRank: the expected rank of a label if each score is the centre of a Gaussian, smooth in the scores.

    .. math:: \mathbb E\,r_i = 1 + \sum_{j\ne i} \Phi\Big(\frac{z_j - z_i}{\sigma\sqrt2}\Big)

    Args:
        scores: [B, L].
        labels: [B].
        sigma: standard deviation of each Gaussian, > 0.

    Raises:
        ValueError: if sigma is not positive, or a score is not finite.

    Source: the ranking post, footnote 1; Taylor et al. (2008).
    """
    if not sigma > 0:
        raise ValueError(f"sigma is {sigma!r}; expected a number > 0")
    if not bool(scores.isfinite().all()):
        raise ValueError("scores must be finite to be centres of Gaussians")
    ahead: Tensor = torch.special.ndtr((scores - scores.gather(-1, labels.unsqueeze(-1))) / (sigma * math.sqrt(2)))
    return 0.5 + ahead.sum(-1)  # the label itself contributes 1/2


def _check(logits: Tensor, targets: Tensor) -> Tensor:
    """The gains, in the logits' precision."""
    if logits.ndim != 2 or not logits.is_floating_point() or targets.shape != logits.shape:
        raise ValueError(
            f"logits {tuple(logits.shape)} ({logits.dtype}) and targets {tuple(targets.shape)} must both be [B, L]"
        )
    gains = targets.to(logits.dtype)
    if not logits.numel():
        return gains
    if not logits.detach().max() < torch.inf:
        raise ValueError("a logit is NaN or +inf; logits must be finite, or -inf for an item that cannot be")
    if not (gains.min() >= 0 and gains.max() < torch.inf):
        raise ValueError("targets must be finite numbers >= 0")
    if bool((empty := (gains == 0).all(-1)).any()):
        raise ValueError(f"list {int(empty.nonzero()[0])} has no relevant item; leave such lists out")
    if bool(((logits.detach() == -torch.inf) & (gains > 0)).any()):
        raise ValueError("a relevant item has the logit -inf: an infinite loss has no gradient")
    return gains
