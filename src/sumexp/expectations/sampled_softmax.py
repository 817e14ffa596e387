r"""The sampled softmax with importance weights, exactly."""

import math

import torch
from torch import Tensor

from sumexp.expectations.integrals import Expectations, expect
from sumexp.expectations.laws import Method, with_replacement


def sampled_softmax(
    logits: Tensor, label: int, m: int, log_q: Tensor | None = None, tol: float = 1e-12, method: Method = "auto"
) -> Expectations:
    r"""Expectations of the sampled softmax of one label, its m negatives drawn from q with replacement.

    .. math:: \hat p = \frac1{1+X}, \quad X = \frac1m \sum_{j=1}^m \frac{e^{f_{y_j} - f_{label}}}{q_{y_j}},\quad
              -\log\hat p = \log(1+X), \qquad y_j \sim q \text{ on the negatives.}

    Args:
        logits: [..., classes] logits f of all classes.
        label: the positive class; it is never drawn, and q is normalised over the others.
        m: number of negatives, >= 1.
        log_q: [classes] logarithm of the proposal, up to a constant; uniform if None.
        tol: relative error asked for.
        method: see :func:`sumexp.expectations.with_replacement`.

    Returns:
        ``inverse`` is the expected probability, ``log`` the expected loss; both with their variances.

    Raises:
        ValueError: if ``label`` is no class, m < 1, or a logit or proposal is not a number.

    Source: Lin, Liu, Lin, equation (4); Rawat et al., equation (7).
    """
    classes = logits.shape[-1]
    if not 0 <= label < classes or classes < 2:
        raise ValueError(f"label is {label!r}; with {classes} classes it must be 0..{classes - 1}, and two are needed")
    if m < 1:
        raise ValueError(f"m is {m!r}; a sampled softmax needs at least one negative")
    negatives = torch.cat([logits[..., :label], logits[..., label + 1 :]], -1).to(torch.float64)
    ratio = negatives - logits[..., label : label + 1].to(torch.float64)
    if log_q is None:
        return expect(with_replacement(ratio + math.log((classes - 1) / m), m, method=method), tol)
    proposal = torch.log_softmax(torch.cat([log_q[..., :label], log_q[..., label + 1 :]], -1).to(torch.float64), -1)
    return expect(with_replacement(ratio - proposal - math.log(m), m, proposal, method), tol)
