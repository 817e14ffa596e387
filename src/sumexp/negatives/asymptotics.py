r"""Theorem 3 with its remainder: loss and squared error of the sampled cross entropy in powers of 1/m.

For weights :math:`w = \eta/m` let :math:`z = \eta_{yy'}e^{f_{y'}-f_y}` be one draw's term, :math:`\mu = 1 + \mathbb Ez`
and :math:`\sigma^2, \kappa_3, \kappa_4` its cumulants. (The paper's have powers of :math:`e^{f_y}`, which
cancel below.) Then, for finitely many labels,

.. math::
    \mathbb E(\ell-\ell_m)^2 &= \frac1m\frac{\sigma^2}{\mu^2}
    + \frac1{m^2}\Big(\frac{11}4\frac{\sigma^4}{\mu^4} - \frac{\kappa_3}{\mu^3}\Big)
    + \frac1{m^3}\Big(\frac{11}{12}\frac{\kappa_4}{\mu^4} - \frac{25}3\frac{\sigma^2\kappa_3}{\mu^5}
    + \frac{137}{12}\frac{\sigma^6}{\mu^6}\Big) + O(m^{-4}), \\
    \mathbb E\ell-\ell_m &= -\frac1m\frac{\sigma^2}{2\mu^2}
    + \frac1{m^2}\Big(\frac{\kappa_3}{3\mu^3} - \frac34\frac{\sigma^4}{\mu^4}\Big) + O(m^{-3}) .
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sumexp._checks import typed
from sumexp.negatives.implicit import log_terms
from sumexp.negatives.schemes import Scheme


@dataclass(frozen=True)
class Expansion:
    r"""Coefficients of :math:`m^{-1}, m^{-2}, \dots`; each tensor [...].

    Attributes:
        gap: of :math:`\mathbb E\ell - \ell_m`, two of them.
        square: of :math:`\mathbb E(\ell-\ell_m)^2`, three of them; the first is Theorem 3's :math:`\sigma^2/\mu^2`.
    """

    gap: tuple[Tensor, Tensor]
    square: tuple[Tensor, Tensor, Tensor]


@typed
def expansion(logits: Tensor, scheme: Scheme) -> Expansion:
    r"""The coefficients for :math:`\eta = m w` and the scheme's law; :math:`\eta` is then held fixed as m grows.

    Relative weights have no factor 1/m: their :math:`\eta` grows with m, and the expansion does not describe them.

    Raises:
        ValueError: as :func:`sumexp.negatives.implicit.log_terms`, or if a moment is beyond double precision.

    Source: Rawat et al., Theorem 3, with the missing remainder.
    """
    log_q = scheme.log_q
    log_z = (math.log(scheme.m) + log_terms(logits, scheme)).masked_fill(log_q == -math.inf, -math.inf)
    log_mean = torch.logsumexp(log_q + log_z, -1, keepdim=True)
    log_mu = torch.logaddexp(torch.zeros_like(log_mean), log_mean)  # z itself overflows where a negative is far above
    spread, q = torch.exp(log_z - log_mu) - torch.exp(log_mean - log_mu), log_q.exp()  # in units of mu
    second, third, fourth = ((q * spread**power).sum(-1) for power in (2, 3, 4))
    k4 = fourth - 3 * second**2
    cube = 11 * k4 / 12 - 25 * second * third / 3 + 137 * second**3 / 12
    if not bool(cube.isfinite().all()):
        raise ValueError("a moment of the terms overflows: the rarest class is too rare for its weight")
    return Expansion((-second / 2, third / 3 - 3 * second**2 / 4), (second, 11 * second**2 / 4 - third, cube))
