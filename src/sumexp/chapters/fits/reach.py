r"""The distance to the solution and the speed of a descent: why families of noise differ.

Every family fits every target without a zero exactly, so fits of equal length differ by how much one unit of
:math:`\theta` moves the distribution. Near the uniform one the Jacobian is
:math:`\frac cK(I-\frac1K\mathbf{11}^\top)`. The **gain** c is the factor by which the noise amplifies small logits, 1
for the plain softmax. For :math:`\tau\to0` and noise of bounded density f it is :math:`K^2\int f^2F^{K-2}`: 1 for the
Gumbel, :math:`\frac K{K+1}` for the logistic, :math:`\frac K{K-1}\mathbb E\gamma_{\max}` with the largest of K copies
for the Gaussian, and :math:`\frac{K^2}{2(K-1)}` for uniform noise on [-1, 1].

Functions of a target p raise a ValueError as :func:`sumexp.perturb.inversion.softmax_parameters` does.
"""

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from sumexp.perturb import inversion, softmax
from sumexp.perturb.transforms import Noise


def gain(noise: Noise, tau: float, classes: int) -> float:
    r"""c with :math:`\nabla p(0) = \frac cK(I-\frac1K\mathbf{11}^\top)`, for K = ``classes`` >= 2."""
    diagonal = softmax.hessian_diagonal(torch.zeros(classes, dtype=torch.float64), noise, tau)[0].item()
    return diagonal * classes**2 / (classes - 1)


def condition(p: Tensor, noise: Noise, tau: float) -> float:
    r"""Condition number of :math:`H\,\mathrm{diag}(1/p)\,H` on :math:`\sum_iv_i=0`, the Hessian of either KL."""
    slope = softmax.hessian(inversion.softmax_parameters(p, noise, tau), noise, tau)
    singular = torch.linalg.svdvals(slope / p.sqrt())  # of H p^{-1/2}, whose squares are the eigenvalues
    return float((singular[0] / singular[-2]).square())


def excess(p: Tensor, noise: Noise, tau: float, samples: int) -> float:
    r"""First order of the mean reverse KL of the mean of n draws at the exact solution.

    With :math:`s = \mathrm{softmax}((\theta^*+\gamma)/\tau)` it is :math:`\frac1{2n}\sum_i\operatorname{Var}(s_i)/p_i`,
    near :math:`\frac{K-1}{2n}` at low temperature.
    """
    variance = softmax.variance(inversion.softmax_parameters(p, noise, tau), noise, tau)
    return ((variance / p).sum() / (2 * samples)).item()


def steps_to(curve: ArrayLike, level: float) -> Tensor:
    """The first step at which a curve [..., steps + 1] is at or below ``level``; infinity if it never is."""
    below = torch.as_tensor(curve, dtype=torch.float64) <= level
    first = below.to(torch.int8).argmax(-1).to(torch.float64)
    return torch.where(below.any(-1), first, torch.inf)
