r"""Local NCE: given a candidate, is it true? The binary loss, with one true pair for n - 1 draws of noise on average.

Each of n coins is 1 with probability 1/n; y then comes from :math:`\mathrm{pop}(\cdot|x)`, otherwise from q. ``log_q``
[Y] is the logarithm of q; None means :math:`q = \mathrm{pop}_Y`. All functions raise ValueError if ``log_q`` is not the
logarithm of a distribution on y, or n < 2.

Source: Stratos, section 2 and appendix D.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from sumexp._checks import typed
from sumexp.nce._inputs import check_candidates, checked_law, checked_scores, noise
from sumexp.nce.joint import Joint, _kl

LARGEST = math.log(torch.finfo(torch.float64).max)


class Divergences(NamedTuple):
    r"""The two divergences of Lemma 2.1 from the mixture :math:`M = (\mathrm{pop}_{Y|X} + (n-1)q)/n`, mean over x.

    Attributes:
        true: :math:`\mathrm{KL}(\mathrm{pop}_{Y|X}\,\|\,M)`.
        noise: :math:`\mathrm{KL}(q\,\|\,M)`.
    """

    true: Tensor
    noise: Tensor


@typed
def posterior(joint: Joint, n: int, log_q: Tensor | None = None) -> Tensor:
    r"""[X, Y] :math:`P(A=1|x,y) = \frac{\mathrm{pop}(y|x)}{\mathrm{pop}(y|x) + (n-1)q(y)}`; 0 if y cannot occur.

    Source: Stratos, equation (3).
    """
    return torch.sigmoid(optimal_scores(joint, n, log_q))


@typed
def optimal_scores(joint: Joint, n: int, log_q: Tensor | None = None) -> Tensor:
    r"""[X, Y] :math:`s(x,y) = \log\frac{\mathrm{pop}(y|x)}{q(y)} - \log(n-1)`: the PMI minus log(n-1) for q = pop_Y.

    It is ``-inf`` for pairs never seen and ``+inf`` for pairs that the noise cannot produce.

    Source: Stratos, section 2.2.
    """
    check_candidates(n)
    ratio = joint.log_y_given_x - noise(joint, log_q)
    return torch.where(joint.p > 0, ratio, -math.inf) - math.log(n - 1)


@typed
def cross_entropy(joint: Joint, scores: Tensor, n: int, log_q: Tensor | None = None) -> Tensor:
    r"""The population loss of local NCE, the cross entropy of n independent coins.

    .. math:: \mathbb E_{\mathrm{pop}}[-\log\sigma(s(x,y))] + (n-1)\,\mathbb E_{x,\,y\sim q}[-\log(1-\sigma(s(x,y)))]

    A scalar, differentiable in ``scores`` and ``log_q``. ``scores`` are [X, Y]; ``-inf`` makes the loss infinite where
    the pair occurs and costs nothing elsewhere.

    Raises:
        ValueError: if a shape does not fit, or a score is NaN, or +inf where q(y) > 0.

    Source: Stratos, section 2.2.
    """
    check_candidates(n)
    log_noise = noise(joint, log_q)
    s = checked_scores(joint, scores, log_noise)
    drawn = (log_noise > -math.inf).expand_as(s)
    true = joint.p * logsigmoid(torch.where(joint.p > 0, s, 0.0))
    false = joint.x.unsqueeze(1) * log_noise.exp() * logsigmoid(-torch.where(drawn, s, 0.0))
    return -true.sum() - (n - 1) * false.sum()


@typed
def entropy(joint: Joint, n: int, log_q: Tensor | None = None) -> Tensor:
    """The conditional entropy of the coins, the minimum of :func:`cross_entropy`.

    Source: Stratos, equation (4).
    """
    return cross_entropy(joint, optimal_scores(joint, n, log_q), n, log_q)


@typed
def divergences(joint: Joint, n: int, log_q: Tensor | None = None) -> Divergences:
    r"""The divergences d whose weighted sum is the minimum of local NCE.

    .. math:: -H(A^n|XY^n) = d_{true} + (n-1)d_{noise} - \log n - (n-1)\log\frac n{n-1}

    Source: Stratos, Lemma 2.1.
    """
    check_candidates(n)
    p, q = joint.y_given_x, noise(joint, log_q).exp().expand(joint.shape)
    mixture = (p + (n - 1) * q) / n
    return Divergences(joint.x @ _kl(p, mixture, (n - 1) / n * (q - p)), joint.x @ _kl(q, mixture, (p - q) / n))


@typed
def recover(scores: Tensor, n: int, log_q: Tensor) -> Tensor:
    r"""[X, Y] :math:`\exp(s(x,y) + \log q(y) + \log(n-1))`, which is pop(y|x) at the optimum, without normalisation.

    Where q(y) = 0 it is 0.

    Raises:
        ValueError: if a score is NaN, or +inf where q(y) > 0, or a result exceeds double precision.

    Source: Stratos, section 2.2.
    """
    check_candidates(n)
    log_noise = checked_law(log_q, scores)
    drawn = log_noise > -math.inf
    s = torch.where(drawn, scores, 0.0)
    if not bool((s < math.inf).all()):
        raise ValueError("a score is NaN or +inf where q(y) > 0; a score must be a number or -inf")
    log_p = s + log_noise + math.log(n - 1)
    if bool((log_p > LARGEST).any()):
        raise ValueError(f"a recovered probability is e^{log_p.max().item():.0f}; shift the scores")
    return torch.exp(log_p)
