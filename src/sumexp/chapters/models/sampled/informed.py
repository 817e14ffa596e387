r"""The offset of a method for an informative image, which the prediction leaves out.

`chapters.models.sampled.prediction` takes the minimiser where x carries no information. If x is evidence for class t,
its posterior is :math:`p_y \propto \pi_y r^{[y=t]}`, and with the minimiser f of the method's implicit loss

.. math:: a_t(r) = b_t - \frac{\sum_{y\ne t} p_y b_y}{1-p_t}, \qquad b_y = f_y - \log p_y,

is what the method adds to the score of t compared with the others. It is 0 for consistent methods, independent of r for
a margin :math:`-\log\pi_y` over all labels, and otherwise depends on r: two methods that agree without information may
differ with it. It was computed after the runs, and is no part of their prediction.
"""

import torch
from torch import Tensor

from sumexp.chapters.models.sampled import prediction
from sumexp.chapters.models.sampled.methods import Method
from sumexp.negatives import consistency


def added(method: Method, prior: Tensor, label: int, ratio: float) -> float:
    """:math:`a_t(r)`: what a method adds to the logit of class t = ``label``, where its evidence is r = ``ratio``.

    ``prior`` has the frequencies of the classes [C], all positive; the method is of the softmax loss.
    """
    posterior = prior.clone()
    posterior[label] *= ratio
    posterior /= posterior.sum()
    offsets = offset(method, prior, posterior)
    others = torch.arange(len(prior)) != label
    return float(offsets[label] - posterior[others] @ offsets[others] / posterior[others].sum())


def offset(method: Method, prior: Tensor, posterior: Tensor) -> Tensor:
    """:math:`b_y` less its mean under the ``posterior`` p [C] of an example, [C]; prior and posterior are positive."""
    scores = consistency.minimiser(prediction.losses(method, prior), posterior) - posterior.log()
    return scores - posterior @ scores
