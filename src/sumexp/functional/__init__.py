r"""Losses as torch functions, as ``torch.nn.functional`` has them: one signature and one order of arguments.

A *sampled* loss never sees all L logits:

.. code-block:: python

    loss(positive_logits[B], negative_logits[B, m], *, log_q, weights, hits, reduction)

The negative j of an example has the weight

.. math:: w_j = \begin{cases} \text{weights}_j & \text{without log\_q,} \\
                              \text{weights}_j / (m\,q_j) & \text{with log\_q,} \end{cases}

0 where ``hits`` is set; ``weights`` is 1 if it is not given. So ``log_q`` alone gives importance weights, and with it
``weights`` are the pairwise margins :math:`\rho` of Proposition 4 of Rawat et al. Weights and log_q are constants: no
gradient flows into them. They broadcast against [B, m]; m counts all columns, hits included.

A *full* loss takes ``(logits[B, L], labels[B], *, reduction)``, a loss of a list with several relevant items
``(logits[B, L], targets[B, L], *, reduction)``. :func:`in_batch` takes the scores [B, B + E] of a batch's examples and
all its classes, the positives on the diagonal; :func:`distributed_in_batch` is the same over the batches of all
processes of ``torch.distributed``. :class:`sumexp.nn.SampledOutput` is the layer that hands a sampled loss its logits
and touches only the rows it needs.

Logits in half precision are summed in float32. A positive logit of +inf and negatives of -inf have the right limit;
what stands at a hit does not matter. NaN and the infinities that have no limit raise ``ValueError``; that check reads
all arguments once, and ``python -O`` leaves it out, as it does the checks of ``torch.distributions``.
"""

from sumexp.functional._batch import in_batch
from sumexp.functional._distributed import distributed_in_batch, gathered
from sumexp.functional._full import cross_entropy, pairwise_margin
from sumexp.functional._lists import listnet, marginal
from sumexp.functional._margins import adaptive, arcface_margin, equalised, logit_adjusted
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
    "CONTRASTIVE",
    "HINGE",
    "LOGISTIC",
    "Margins",
    "adaptive",
    "arcface_margin",
    "binary_nce",
    "cross_entropy",
    "decoupled",
    "distributed_in_batch",
    "equalised",
    "gathered",
    "hinge",
    "in_batch",
    "info_nce",
    "listnet",
    "logit_adjusted",
    "marginal",
    "pairwise_margin",
    "sampled_softmax",
]
