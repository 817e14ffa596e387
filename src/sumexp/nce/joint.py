"""A joint law of two variables with finitely many values each."""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from sumexp._checks import argument, attributes

SUM_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Joint:
    r"""A law :math:`\mathrm{pop}_{XY}` on finitely many pairs, in float64 and without gradient.

    Args:
        p: [X, Y] probabilities, :math:`p_{xy} = \mathrm{pop}(x, y)`. Every x must have positive probability, since
            the losses condition on it; a y, or a pair, may have none.

    Raises:
        ValueError: if ``p`` is no matrix, holds a negative number or NaN, does not sum to 1 within 1e-9, or has a row
            of zeros.
    """

    p: Tensor

    def __post_init__(self) -> None:
        p = self.p
        if not isinstance(p, Tensor) or not p.is_floating_point() or p.ndim != 2 or 0 in p.shape:
            shape = (tuple(p.shape), p.dtype) if isinstance(p, Tensor) else type(p).__name__
            raise ValueError(f"p is {shape}; give a floating-point tensor [X, Y] of joint probabilities")
        attributes(self)
        p = p.detach().to(torch.float64)
        _non_negative("p", p)
        total = p.sum().item()
        if abs(total - 1) > SUM_TOLERANCE:
            raise ValueError(f"p sums to {total!r}, not 1; normalise it in float64, or use Joint.from_counts")
        _positive_rows(p)
        object.__setattr__(self, "p", p / total)

    @classmethod
    def from_counts(cls, counts: Tensor) -> "Joint":
        """The empirical law of counted pairs [X, Y]: non-negative numbers, without a row of zeros."""
        if not isinstance(counts, Tensor) or counts.ndim != 2 or 0 in counts.shape:
            raise ValueError(f"counts is {getattr(counts, 'shape', counts)}; give a tensor [X, Y] of counts")
        argument("counts", counts, Tensor)
        weights = counts.detach().to(torch.float64)
        _non_negative("counts", weights)
        _positive_rows(weights)
        return cls(weights / weights.sum())

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of values of x and of y."""
        return self.p.shape[0], self.p.shape[1]

    @cached_property
    def x(self) -> Tensor:
        r"""[X] the marginal :math:`\mathrm{pop}_X`."""
        return self.p.sum(1)

    @cached_property
    def y(self) -> Tensor:
        r"""[Y] the marginal :math:`\mathrm{pop}_Y`."""
        return self.p.sum(0)

    @cached_property
    def y_given_x(self) -> Tensor:
        r"""[X, Y] the conditional :math:`\mathrm{pop}(y|x)`; rows sum to 1."""
        return self.p / self.x.unsqueeze(1)

    @cached_property
    def log_y_given_x(self) -> Tensor:
        r"""[X, Y] :math:`\log\mathrm{pop}(y|x)`, ``-inf`` where the pair is never seen."""
        return self.y_given_x.log()

    @cached_property
    def pmi(self) -> Tensor:
        r"""[X, Y] :math:`\log\frac{\mathrm{pop}(x,y)}{\mathrm{pop}(x)\,\mathrm{pop}(y)}`; ``-inf`` where never seen."""
        return torch.where(self.p > 0, self.log_y_given_x - self.y.log(), -math.inf)

    @cached_property
    def mutual_information(self) -> Tensor:
        r""":math:`I(X,Y) = \sum_{xy}\mathrm{pop}(x,y)\,\mathrm{pmi}(x,y)`, in nats; a scalar."""
        return self.x @ _kl(self.y_given_x, self.y, self.y - self.y_given_x)


def _kl(p: Tensor, m: Tensor, change: Tensor) -> Tensor:
    r"""KL(p||m) over the last dimension, for m > 0 wherever p > 0; ``change`` is m - p, which sums to 0.

    So :math:`\sum m-p-p\log(m/p)`, whose terms are nearly their squares' if m is near p. With v = (m - p)/(m + p)
    :math:`\log(m/p) = 2(v+v^3/3+v^5/5+\dots)` and :math:`m-p-2pv = (m-p)v`.
    """
    m = torch.where(m > 0, m, 1.0)
    v = change / (m + p)
    series = sum(v ** (2 * k) / (2 * k + 3) for k in range(9))
    far = change + torch.xlogy(p, torch.where(p > 0, p / m, 1.0))
    return torch.where(v.abs() < 0.1, change * v - 2 * p * v**3 * series, far).sum(-1)


def _non_negative(name: str, values: Tensor) -> None:
    wrong = ~((values >= 0) & torch.isfinite(values))
    if bool(wrong.any()):
        x, y = wrong.nonzero()[0].tolist()
        raise ValueError(f"{name}[{x}, {y}] is {values[x, y].item()}; it must be finite and not negative")


def _positive_rows(values: Tensor) -> None:
    empty = (values.sum(1) == 0).nonzero()
    if len(empty):
        raise ValueError(f"row {empty[0].item()} is all zero; drop every x that never occurs ({len(empty)} of them)")
