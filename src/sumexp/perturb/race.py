r"""The distribution of the largest of independent variables, by one-dimensional integrals.

For independent :math:`X_j` with distribution functions :math:`F_j`, densities :math:`f_j = r_jF_j` and
:math:`P = \prod_jF_j`,

.. math::
    \mathbb P(X_i\text{ wins}) = \int r_iP\,du, \qquad
    w_{ij} = \int r_ir_jP\,du \quad(i\ne j), \qquad
    \frac{\partial p_i}{\partial\theta_j} = -w_{ij},\qquad \frac{\partial p_i}{\partial\theta_i} = \sum_{j\ne i}w_{ij}:

the Jacobian is the Laplacian of a weighted graph on the classes. Perturb-Argmax is this race with
:math:`X_j = \theta_j + \gamma_j`, Perturb-Softmax the one with :math:`X_j = \theta_j + \gamma_j + \tau G_j`.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Race:
    """The integrands on the nodes of a rule: log F_j and log r_j = log(f_j / F_j), and the rule's log weights."""

    log_cdf: Tensor  # [..., d, K]
    log_ratio: Tensor  # [..., d, K]
    log_weights: Tensor  # broadcastable to [..., K]

    @property
    def log_measure(self) -> Tensor:
        """log of P times the weight, [..., K]."""
        return self.log_cdf.sum(-2) + self.log_weights

    def probabilities(self) -> Tensor:
        """Probability that each class wins, [..., d]."""
        return torch.exp(self.log_ratio + self.log_measure.unsqueeze(-2)).sum(-1)

    def probability_per_node(self) -> Tensor:
        """The contribution of each node to the total probability 1, [..., K]."""
        return torch.exp(torch.logsumexp(self.log_ratio, -2) + self.log_measure)

    def pairs(self) -> Tensor:
        """The integrals of r_i r_j P, [..., d, d]; off the diagonal the weights of the Laplacian."""
        half = self._half()
        return half @ half.transpose(-1, -2)

    def laplacian_product(self, v: Tensor) -> Tensor:
        """The Laplacian times v, [..., d], in O(d K): the pairs are a product of [d, K] and [K, d]."""
        half = self._half()
        # Subtracting a constant changes nothing; the likeliest class's value costs its large terms no digits.
        centred = v - v.gather(-1, half.detach().sum(-1).argmax(-1, keepdim=True))
        total = half.sum(-2, keepdim=True)
        along = (half * centred.unsqueeze(-1)).sum(-2, keepdim=True)
        return (half * (total * centred.unsqueeze(-1) - along)).sum(-1)

    def diagonal(self) -> Tensor:
        """The diagonal of the Laplacian, sum over j != i of w_ij, [..., d]."""
        half = self._half()
        none = torch.zeros_like(half[..., :1, :])  # a sum of the others: subtracted, the largest would take its digits
        below = torch.cat([none, half[..., :-1, :]], -2).cumsum(-2)
        above = torch.cat([half[..., 1:, :], none], -2).flip(-2).cumsum(-2).flip(-2)
        return (half * (below + above)).sum(-1)

    def _half(self) -> Tensor:
        return torch.exp(self.log_ratio + self.log_measure.unsqueeze(-2) / 2)


@dataclass(frozen=True)
class RandomLaws(Race):
    r"""The race of Perturb-Softmax, with log of b_j, :math:`\int b_jP\,du` being the mean square of the j-th."""

    log_square: Tensor  # [..., d, K]

    def squares(self) -> Tensor:
        """The integrals of b_j P, [..., d]."""
        return torch.exp(self.log_square + self.log_measure.unsqueeze(-2)).sum(-1)

    def variances(self) -> Tensor:
        """Mean squares minus squared means, [..., d]; that of the likeliest class from the sum of all others."""
        p, squares = self.probabilities(), self.squares()
        top = p.detach().argmax(-1, keepdim=True)
        rows = top.unsqueeze(-1).expand(*top.shape, self.log_ratio.shape[-1])
        others = replace(self, log_ratio=self.log_ratio.scatter(-2, rows, -math.inf))
        rest = p.scatter(-1, top, 0.0).sum(-1, keepdim=True)
        square = others.diagonal().sum(-1, keepdim=True) + squares.scatter(-1, top, 0.0).sum(-1, keepdim=True)
        return (squares - p.square()).scatter(-1, top, square - rest.square()).clamp_min(0)


def laplacian(weights: Tensor) -> Tensor:
    """The Laplacian diag(W 1) - W of symmetric weights [..., d, d]; their diagonal does not matter."""
    off = weights - torch.diag_embed(torch.diagonal(weights, dim1=-2, dim2=-1))
    return torch.diag_embed(off.sum(-1)) - off
