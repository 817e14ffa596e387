r"""A sampling scheme (q, w): the distribution and the weights of a label's negatives.

m negatives are drawn from q with replacement, each with the weight :math:`w_{yy'}`. Only the product

.. math:: \rho_{yy'} = m\, q_{y'}\, w_{yy'}

affects the mean of a decoupled loss and the bound on the cross entropy. A draw of the positive itself (an accidental
*hit*) is redrawn (``redraw``: q is normalised over the negatives, the paper's :math:`q_y = 0`), left out (``mask``:
:math:`q_y > 0`, :math:`w_{yy} = 0`), or counted like any other (``keep``). The tables of the paper mix the first two,
which differ by factors :math:`1 - q_y`.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from sumexp import _checks as checks
from sumexp._checks import typed
from sumexp.samplers._negatives import Hits

Weights = Literal["constant", "importance", "relative", "tail"]


@dataclass(frozen=True)
class Scheme:
    r"""The sampling law and the weights of a label's negatives.

    Attributes:
        label: the positive class y.
        m: number of negatives drawn with replacement.
        log_q: [..., classes] logarithm of the law of one draw, kept normalised and in float64.
        log_w: [..., classes] logarithms of the weights :math:`w_{yy'}`; ``-inf`` for weight 0. Kept in float64.

    Raises:
        ValueError: if there are fewer than two classes, the label is out of range, q does not sum to 1, or a weight is
            NaN or infinite.

    Source: Rawat et al., section 2.2 and Table 1.
    """

    label: int
    m: int
    log_q: Tensor
    log_w: Tensor

    def __post_init__(self) -> None:
        checks.attributes(self)
        checks.whole("m", self.m, 1)
        if self.log_w.shape[-1:] != self.log_q.shape[-1:]:
            raise ValueError(
                f"log_w has shape {tuple(self.log_w.shape)}, log_q {tuple(self.log_q.shape)}; give each class a weight"
            )
        _check_label(self.label, self.log_q)
        object.__setattr__(self, "log_q", checks.log_law("log_q", self.log_q))
        object.__setattr__(self, "log_w", checks.widest(self.log_w))
        if bool((torch.isnan(self.log_w) | (self.log_w == math.inf)).any()):
            raise ValueError("a log weight is NaN or +inf; weights are finite and not negative (-inf is weight 0)")

    @property
    def classes(self) -> int:
        """The number of classes L."""
        return self.log_q.shape[-1]

    @property
    def log_rho(self) -> Tensor:
        r""":math:`\log\rho_{yy'} = \log m + \log q_{y'} + \log w_{yy'}`, [..., classes]; ``-inf`` where a factor is 0.

        Source: Rawat et al., Lemmas 1 and 2.
        """
        return math.log(self.m) + self.log_q + self.log_w


@typed
def uniform(classes: int, device: torch.device | str | None = None) -> Tensor:
    """The uniform law, log q [classes], on a device."""
    checks.whole("classes", classes, 1)
    return torch.full((classes,), -math.log(classes), dtype=torch.float64, device=device)


@typed
def log_prior(counts: Tensor) -> Tensor:
    r"""The law of the training labels, :math:`\log\pi` [classes], from their counts.

    It is the law of each other label of a batch drawn with replacement: of the *multiset* of negatives, not of its
    union.

    Raises:
        ValueError: if a count is negative or not finite, or all are 0.
    """
    total = counts.to(torch.float64).sum()
    if counts.ndim != 1 or bool((counts < 0).any()) or not 0 < total.item() < math.inf:
        raise ValueError(f"counts must be finite, not negative, not all 0 and [classes], not {tuple(counts.shape)}")
    return counts.to(torch.float64).log() - total.log()


@typed
def model_based(logits: Tensor) -> Tensor:
    r"""The model's law :math:`q \propto e^f` over all classes, log q [..., classes], without gradients.

    The largest logit must be finite.
    """
    if not logits.ndim or not logits.shape[-1] or not bool(torch.isfinite(logits.detach().amax(-1)).all()):
        raise ValueError(f"logits {tuple(logits.shape)} must be [..., classes], the largest of each row finite")
    return torch.log_softmax(logits.detach().to(torch.float64), -1)


@typed
def exclude(log_q: Tensor, label: int) -> Tensor:
    """The law normalised over the negatives; ``-inf`` at the label."""
    _check_label(label, log_q)
    negatives = log_q.to(torch.float64).clone()
    negatives[..., label] = -math.inf
    total = torch.logsumexp(negatives, -1, keepdim=True)
    if not bool(torch.isfinite(total).all()):
        raise ValueError(f"q is NaN, or leaves no mass to the negatives of label {label}")
    return negatives - total


@typed
def scheme(
    log_q: Tensor, label: int, m: int, weights: Weights, hits: Hits = "redraw", *, prior: Tensor | None = None
) -> Scheme:
    r"""A scheme of the paper's tables.

    ============  =========================================  =======================================================
    weights       weight :math:`w_{yy'}`                     implicit loss, as the bound of Lemma 2 (``redraw``)
    ============  =========================================  =======================================================
    constant      :math:`1/m`                                negatives weighted by :math:`q_{y'}/(1-q_y)`
    importance    :math:`1/(m q_{y'})`                       the cross entropy
    relative      :math:`q_y/q_{y'}`                         :math:`m q_y` times every negative (``mask``, ``keep``)
    tail          :math:`\pi_{y'}/(m q_{y'} \pi_y)`          logit-adjusted: negatives weighted by :math:`\pi_{y'}/\pi_y`
    ============  =========================================  =======================================================

    q is the law *after* ``hits``: under ``redraw`` it is normalised over the negatives, so that relative weights, with
    the numerator :math:`q_y = 0`, are all 0 and the loss vanishes. The paper's assumption says so literally; relative
    weights are meant with ``mask``.

    ``log_q`` [..., classes] is the law of one draw over all classes, ``prior`` [classes] the logarithm of the label law
    pi, for ``tail``; ``label`` is y, and ``hits`` are as in the module.

    Raises:
        ValueError: if ``tail`` has no prior, the prior of the label is 0, or as :class:`Scheme`.

    Source: Rawat et al., Table 1 and equation (16).
    """  # noqa: E501
    _check_label(label, log_q)
    log_q = checks.log_law("log_q", log_q)
    m = checks.whole("m", m, 1)
    checks.choice("hits", hits, get_args(Hits))
    checks.choice("weights", weights, get_args(Weights))
    if hits == "redraw":
        log_q = exclude(log_q, label)
    if weights == "constant":
        log_w = torch.full_like(log_q, -math.log(m))
    elif weights == "importance":
        log_w = -log_q - math.log(m)
    elif weights == "relative":
        log_w = log_q[..., label : label + 1] - log_q
    else:
        prior = checks.log_law("prior", _given(prior))
        if prior.shape[-1] != log_q.shape[-1] or prior[..., label].eq(-math.inf).any():
            raise ValueError(f"prior must cover all {log_q.shape[-1]} classes, with positive mass on label {label}")
        log_w = prior - prior[..., label : label + 1] - log_q - math.log(m)
    log_w = torch.where(log_q == -math.inf, -math.inf, log_w)  # a class that is never drawn needs no weight
    if hits != "keep":
        log_w[..., label] = -math.inf
    return Scheme(label, m, log_q, log_w)


@typed
def targeting(log_rho: Tensor, log_q: Tensor, label: int, m: int) -> Scheme:
    r"""The scheme whose bound is a given pairwise-margin loss: :math:`w_{yy'} = \rho_{yy'}/(m q_{y'})`.

    ``log_rho`` and ``log_q`` are [..., classes]; a draw of the label weighs nothing.

    Raises:
        ValueError: if a negative with :math:`\rho_{yy'} > 0` is never drawn.

    Source: Rawat et al., Proposition 4, equation (15), with the support it needs.
    """
    _check_label(label, log_q)
    checks.together(log_rho=log_rho, log_q=log_q)
    log_q = checks.log_law("log_q", log_q)
    m = checks.whole("m", m, 1)
    negative = torch.arange(log_q.shape[-1], device=log_q.device) != label
    wanted = negative & (log_rho != -math.inf)
    if bool((wanted & (log_q == -math.inf)).any()):
        raise ValueError("q is 0 on a negative with rho > 0, which no weight can correct; give it mass")
    log_w = torch.where(wanted, log_rho - log_q - math.log(m), -math.inf)
    return Scheme(label, m, log_q, log_w)


def _given(prior: Tensor | None) -> Tensor:
    """The prior, for weights that need one."""
    if prior is None:
        raise ValueError("tail weights need prior, the logarithm of the label law pi")
    return prior


def _check_label(label: int, log_q: Tensor) -> None:
    classes = log_q.shape[-1] if log_q.ndim else 0
    if classes < 2:
        raise ValueError(f"there must be at least two classes, a positive and a negative, got {classes}")
    checks.whole("label", label, 0, classes - 1)
