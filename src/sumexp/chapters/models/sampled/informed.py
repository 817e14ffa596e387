r"""What a method adds to a class where a picture speaks for it: the prediction's blind side.

`chapters.models.sampled.prediction` asks for the minimiser where x says nothing. Where x is evidence for class t, its
posterior is :math:`p_y \propto \pi_y r^{[y=t]}`, and of the minimiser f of the method's implicit loss there

.. math:: a_t(r) = b_t - \frac{\sum_{y\ne t} p_y b_y}{1-p_t}, \qquad b_y = f_y - \log p_y,

is what the method adds to the score of t over those of the others, as frequent as they are. Of consistent methods it is
0 for all r, of a margin :math:`-\log\pi_y` over all labels the same for all r. Of others it moves with r, so that two
methods that agree where nothing is known may differ where something is.

It was made after the runs that it explains, and is no part of what was predicted before them.
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
