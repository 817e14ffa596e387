r"""The offset of a method for an informative image, which the prediction leaves out.

`chapters.models.sampled.prediction` takes the minimiser where x carries no information. If x is evidence for class t,
its posterior is :math:`p_y \propto \pi_y r^{[y=t]}`, and with the minimiser f of the method's implicit loss

.. math:: a_t(r) = b_t - \frac{\sum_{y\ne t} p_y b_y}{1-p_t}, \qquad b_y = f_y - \log p_y,

is what the method adds to the score of t compared with the others. For consistent methods it is 0 for all r, for a
margin :math:`-\log\pi_y` over all labels the same for all r. For others it depends on r, so two methods that agree
without information may differ with it. It was computed after the runs, and is no part of their prediction.
"""

import torch
from torch import Tensor

from sumexp.chapters.models.sampled import prediction
from sumexp.chapters.models.sampled.methods import Method
from sumexp.negatives import consistency


def added(method: Method, prior: Tensor, label: int, ratio: float) -> float:
    """:math:`a_t(r)`: the amount that a method adds to the logit of class t, if the evidence for t is ``ratio``.

    Args:
        method: of the softmax loss.
        prior: frequencies of the classes [C], all positive.
        label: t.
        ratio: r, the factor of the odds of t.

    Raises:
        ValueError: if the method is of the contrastive loss, the label is no class, or the ratio not positive.
    """
    if method.loss == "contrastive" or not 0 <= label < len(prior) or not ratio > 0:
        raise ValueError(
            f"method {method.name!r}, label {label} of {len(prior)}, ratio {ratio}; give a method of the softmax loss, "
            "a class, and a positive ratio"
        )
    posterior = prior.clone()
    posterior[label] *= ratio
    posterior /= posterior.sum()
    own = offset(method, prior, posterior)
    others = torch.arange(len(prior)) != label
    return float(own[label] - posterior[others] @ own[others] / posterior[others].sum())


def offset(method: Method, prior: Tensor, posterior: Tensor) -> Tensor:
    r"""What the method adds to the score of each class where an example has a posterior of its own, [C].

    That is :math:`b_y`, less its mean under the posterior.

    Args:
        method: of the softmax loss.
        prior: frequencies of the classes [C], all positive: those of within-batch negatives, of weights and margins.
        posterior: :math:`p` [C], all positive.
    """
    scores = consistency.minimiser(prediction.losses(method, prior), posterior) - posterior.log()
    return scores - posterior @ scores
