r"""What the sampled cross entropy optimises: its exact expectation, the implicit loss, and the bound beside it.

With :math:`x_{y'} = w_{yy'} e^{f_{y'} - f_y}` the sampled cross entropy of label y is :math:`\log(1+X)`,
:math:`X = \sum_{y'\in\mathcal N} x_{y'}` over m draws from q. Its expectation is one integral over the Laplace
transform :math:`\mathbb E e^{-tX} = M(t)^m`, :math:`M(t) = \sum_{y'} q_{y'} e^{-t x_{y'}}`, for any number of classes
and draws. Jensen's inequality gives the bound :math:`\log\big(1+\sum_{y'} \rho_{yy'} e^{f_{y'}-f_y}\big)`.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sumexp import expectations
from sumexp.negatives.schemes import Scheme


@dataclass(frozen=True)
class ImplicitLoss:
    r"""The sampled cross entropy of one label in expectation; tensors [...], float64, differentiable in the logits.

    Attributes:
        loss: the exact implicit loss :math:`\mathbb E\log(1+X)`.
        variance: :math:`\operatorname{Var}\log(1+X)`.
        bound: :math:`\log(1+\mathbb EX)`, Lemma 2's upper bound.
    """

    loss: Tensor
    variance: Tensor
    bound: Tensor

    @property
    def gap(self) -> Tensor:
        """The bound minus the loss, never negative but for rounding."""
        return self.bound - self.loss

    @property
    def squared_error(self) -> Tensor:
        r""":math:`\mathbb E(\ell - \ell_m)^2`, the variance plus the squared gap: the left side of Theorem 3."""
        return self.variance + self.gap.square()


def log_terms(logits: Tensor, scheme: Scheme) -> Tensor:
    r""":math:`\log x_{y'} = f_{y'} - f_y + \log w_{yy'}`, [..., classes].

    Raises:
        ValueError: if the logits have another number of classes than the scheme, a logit is NaN or +inf, or the
            label's is -inf. (A negative's logit may be -inf: it then adds nothing.)
    """
    if logits.ndim == 0 or logits.shape[-1] != scheme.classes:
        raise ValueError(f"logits have shape {tuple(logits.shape)}; the scheme has {scheme.classes} classes")
    f = logits.to(torch.float64)
    positive = f[..., scheme.label : scheme.label + 1]
    highest = f.detach().max() if f.numel() else f.new_zeros(())
    if not bool(highest < torch.inf) or not bool(torch.isfinite(positive).all()):
        raise ValueError("a logit is NaN or +inf, or that of the label is -inf; negatives alone may be -inf")
    return f - positive + scheme.log_w


def implicit_loss(logits: Tensor, scheme: Scheme, tol: float = 1e-12) -> ImplicitLoss:
    r"""The exact implicit loss of the sampled cross entropy, its variance, and the bound of Lemma 2.

    .. math:: \mathbb E\log(1+X) = \int_0^\infty \frac{e^{-t}}t\,(1-M(t)^m)\,dt
              \le \log\Big(1+\sum_{y'}\rho_{yy'}e^{f_{y'}-f_y}\Big) .

    Args:
        logits: [..., classes].
        scheme: law and weights of the negatives.
        tol: relative error of the quadrature.

    Raises:
        ValueError: as :func:`log_terms`.

    Source: Rawat et al., equations (7) and (11); the expectation they call elusive is new here.
    """
    log_x = log_terms(logits, scheme)
    exact = expectations.expect(expectations.with_replacement(log_x, scheme.m, scheme.log_q), tol)
    log_q = torch.log_softmax(scheme.log_q.to(torch.float64), -1)  # the law sums to 1 within 1e-6 only
    log_mean = torch.logsumexp(log_x + log_q, -1) + math.log(scheme.m)
    return ImplicitLoss(exact.log, exact.log_variance, torch.nn.functional.softplus(log_mean, threshold=50))
