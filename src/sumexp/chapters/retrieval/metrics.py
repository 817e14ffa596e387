r"""Recall of single labels, and precision with and without propensities, of lists of scores.

Ties count against the relevant label: of equal scores it comes last.
"""

import numpy as np
import torch
from torch import Tensor

USUAL = (0.55, 1.5)
"""A and B of the propensities; for WikiLSHTC-325K the repository takes 0.5 and 0.4, for Amazon's books 0.6 and 2.6."""


def found(scores: Tensor, labels: Tensor, ks: tuple[int, ...]) -> Tensor:
    """Whether a label is among the first k of its list, for each k, [len(ks), B] bool.

    Args:
        scores: [B, L].
        labels: [B].
        ks: how many places count.
    """
    own = scores.gather(1, labels.unsqueeze(1))
    above = scores >= own  # itself counts, and all that tie
    on_cpu = above.device.type == "cpu"  # where numpy is ten times as fast
    rank = torch.from_numpy(np.count_nonzero(above.numpy(), axis=1)) if on_cpu else above.sum(1)
    return torch.stack([rank <= k for k in ks])


def propensities(counts: Tensor, examples: int, a: float = USUAL[0], b: float = USUAL[1]) -> Tensor:
    r"""How likely a relevant label is to have been noted, from how often it occurs.

    .. math:: p_l = \frac1{1 + C e^{-A\log(N_l+B)}}, \qquad C = (\log N - 1)(B+1)^A .

    Args:
        counts: :math:`N_l`, training examples of each label [L].
        examples: N, training examples in all, at least 3.
        a: A.
        b: B.

    Raises:
        ValueError: if there are fewer than three examples: C would not be positive.

    Source: Jain, Prabhu, Varma (2016), section 4; A and B as the extreme-classification repository has them.
    """
    if examples < 3:
        raise ValueError(f"examples is {examples}; propensities need at least 3, where log N - 1 is positive")
    n = counts.to(torch.float64)
    c = (torch.log(torch.tensor(float(examples), dtype=torch.float64)) - 1) * (b + 1) ** a
    likely: Tensor = 1 / (1 + c * torch.exp(-a * torch.log(n + b)))
    return likely


def precision(scores: Tensor, relevant: Tensor, k: int, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
    r"""What the first k labels of each list are worth, and the most that k labels could be, [B] each.

    Each relevant label is worth its weight, over k; without weights, 1. P@k is the mean of the first; the
    propensity-scored PSP@k is the sum of the first over the sum of the second, with weights :math:`1/p_l`.

    Args:
        scores: [B, L].
        relevant: [B, L] bool.
        k: how many places count.
        weights: of the labels [L].

    Source: Jain, Prabhu, Varma (2016), section 4.
    """
    worth = relevant.to(torch.float64) * (1.0 if weights is None else weights)
    most = min(k, scores.shape[1])
    last = scores.topk(most, dim=1).values[:, -1:]
    # Above the last score that counts all count; of those equal to it what is worth less comes first.
    above, equal = scores > last, scores == last
    least = worth.masked_fill(~equal, torch.inf).topk(most, dim=1, largest=False).values
    left = torch.arange(most, device=scores.device) < most - above.sum(1, keepdim=True)
    got = ((worth * above).sum(1) + torch.where(left, least, 0.0).sum(1)) / k
    return got, worth.topk(most, dim=1).values.sum(1) / k
