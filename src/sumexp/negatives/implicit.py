r"""The exact expectation of the sampled cross entropy, the implicit loss, and its bound.

With :math:`x_{y'} = w_{yy'} e^{f_{y'} - f_y}` the sampled cross entropy of label y is :math:`\log(1+X)`,
:math:`X = \sum_{y'\in\mathcal N} x_{y'}` over m draws from q. Its expectation is an integral over the Laplace transform
:math:`\mathbb E e^{-tX} = M(t)^m`, :math:`M(t) = \sum_{y'} q_{y'} e^{-t x_{y'}}`, for any number of classes and draws.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from numpy import euler_gamma
from torch import Tensor

from sumexp import _checks as checks
from sumexp import expectations
from sumexp._checks import typed
from sumexp.expectations._integrals import NEAR
from sumexp.negatives.schemes import Scheme


@dataclass(frozen=True)
class ImplicitLoss:
    r"""The sampled cross entropy of one label in expectation; all tensors [...], float64.

    Attributes:
        loss: the exact implicit loss :math:`\mathbb E\log(1+X)`; differentiable in the logits.
        variance: :math:`\operatorname{Var}\log(1+X)`; differentiable.
        bound: :math:`\ell_m = \log(1+\mathbb EX)`, Lemma 2's upper bound; differentiable.
        law: how X is drawn.
        m: number of draws.
        tol: relative error of the quadrature.
    """

    loss: Tensor
    variance: Tensor
    bound: Tensor
    law: expectations.Law
    m: int
    tol: float

    @property
    def gap(self) -> Tensor:
        r""":math:`\ell_m - \mathbb E\ell \ge 0` to all its digits, however small; without gradient."""
        return self._below_the_bound[0]

    @property
    def squared_error(self) -> Tensor:
        r""":math:`\mathbb E(\ell - \ell_m)^2`, the left side of Theorem 3, to all its digits."""
        return self._below_the_bound[1]

    @cached_property
    @torch.no_grad()
    def _below_the_bound(self) -> tuple[Tensor, Tensor]:
        r"""The gap and the squared error as integrals of :math:`D = \mathbb Ee^{-tX} - e^{-t\,\mathbb EX} \ge 0`:

        .. math::
            \ell_m - \mathbb E\ell = \int_0^\infty \frac{e^{-t}}t D\,dt, \qquad
            \mathbb E(\ell-\ell_m)^2 = 2\int_0^\infty \frac{e^{-t}}t (\gamma + \log t + \ell_m) D\,dt ,

        which follow from the integrals of :math:`\log` and :math:`\log^2` for X and for its mean. The difference of two
        losses near each other would lose as many digits as they share.
        """  # noqa: D415
        rule = expectations.rule(self.tol, self.law.log_max)
        t = rule.nodes(self.law.device).exp()
        mean = self.law.mean_value.unsqueeze(-1)
        transform = self.law.transform(rule, near := t * mean < NEAR)
        at_mean, slight = torch.exp(-t * mean), near & (transform.excess < 1)
        by_excess = at_mean * torch.expm1(transform.excess)
        difference = torch.where(slight, by_excess, transform.log_value.exp() - at_mean)
        weighted = rule.step * torch.exp(-t) * difference
        gap = weighted.sum(-1)
        square = 2 * (weighted * (euler_gamma + t.log() + torch.log1p(mean))).sum(-1)
        return gap.clamp_min(0).reshape(self.law.shape), square.clamp_min(0).reshape(self.law.shape)


def log_terms(logits: Tensor, scheme: Scheme) -> Tensor:
    r""":math:`\log x_{y'} = f_{y'} - f_y + \log w_{yy'}`, [..., classes].

    Raises:
        ValueError: if the batch is empty or does not fit the scheme's classes or batch, a logit is NaN or +inf, or that
            of the label is -inf. (A negative with logit -inf adds nothing.)
    """
    if logits.ndim == 0 or logits.shape[-1] != scheme.classes:
        raise ValueError(f"logits have shape {tuple(logits.shape)}; the scheme has {scheme.classes} classes")
    if not logits.numel():
        raise ValueError(f"the batch is empty: logits have shape {tuple(logits.shape)}")
    checks.together(logits=logits, log_w=scheme.log_w)
    f = logits.to(torch.float64)
    positive = f[..., scheme.label : scheme.label + 1]
    if not bool(f.detach().max() < torch.inf) or not bool(torch.isfinite(positive).all()):
        raise ValueError("a logit is NaN or +inf, or that of the label is -inf; negatives alone may be -inf")
    return f - positive + scheme.log_w


@typed
def implicit_loss(logits: Tensor, scheme: Scheme, tol: float = 1e-12) -> ImplicitLoss:
    r"""The exact implicit loss of the sampled cross entropy, its variance, and the bound of Lemma 2.

    .. math:: \mathbb E\log(1+X) = \int_0^\infty \frac{e^{-t}}t\,(1-M(t)^m)\,dt
              \le \log\Big(1+\sum_{y'}\rho_{yy'}e^{f_{y'}-f_y}\Big) .

    ``logits`` are [..., classes]; ``tol`` is the relative error of the quadrature. Errors are those of
    :func:`log_terms`.

    Source: Rawat et al., equations (7) and (11); the expectation, whose closed form they call elusive, is new here.
    """
    log_x = log_terms(logits, scheme)
    log_q = scheme.log_q if scheme.log_q.ndim == 1 else scheme.log_q.expand_as(log_x)
    law = expectations.with_replacement(log_x, scheme.m, log_q)
    exact = expectations.expect(law, tol)
    bound = torch.log1p(scheme.m * torch.exp(log_x + log_q).sum(-1))
    return ImplicitLoss(exact.loss, exact.loss_variance, bound, law, scheme.m, tol)
