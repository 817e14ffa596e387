r"""Global NCE: which of n candidates is the true one? For :math:`q = \mathrm{pop}_Y` this is InfoNCE.

The true candidate comes from :math:`\mathrm{pop}(\cdot|x)`, the n - 1 others from q. With the Laplace transforms
:math:`\varphi_+(t) = \sum_y\mathrm{pop}(y|x)e^{-te^{s(x,y)}}` and :math:`\varphi_-(t) = \sum_y q(y)e^{-te^{s(x,y)}}`
the population loss given x is

.. math:: \mathbb E\log\Big(1 + \sum_{j<n} e^{s(x,y_j)-s(x,y)}\Big)
    = \int_0^\infty \varphi_+(t)\,\big(1 - \varphi_-(t)^{n-1}\big)\,\frac{dt}t ,

since :math:`\log(1+X/a) = \int_0^\infty e^{-ta}(1-e^{-tX})\,dt/t`. The integrand is not negative and n is only a power.
``log_q`` [Y] is the logarithm of q; None means :math:`q = \mathrm{pop}_Y`. All functions raise ValueError if ``log_q``
is not the logarithm of a distribution on y, or n < 2.

Source: Stratos, section 1.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from sumexp._checks import ids, typed, widest
from sumexp.expectations import rule, with_replacement
from sumexp.nce._inputs import check_candidates, checked_law, checked_scores, noise
from sumexp.nce.joint import Joint


@typed
def posterior(joint: Joint, x: int | Tensor, ys: Tensor, log_q: Tensor | None = None) -> Tensor:
    r"""The probability of each candidate to be the true one.

    .. math:: P(i|x,y_1,\dots,y_n) = \frac{\mathrm{pop}(y_i|x)\prod_{j\ne i}q(y_j)}
        {\sum_k\mathrm{pop}(y_k|x)\prod_{j\ne k}q(y_j)}

    ``x`` is an index or a tensor [...] of indices, ``ys`` [..., n] those of the candidates, and so are the
    probabilities. A candidate that q cannot produce is the true one.

    Raises:
        ValueError: if an index is no int32 or int64 or out of range, shapes do not fit, or the candidates cannot occur.

    Source: Stratos, equation (1), first form.
    """
    check_candidates(ys.shape[-1] if ys.ndim else 0)
    at, ys = (
        ids("value of x", torch.as_tensor(x, device=ys.device), joint.shape[0]),
        ids("candidate", ys, joint.shape[1]),
    )
    if at.ndim and at.shape != ys.shape[:-1]:
        raise ValueError(f"x {tuple(at.shape)} and ys {tuple(ys.shape)} must be [...] and [..., n]")
    true = joint.log_y_given_x[at.unsqueeze(-1), ys]
    log_noise = noise(joint, log_q)[ys]
    impossible = log_noise == -math.inf
    finite = torch.where(impossible, 0.0, log_noise)
    others = impossible.sum(-1, keepdim=True) > impossible.to(torch.int64)
    log_joint = torch.where(others, -math.inf, true - finite)  # less the log of all q's product, which would round it
    log_total = torch.logsumexp(log_joint, -1, keepdim=True)
    if bool((log_total == -math.inf).any()):
        raise ValueError("these candidates cannot occur: none can be true given x while the others are noise")
    return torch.exp(log_joint - log_total)


@typed
def cross_entropy(
    joint: Joint, scores: Tensor, n: int | Sequence[int], log_q: Tensor | None = None, tol: float = 1e-12
) -> Tensor:
    r"""The population loss of global NCE, the cross entropy of the softmax over n candidates.

    .. math:: \mathbb E[-\log p(i|x,y_1,\dots,y_n)], \qquad
        p(i|x,y_1,\dots,y_n) = \frac{e^{s(x,y_i)}}{\sum_j e^{s(x,y_j)}}

    Args:
        joint: the law of pairs.
        scores: [X, Y]; ``-inf`` makes the loss infinite where the pair occurs and costs nothing elsewhere.
        n: number of candidates; or several, at nearly the cost of one.
        log_q: see the module.
        tol: relative error.

    Returns:
        A scalar, or [len(n)] for several n; differentiable (once) in ``scores`` and ``log_q``.

    Raises:
        ValueError: if a shape does not fit, a score is NaN, or +inf where q(y) > 0, or the scores of one x spread over
            more than about 700.

    Source: Stratos, section 1.2.
    """
    several = isinstance(n, Sequence)
    counts = [check_candidates(count) for count in ((list(n) or [0]) if isinstance(n, Sequence) else [n])]
    log_noise = noise(joint, log_q)
    s = checked_scores(joint, scores, log_noise)
    seen, drawn = joint.p > 0, (log_noise > -math.inf).expand_as(s)
    hopeless = (seen & (s == -math.inf)).any(1)  # the model excludes a true pair
    sure = s == math.inf  # the noise cannot produce the pair
    s = torch.where(hopeless.unsqueeze(1) | sure, 0.0, s)
    contested = torch.where(sure, 0.0, joint.y_given_x)
    mass = contested.sum(1)
    log_true = torch.where(mass.unsqueeze(1) > 0, contested / mass.unsqueeze(1), joint.y_given_x).log()
    # A constant added to the scores of one x changes nothing; the least score of a true pair becomes 0.
    s = s - torch.where(seen, s.detach(), math.inf).amin(1, keepdim=True)
    highest = torch.where(drawn, s.detach(), -math.inf).max().item()
    nodes = rule(tol, max(highest, s.detach()[seen].max().item()) + math.log(max(counts)))
    whole = torch.zeros(len(s), nodes.count, dtype=torch.bool, device=s.device)
    log_plus = with_replacement(s, 1, log_true).transform(nodes, whole).log_value
    log_minus = with_replacement(s, 1, log_noise).transform(nodes, whole).log_value
    weight = nodes.step * mass.unsqueeze(1) * log_plus.exp()
    losses = []
    for count in counts:
        given_x = -(weight * torch.expm1((count - 1) * log_minus)).sum(1)
        losses.append(joint.x @ torch.where(hopeless, math.inf, given_x))
    return torch.stack(losses) if several else losses[0]


@typed
def entropy(joint: Joint, n: int | Sequence[int], log_q: Tensor | None = None, tol: float = 1e-12) -> Tensor:
    """The conditional entropy H(I|XY^n) of the true index, the least value of :func:`cross_entropy`.

    Source: Stratos, section 1.1.
    """
    return cross_entropy(joint, optimal_scores(joint, log_q), n, log_q, tol)


@typed
def bound(
    joint: Joint, scores: Tensor, n: int | Sequence[int], log_q: Tensor | None = None, tol: float = 1e-12
) -> Tensor:
    r"""InfoNCE's value :math:`B = \log n - \text{cross entropy}`.

    :math:`B \le \min\{\log n,\ I(X,Y) + \mathrm{KL}(\mathrm{pop}_Y\|q)\}`: for q = pop_Y a lower bound of I(X, Y).
    Arguments and errors are those of :func:`cross_entropy`.

    Source: Stratos, section 1.2 and Corollary 1.2.
    """
    loss = cross_entropy(joint, scores, n, log_q, tol)
    return torch.as_tensor(n, dtype=torch.float64, device=loss.device).log() - loss


@typed
def optimal_scores(joint: Joint, log_q: Tensor | None = None) -> Tensor:
    r"""[X, Y] :math:`s(x,y) = \log\frac{\mathrm{pop}(y|x)}{q(y)}`, optimal up to a constant for each x.

    It is ``-inf`` for pairs never seen and ``+inf`` for pairs that the noise cannot produce.

    Source: Stratos, section 1.2.
    """
    return torch.where(joint.p > 0, joint.log_y_given_x - noise(joint, log_q), -math.inf)


@typed
def recover(scores: Tensor, log_q: Tensor) -> Tensor:
    r"""[X, Y] :math:`\mathrm{softmax}_y(s(x,y) + \log q(y))`, which is pop(y|x) at the optimum.

    Where q(y) = 0 it is 0: it recovers pop(y|x) conditioned on the support of q.

    Raises:
        ValueError: if a score is NaN or +inf where q(y) > 0, or all scores of one x are -inf there.

    Source: Stratos, equation (2).
    """
    log_noise = checked_law(log_q, scores)
    drawn = log_noise > -math.inf
    logits = torch.where(drawn, widest(scores), 0.0) + log_noise
    highest = logits.detach().amax(-1)
    if not bool(torch.isfinite(highest).all()):
        x = (~torch.isfinite(highest)).nonzero()[0].tolist()
        raise ValueError(
            f"the largest score of row {x} where q(y) > 0 is {highest[tuple(x)].item()}; each x needs a finite score, "
            "and no NaN or +inf"
        )
    return torch.softmax(logits, -1)
