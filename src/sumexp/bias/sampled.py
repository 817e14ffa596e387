r"""The exact bias of the sampled softmax on given logits: of its value and of its gradient.

With importance weights and m negatives drawn from q with replacement, the sampled softmax of a label is
:math:`\hat p = 1/(1+X)`. Its bias :math:`\mathbb E\hat p - p` is never negative (Jensen), and is computed as the
integral of a non-negative function, so that it keeps its digits. Classes with :math:`q = 0` are never drawn and add
:math:`\frac1{1+\mathbb EX} - \frac1{1+S}`. The mean of the stochastic gradient of :math:`-\log\hat p` is the gradient
of :math:`\mathbb E\log(1+X)`, since q and the weights do not depend on the logits.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from sumexp import _checks as checks
from sumexp import expectations
from sumexp._checks import typed


@dataclass(frozen=True)
class Bias:
    """Exact biases of the sampled softmax of one label.

    Attributes:
        probability: p, the full softmax of the label, [...].
        value: E p-hat - p >= 0, [...], accurate relative to itself.
        gradient: the mean stochastic gradient of the loss minus the full gradient, [..., classes], to an absolute
            error of about 1e-15 and the tolerance.
    """

    probability: Tensor
    value: Tensor
    gradient: Tensor


@typed
@torch.inference_mode(False)
@torch.enable_grad()
def sampled_bias(logits: Tensor, label: int, m: int, log_q: Tensor | None = None) -> Bias:
    """Exact bias of value and gradient of the sampled softmax with importance weights.

    Args:
        logits: [..., classes] logits of all classes; ``-inf`` masks a negative.
        label: the target, never drawn.
        m: number of negatives drawn with replacement, 1 to 2^53.
        log_q: [classes] or [..., classes] logarithm of the proposal, up to a constant; uniform if None; ``-inf`` for a
            class that is never drawn. No gradient flows into it.

    Raises:
        ValueError: as :func:`sumexp.expectations.sampled_softmax`.
    """
    checks.floating("logits", logits, "[..., classes]")
    leaf = logits.detach().to(torch.float64, copy=True).requires_grad_()
    result = expectations.sampled_softmax(leaf, label, m, log_q)
    (mean_gradient,) = torch.autograd.grad(result.loss.sum(), leaf)
    full = torch.softmax(leaf.detach(), -1)
    target = torch.zeros_like(full)
    target[..., label] = 1
    value = result.probability_gap.detach()
    if log_q is not None:
        never = (log_q == -torch.inf) & (target == 0)
        seen = torch.where(never, -torch.inf, leaf.detach()).softmax(-1)[..., label]
        value = value + seen * torch.where(never, full, 0.0).sum(-1)
    return Bias(full[..., label], value, mean_gradient - (full - target))
