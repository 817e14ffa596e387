"""Logarithms of the modified Bessel functions K0 and x K1, differentiable (torch's own have no gradient)."""

from typing import Any, cast

import torch
from torch import Tensor
from torch.special import scaled_modified_bessel_k0, scaled_modified_bessel_k1


class _LogK0(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return cast(Tensor, scaled_modified_bessel_k0(x).log() - x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return cast(Tensor, -grads[0] * torch.exp(log_x_k1(x) - log_k0(x)) / x)  # K0' = -K1


class _LogXK1(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return cast(Tensor, (x * scaled_modified_bessel_k1(x)).log() - x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return cast(Tensor, -grads[0] * torch.exp(log_k0(x) - log_x_k1(x)) * x)  # K1' = -K0 - K1/x, so (x K1)' = -x K0


def log_k0(x: Tensor) -> Tensor:
    r""":math:`\log K_0(x)` for x > 0, differentiable to any order."""
    return cast(Tensor, _LogK0.apply(x))  # type: ignore[no-untyped-call]


def log_x_k1(x: Tensor) -> Tensor:
    r""":math:`\log(x K_1(x))` for x > 0, differentiable to any order; it tends to 0 with x."""
    return cast(Tensor, _LogXK1.apply(x))  # type: ignore[no-untyped-call]
