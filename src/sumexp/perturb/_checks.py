"""Checks of arguments."""

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from sumexp._checks import read


def shaped(theta: Tensor, name: str = "theta") -> None:
    """Check parameters without reading their values."""
    if not isinstance(theta, Tensor) or not theta.is_floating_point():
        raise ValueError(f"{name} must be a floating-point tensor, got {getattr(theta, 'dtype', type(theta))}")
    if theta.ndim == 0 or theta.shape[-1] < 2:
        raise ValueError(f"{name} has shape {tuple(theta.shape)}; its last dimension must hold at least two classes")
    if theta.numel() == 0:
        raise ValueError(f"{name} has shape {tuple(theta.shape)}: no row to work on")


def finite(theta: Tensor, name: str = "theta") -> None:
    """Check that parameters are finite, if their values can be read (not in ``vmap`` or ``compile``)."""
    [sound] = read(torch.isfinite(theta.detach()).all(), default=1.0)
    if not sound:
        worst = theta.detach()[~torch.isfinite(theta)][0].item()
        raise ValueError(
            f"{name} holds {worst}; parameters must be finite. In the limit of -inf a class has probability 0: "
            "leave it out"
        )


def parameters(theta: Tensor, name: str = "theta") -> Tensor:
    """Parameters [..., d] with d >= 2, finite, in float64."""
    shaped(theta, name)
    if theta.layout is not torch.strided or theta.is_meta:
        raise ValueError(f"{name} is {theta.layout} on {theta.device}; it must be dense, on a device that holds it")
    finite(theta, name)
    return theta.to(torch.float64)


def direction(v: Tensor, theta: Tensor) -> Tensor:
    """A vector to multiply with a matrix of the parameters, [..., d], finite, in float64."""
    try:
        v = v.expand(theta.shape)
    except RuntimeError:
        raise ValueError(f"v {tuple(v.shape)} does not broadcast to theta {tuple(theta.shape)}") from None
    if not bool(v.isfinite().all()):
        raise ValueError("v holds an infinity; it must be finite")
    return v.to(theta)


def temperature(tau: float | Tensor, name: str = "tau") -> Tensor:
    """The temperature, finite and positive, as a scalar tensor in float64."""
    try:
        value = torch.as_tensor(tau, dtype=torch.float64, device=getattr(tau, "device", "cpu"))
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} is {tau!r}; it must be one finite number > 0") from None
    [at] = read(value.detach(), default=1.0) if value.ndim == 0 else [math.nan]
    if not 0 < at < math.inf:
        given = value.item() if value.ndim == 0 else f"of shape {tuple(value.shape)}"
        raise ValueError(f"{name} is {given}; it must be one finite number > 0 (tau -> 0 is Perturb-Argmax)")
    return value


def target(p: Tensor) -> Tensor:
    """A point of the open simplex [..., d], in float64."""
    if not isinstance(p, Tensor) or p.ndim == 0 or p.shape[-1] < 2 or p.numel() == 0:
        raise ValueError(f"a target needs at least two classes, got {tuple(getattr(p, 'shape', ()))}")
    if not p.is_floating_point():
        raise ValueError(f"a target must be a floating-point tensor, got {p.dtype}")
    rounding = max(1e-9, 16 * torch.finfo(p.dtype).eps)
    p = p.to(torch.float64)
    if bool(torch.isnan(p).any()) or bool((p < 0).any()) or bool(((p.sum(-1) - 1).abs() > rounding).any()):
        raise ValueError(f"a target must be non-negative and of sum 1, got sums {p.sum(-1).flatten()[:3].tolist()}")
    if bool((p == 0).any()):
        raise ValueError(
            "a target has an entry 0: it is on the boundary of the simplex, which no finite parameters reach; leave "
            "the class out or give it a positive probability"
        )
    return p


def pieces(x: Tensor, size: int) -> list[Tensor]:
    """Consecutive slices of at most max(size, 1) along the first dimension."""
    size = max(size, 1)
    return [x[start : start + size] for start in range(0, len(x), size)]


def joined(parts: Iterable[Tensor], rows: int) -> Tensor:
    """``torch.cat`` that frees each part: small results kept among large temporaries would pin the heap."""
    result, at = torch.empty(0, device="cpu"), 0
    for part in parts:
        result = part.new_empty(rows, *part.shape[1:]) if at == 0 else result
        result[at : at + len(part)] = part
        at += len(part)
    return result
