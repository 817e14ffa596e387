"""Arguments, checked: each error names the value and the fix."""

import math
import operator
from collections.abc import Collection
from numbers import Real

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Values = Tensor | npt.ArrayLike
"""What a user may hand over for numbers: a tensor, a NumPy array, a list, a number."""

TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3, torch.bfloat16: 0.05, torch.float16: 0.05}
"""How far a law's sum may be from 1: what rounding each of a million probabilities, or logarithms, can do to it, and
in float32 the rounded sum by which torch's softmax divides them, which is off by 2e-4 where it adds one by one."""


def read(*values: Tensor, default: float = 0.0) -> list[float]:
    """The values of tensors of one element, in one transfer.

    Where none can be read, inside ``torch.func.vmap`` and while a graph is compiled or exported, the default of each.
    """
    if torch.compiler.is_compiling():
        return [default] * len(values)
    try:
        return torch.stack([value.double() for value in values]).tolist()
    except RuntimeError:
        return [default] * len(values)


def whole(name: str, value: object, least: int, most: int | None = None) -> int:
    """A whole number in a range, of any type that is one: int, NumPy's integers, a tensor of one integer.

    Raises:
        ValueError: if it is none, or out of range.
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or number < least or (most is not None and number > most):
        wanted = f">= {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name} is {value!r}; it must be a whole number {wanted}")
    return number


def choice(name: str, value: object, allowed: Collection[str]) -> None:
    """Check that a value is one of several names.

    Raises:
        ValueError: if it is none of them.
    """
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}; expected one of {', '.join(allowed)}")


def positive(config: object, *names: str) -> None:
    """Check that attributes are positive, finite numbers.

    Raises:
        ValueError: if one is not.
    """
    for name in names:
        value = getattr(config, name)
        if not (isinstance(value, Real) and 0 < float(value) < math.inf):
            raise ValueError(f"{name} must be {'finite' if value == math.inf else 'positive'}, got {value!r}")


def number(name: str, value: object) -> float:
    """A positive, finite number, of any real type.

    Raises:
        ValueError: if it is none.
    """
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 < float(value) < math.inf:
        raise ValueError(f"{name} is {value!r}; it must be a positive number")
    return float(value)


def source(generator: object) -> torch.Generator | None:
    """A source of randomness, or None for torch's own.

    Raises:
        ValueError: if it is something else, such as a seed.
    """
    if generator is None or isinstance(generator, torch.Generator):
        return generator
    raise ValueError(f"generator is {generator!r}; it must be a torch.Generator: torch.Generator().manual_seed(0)")


def floating(name: str, values: object, shape: str, *ranks: int) -> Tensor:
    """A tensor through which gradients flow, of scores or vectors.

    Args:
        name: what it is called.
        values: what was given.
        shape: its dimensions in words, as ``[B, m]``.
        ranks: how many there may be; at least one if nothing is said.

    Raises:
        ValueError: if it is no floating-point tensor, or of other dimensions.
    """
    if isinstance(values, Tensor) and values.is_floating_point() and (values.ndim in ranks if ranks else values.ndim):
        return values
    given = f"{values.dtype} of {tuple(values.shape)}" if isinstance(values, Tensor) else type(values).__name__
    raise ValueError(f"{name} must be a floating-point tensor {shape}, got {given}")


def marks(name: str, values: Values) -> Tensor:
    """True or false, from a tensor, a NumPy array or a list.

    Raises:
        ValueError: if they are not bool.
    """
    given = tensor(name, values)
    if given.dtype != torch.bool:
        raise ValueError(f"{name} must be bool, got {given.dtype}; compare ids with labels")
    return given


def integers(name: str, values: Values) -> Tensor:
    """Whole numbers of any shape, from a tensor, a NumPy array or a list, as int64.

    Raises:
        ValueError: if they are not int32 or int64 (indexing takes uint8 for a mask).
    """
    values = tensor(name, values)
    if values.dtype not in (torch.int32, torch.int64) and values.numel():
        raise ValueError(f"{name}s are {values.dtype}; they must be integers, int32 or int64: convert them by .long()")
    return values.long()


def reals(name: str, values: Values) -> Tensor:
    """Real numbers of any shape; whole numbers, arrays and lists in float64, floating-point tensors as they are.

    Raises:
        ValueError: if they are no real numbers.
    """
    given = tensor(name, values)
    if given.is_complex() or given.dtype == torch.bool:
        raise ValueError(f"{name} holds {given.dtype}; it must hold real numbers")
    return given if given.is_floating_point() and isinstance(values, Tensor) else given.double()


def tensor(name: str, values: Values) -> Tensor:
    """A tensor, of a tensor, a NumPy array, a list or a number.

    Raises:
        ValueError: if none can be made.
    """
    try:
        return values if isinstance(values, Tensor) else torch.as_tensor(np.asarray(values))
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name} is {type(values).__name__}, which makes no tensor: {error}") from None


def ids(name: str, values: Values, classes: int) -> Tensor:
    """Class numbers of any shape, from a tensor, a NumPy array or a list, as int64.

    Raises:
        ValueError: if they are not int32 or int64 (indexing takes uint8 for a mask), or one is not in 0..classes-1.
    """
    given = integers(name, values)
    for bound in read(*given.aminmax()) if given.numel() else ():
        if not 0 <= bound < classes:
            article = "an" if name.startswith("i") else "a"
            raise ValueError(f"{article} {name} is {bound:.0f}; the {classes} classes are 0..{classes - 1}")
    return given


def law(name: str, q: Tensor) -> Tensor:
    """Laws [..., C] in float64, each divided by its sum.

    Raises:
        ValueError: if there is no class, an entry is negative, NaN or infinite, or a sum differs from 1 by more than
            the precision explains.
    """
    values = _classes(name, q)
    if not bool((torch.isfinite(values) & (values >= 0)).all()):
        raise ValueError(f"{name} must hold finite numbers >= 0, got {describe(values)}")
    total = values.sum(-1, keepdim=True)
    _check_sum(name, total, q.dtype, "divide it by its sum")
    return values / total


def log_law(name: str, log_q: Tensor) -> Tensor:
    """Logarithms of laws [..., C] in float64, normalised; -inf for probability 0.

    Raises:
        ValueError: if there is no class, an entry is NaN or +inf, or a sum differs from 1 by more than the precision
            explains.
    """
    values = _classes(name, log_q)
    largest = values.detach().max().item() if values.numel() else 0.0
    if math.isnan(largest) or largest == math.inf:
        raise ValueError(f"{name} holds {largest}; it must hold logarithms of probabilities (-inf for 0)")
    log_total = torch.logsumexp(values, -1, keepdim=True)
    _check_sum(f"exp({name})", log_total.detach().exp(), log_q.dtype, "normalise it, as torch.log_softmax does")
    return values - log_total


def describe(values: Tensor) -> str:
    """The first value that is negative or not finite, and its place."""
    wrong = (~torch.isfinite(values) | (values < 0)).nonzero()
    if not len(wrong):
        return "none"
    place = wrong[0].tolist()
    return f"{values[tuple(place)].item()!r} at {place[0] if len(place) == 1 else tuple(place)}"


def _classes(name: str, q: Tensor) -> Tensor:
    if not isinstance(q, Tensor) or not q.is_floating_point() or q.ndim == 0 or q.shape[-1] == 0:
        given = f"{q.dtype} of {tuple(q.shape)}" if isinstance(q, Tensor) else repr(type(q))
        raise ValueError(f"{name} must be floating-point [..., classes] with at least one class, got {given}")
    return q.to(torch.float64)


def _check_sum(name: str, total: Tensor, dtype: torch.dtype, fix: str) -> None:
    off = (total.detach() - 1).abs()
    if off.numel() and not off.max().item() <= TOLERANCE[dtype]:
        raise ValueError(f"{name} sums to {total.flatten()[off.argmax()].item()!r}, not 1; {fix}")
