"""Logarithms of the modified Bessel functions K0 and x K1, differentiable (torch's own have no gradient)."""

from typing import Any, cast

import torch
from torch import Tensor
from torch.special import scaled_modified_bessel_k0, scaled_modified_bessel_k1


class _Log(torch.autograd.Function):
    """log K0 or, with ``first``, log(x K1)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, first: bool) -> Tensor:
        ctx.save_for_backward(x)
        ctx.first = first
        value = x * scaled_modified_bessel_k1(x) if first else scaled_modified_bessel_k0(x)
        return cast(Tensor, value.log() - x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        if ctx.first:
            return -grads[0] * torch.exp(log_k0(x) - log_x_k1(x)) * x, None  # K1' = -K0 - K1/x, so (x K1)' = -x K0
        return -grads[0] * torch.exp(log_x_k1(x) - log_k0(x)) / x, None  # K0' = -K1


def log_k0(x: Tensor) -> Tensor:
    r""":math:`\log K_0(x)` for x > 0, differentiable to any order."""
    return cast(Tensor, _Log.apply(x, False))  # type: ignore[no-untyped-call]


def log_x_k1(x: Tensor) -> Tensor:
    r""":math:`\log(x K_1(x))` for x > 0, differentiable to any order; it tends to 0 with x."""
    return cast(Tensor, _Log.apply(x, True))  # type: ignore[no-untyped-call]
