r"""Losses as torch functions, as ``torch.nn.functional`` has them: one signature and one order of arguments.

A *sampled* loss never sees all L logits:

.. code-block:: python

    loss(positive_logits[B], negative_logits[B, m], *, log_q, positive_log_q, correct, weights, hits, reduction)

``log_q`` has one meaning everywhere: the log probability of a draw of a class. (A density may exceed 1: subtract its
logarithm from the logits yourself.) ``correct`` says from which logits log q is subtracted:

- ``all``, the default: all logits, the positive's too (``positive_log_q`` where it is not among the columns);
- ``negatives``: the negatives' logits alone;
- ``importance``: subtract :math:`\log(m q)` from the negatives', m the number of negatives: the estimator of Jean et
  al. In a loss that judges each score by itself a negative's term is multiplied by :math:`1/(m q)`, which a softmax
  cannot tell apart;
- ``none``: nothing.

An *accidental hit* is a negative of the example's own class. Hits are kept unless said else: ``hits`` is the rule,
``keep`` or ``mask``, where a function sees the classes, and the marks [B, m] of those to leave out where it sees
logits alone. ``weights`` multiply the negatives' terms; with ``log_q`` they are the pairwise margins :math:`\rho` of
Proposition 4 of Rawat et al. Weights and log q are constants: no gradient flows into them. They broadcast against
[B, m]; m counts all columns, hits included. The page :doc:`/book/api/keywords` has all keywords.

A *full* loss takes ``(logits[B, L], labels[B], *, reduction)``, a loss of a list with several relevant items
``(logits[B, L], targets[B, L], *, reduction)``. :func:`in_batch` and :func:`sigmoid_pairs` take the scores [B, B + E]
of a batch's examples and all its classes, the positives on the diagonal; :func:`distributed_in_batch` is the same
over the batches of all processes of ``torch.distributed``, and :func:`cached` makes vectors for either where a
batch's activations do not fit. Where the scores themselves do not fit, :func:`linear_in_batch` and
:func:`linear_cross_entropy` take the vectors. :class:`sumexp.nn.SampledOutput` is the layer that hands a sampled loss
its logits and touches only the rows it needs.

The loss of "Correcting the LogQ Correction" (2025) is not among them: its steps are those of
``sampled_softmax(correct="importance")`` whose hits are drawn again, so biased in general at finite m, while
subtracting log q from all logits with hits kept is not (the chapter :doc:`/notebooks/since`).

Logits in half precision are summed in float32. A positive logit of +inf and negatives of -inf have the right limit;
what stands at a hit does not matter. NaN and the infinities that have no limit raise ``ValueError``; that check reads
all arguments once, and ``python -O`` leaves it out, as it does the checks of ``torch.distributions``. No loss keeps its
scores: they may be edited in place between the loss and its gradient, unless T is learned in :func:`sigmoid_pairs`.
"""

from sumexp.functional._batch import in_batch
from sumexp.functional._chunks import cached
from sumexp.functional._distributed import distributed_in_batch, gathered
from sumexp.functional._full import cross_entropy, pairwise_margin
from sumexp.functional._linear import linear_cross_entropy, linear_in_batch
from sumexp.functional._lists import listnet, marginal
from sumexp.functional._margins import adaptive, arcface_margin, equalised, logit_adjusted
from sumexp.functional._pairs import gbce, sigmoid_pairs
from sumexp.functional._sampled import (
    CONTRASTIVE,
    HINGE,
    LOGISTIC,
    Margins,
    binary_nce,
    decoupled,
    hinge,
    info_nce,
    sampled_softmax,
)

__all__ = [
    "in_batch",
    "sampled_softmax",
    "info_nce",
    "binary_nce",
    "gbce",
    "sigmoid_pairs",
    "cross_entropy",
    "distributed_in_batch",
    "linear_in_batch",
    "linear_cross_entropy",
    "cached",
    "gathered",
    "listnet",
    "marginal",
    "pairwise_margin",
    "logit_adjusted",
    "equalised",
    "adaptive",
    "arcface_margin",
    "decoupled",
    "hinge",
    "Margins",
    "LOGISTIC",
    "HINGE",
    "CONTRASTIVE",
]
