r"""What a cross entropy promises about a rank, in both directions.

A class of rank r has r - 1 others at or above its score, so :math:`p \le 1/r`, by whatever rule ties are broken: the
cross entropy :math:`c = -\log p` is at least :math:`\log r`. Read from c to r, each bound here is the best possible one
unless its function says otherwise. With a label distribution over several relevant items
(:func:`sumexp.losses.listnet`), :math:`c \ge \sum_i t_i \log r_i`.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor


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
    :func:`sumexp.losses.listnet` with any gains, and at every n and R.
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
