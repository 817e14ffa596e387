"""Arguments, checked: what does not fit raises a ``ValueError`` that names the argument, the value and the fix."""

import math
import operator
import reprlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import fields
from fractions import Fraction
from functools import cache, reduce, wraps
from inspect import Parameter, signature
from numbers import Real
from types import UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.forward_ad import unpack_dual
from torch.fx.experimental.proxy_tensor import get_proxy_mode

P = ParamSpec("P")
R = TypeVar("R")

Values = Tensor | npt.ArrayLike
"""Numbers as users pass them: a tensor, a NumPy array, a list, a number."""

TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3, torch.bfloat16: 0.05, torch.float16: 0.05}
"""How far a law's sum may be from 1: what rounding each of a million probabilities, or logarithms, can do to it, and
in float32 the rounded sum by which torch's softmax divides them, which is off by 2e-4 where it adds one by one."""


FLOATS = tuple(TOLERANCE)
"""Types in which numbers are computed; float8 only stores them."""

LARGEST = (1 << 63) - 1
"""What torch and NumPy take for a whole number."""


def read(*values: Tensor, default: float = 0.0) -> list[float]:
    """The values of tensors of one element, in one transfer.

    Where none can be read, inside ``torch.func.vmap`` and while a graph is compiled, exported or captured by CUDA, the
    default of each.
    """
    if torch.compiler.is_compiling() or is_captured(values[0]) or not all(map(has_numbers, values)):
        return [default] * len(values)
    try:
        moved: Iterator[float] = iter(())
        if on_device := [value for value in values if not value.is_cpu]:
            common = reduce(torch.promote_types, (value.dtype for value in on_device))
            moved = iter(torch.stack([value.to(common) for value in on_device]).tolist())
        return [value.item() if value.is_cpu else next(moved) for value in values]
    except RuntimeError:
        return [default] * len(values)


def has_numbers(values: Tensor) -> bool:
    """Whether a tensor has numbers that can be read: not on meta, nor under ``FakeTensorMode``."""
    return not (values.is_meta or isinstance(values, FakeTensor))


def is_transformed() -> bool:
    """Whether ``torch.func`` transforms operations: it maps no values that are read, and no backward pass of ours.

    torch has no public name for it.
    """
    return torch._C._are_functorch_transforms_active()


def is_traced(values: Tensor) -> bool:
    """Whether operations are traced or transformed, or numbers cannot be read: then all is plain torch."""
    graph = torch.compiler.is_compiling() or get_proxy_mode() is not None
    return graph or is_transformed() or not has_numbers(values)


def has_tangent(*values: object) -> bool:
    """Whether derivatives are taken in forward mode."""
    return any(unpack_dual(each).tangent is not None for each in values if isinstance(each, Tensor))  # type: ignore[no-untyped-call]


def is_differentiated(value: Tensor) -> bool:
    """Whether a derivative in it is taken, backward or in forward mode."""
    return (value.requires_grad and torch.is_grad_enabled()) or has_tangent(value)


def is_captured(values: Tensor) -> bool:
    """Whether operations on a tensor go into a CUDA graph, so that the host can read none of its numbers."""
    return values.is_cuda and torch.cuda.is_current_stream_capturing()


def wide(device: torch.device) -> torch.dtype:
    """float64, or float32 on a device without it, as the GPUs of Apple's computers are."""
    if device.type in ("cpu", "cuda", "meta"):
        return torch.float64
    try:
        return torch.empty(0, dtype=torch.float64, device=device).dtype
    except (TypeError, RuntimeError):
        return torch.float32


def widest(values: Tensor) -> Tensor:
    """Values in float64, or in float32 on a device without it."""
    return values.to(wide(values.device))


def double(values: Tensor) -> Tensor:
    """Values in float64, on the CPU where their device has none."""
    return values.to(values.device if wide(values.device) == torch.float64 else "cpu").to(torch.float64)


def onto(values: Tensor, device: torch.device) -> Tensor:
    """Values on a device, in single precision if it has no double."""
    is_double = values.dtype == torch.float64
    return values.to(device, wide(device)) if is_double else values.to(device)


def whole(name: str, value: object, least: int, most: int | None = None) -> int:
    """A whole number in a range, of any type that is one: int, NumPy's integers, a tensor of one integer."""
    try:
        # An int, or a size that a graph keeps open, is not asked for its value: there would be a graph for each.
        is_whole = isinstance(value, (int, torch.SymInt))  # torch 2.6 compiles no union
        number: Any = None if isinstance(value, bool) else value if is_whole else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    bounded = most is not None or not torch.compiler.is_compiling()  # compared, a graph's sizes would get the bound
    if number is None or number < least or (bounded and number > (LARGEST if most is None else most)):
        long = number is not None and number > LARGEST
        wanted = f"from {least} to {most}" if most is not None else f">= {least}{' of at most 64 bits' * long}"
        raise ValueError(f"{name} is {value!r}; it must be a whole number {wanted}")
    return cast(int, number)


def choice(name: str, value: object, allowed: Collection[str]) -> None:
    """Check that a value is one of several names."""
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}; expected one of {', '.join(allowed)}")


def positive(config: object, *names: str) -> None:
    """Check that attributes are positive, finite numbers."""
    for name in names:
        value = getattr(config, name)
        if not (isinstance(value, Real) and 0 < _float(value) < math.inf):
            huge = isinstance(value, Real) and _float(value) == math.inf
            raise ValueError(f"{name} must be {'finite' if huge else 'positive'}, got {value!r}")


def plain(name: str, value: object) -> object:
    """A tensor of one floating-point number as this number; all else as it is."""
    if not (isinstance(value, Tensor) and value.numel() == 1 and value.is_floating_point() and has_numbers(value)):
        return value
    if value.requires_grad:
        raise ValueError(f"{name} requires a gradient, which would be lost: give {name}.item(), or learn_{name}=True")
    return value.item()


def number(name: str, value: object) -> float:
    """A positive, finite number, of any real type, or a tensor of one."""
    value = plain(name, value)
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 < _float(value) < math.inf:
        raise ValueError(f"{name} is {value!r}; it must be a positive number")
    return float(value)


def source(generator: object) -> torch.Generator | None:
    """A source of randomness, or None for torch's own."""
    if generator is None or isinstance(generator, torch.Generator):
        return generator
    raise ValueError(f"generator is {generator!r}; it must be a torch.Generator: torch.Generator().manual_seed(0)")


def floating(name: str, values: object, shape: str, *ranks: int) -> Tensor:
    """A dense tensor through which gradients flow, of some numbers of dimensions: any but 0 by default."""
    if isinstance(values, Tensor):
        _check_dense(name, values)
        if values.dtype in FLOATS and (values.ndim in ranks if ranks else values.ndim):
            return values
    given = f"{values.dtype} of {tuple(values.shape)}" if isinstance(values, Tensor) else type(values).__name__
    raise ValueError(f"{name} must be a floating-point tensor {shape}, got {given}")


def _check_dense(name: str, values: Tensor) -> None:
    if values.is_nested or values.is_quantized or values.layout is not torch.strided:
        layout = "nested" if values.is_nested else "quantized" if values.is_quantized else values.layout
        dense = ".to_padded_tensor(padding)" if values.is_nested else ".to_dense()"
        raise ValueError(f"{name} has the layout {layout}; it must be dense: take {dense}")


def marks(name: str, values: Values) -> Tensor:
    """True or false, from a tensor, a NumPy array or a list."""
    given = tensor(name, values)
    if given.dtype != torch.bool:
        raise ValueError(f"{name} must be bool, got {given.dtype}; compare ids with labels")
    return given


def integers(name: str, values: Values) -> Tensor:
    """Whole numbers, int32 or int64 (indexing takes uint8 for a mask), of a tensor, an array or a list, as int64."""
    values = tensor(name, values)
    if values.dtype not in (torch.int32, torch.int64) and values.numel():
        raise ValueError(f"{name}s are {values.dtype}; they must be integers, int32 or int64: convert them by .long()")
    return values.long()


def reals(name: str, values: Values) -> Tensor:
    """Real numbers of any shape; whole numbers, arrays and lists in float64, floating-point tensors as they are."""
    given = tensor(name, values)
    if given.is_complex() or given.dtype == torch.bool:
        raise ValueError(f"{name} holds {given.dtype}; it must hold real numbers")
    return given if given.is_floating_point() and isinstance(values, Tensor) else given.to(wide(given.device))


def logs(name: str, values: Values) -> Tensor:
    """Logarithms of probabilities, of any shape, at least float32; see :func:`reals`.

    On an accelerator their values are not read, which it would wait for; the loss that takes them checks.
    """
    check_order(name, values)
    given = reals(name, values)
    for largest in read(given.detach().max()) if given.numel() and given.is_cpu else ():
        if not largest <= 1e-6:
            raise ValueError(f"{name} holds {largest}; it must hold logarithms of probabilities (-inf for 0)")
    return given.to(torch.promote_types(given.dtype, torch.float32))


def above_one(law: Tensor) -> Tensor:
    """Where a log law is above 0: beyond rounding, or everywhere, as probabilities below 1e-6 in place of logs are."""
    return (law > 1e-6) | (law > 1e-12).all()


def is_above_one(law: Tensor) -> Tensor:
    """Whether a log law is above 0 anywhere, by its least and its largest: no mask of its size is made."""
    return above_one(torch.stack(law.aminmax())).any()


def together(**values: Tensor) -> None:
    """Check that tensors broadcast."""
    try:
        torch.broadcast_shapes(*(value.shape for value in values.values()))  # type: ignore[no-untyped-call]
    except RuntimeError:
        shapes = ", ".join(f"{name} {tuple(value.shape)}" for name, value in values.items())
        raise ValueError(f"{shapes} do not broadcast") from None


def held(name: str, values: Tensor) -> Tensor:
    """A tensor whose numbers can be read."""
    if values.is_meta:
        raise ValueError(f"{name} is on the device meta, which holds no numbers; give it on another")
    return values


def check_order(name: str, values: object) -> None:
    """Numbers of the classes 0, 1, ... stand in this order; ``value_counts`` of pandas has another."""
    index = None if isinstance(values, (Tensor, Sequence, float, int)) else getattr(values, "index", None)
    if index is not None and not np.array_equal(index, np.arange(len(index))):
        shown = reprlib.repr(np.asarray(index).tolist())
        none = "-math.inf" if "log_" in name else 0
        raise ValueError(
            f"{name} has the index {shown}, not 0, 1, ...: take {name}.reindex(range(L), fill_value={none}), or "
            f"{name}.to_numpy() if its order is right"
        )


def tensor(name: str, values: Values) -> Tensor:
    """A tensor, of a tensor, a NumPy array, a list or a number."""
    if isinstance(values, Tensor):
        _check_dense(name, values)
        return values
    check_unmasked(name, values)
    try:
        array = np.asarray(values)
        if isinstance(values, np.ndarray) and not torch.compiler.is_compiling():
            # torch takes no view of reversed axes, nor of bytes in another order.
            order = array.dtype.newbyteorder("=")
            array = array.astype(order, copy=any(step < 0 for step in array.strides))
        made = torch.as_tensor(array)
        # Where models are made without memory, under torch.device("meta"), numbers stay on the CPU.
        return torch.as_tensor(array, device="cpu") if made.is_meta else made
    except (TypeError, ValueError, RuntimeError):
        given = f"an array of {values.dtype}" if isinstance(values, np.ndarray) else reprlib.repr(values)
        raise ValueError(
            f"{name} is {given}; it must hold numbers, as float64 or int64, in rows of one length"
        ) from None


def check_unmasked(name: str, values: object) -> None:
    """Refuse NumPy's masked arrays: a tensor has no mask."""
    if isinstance(values, np.ma.MaskedArray):
        raise ValueError(f"{name} is a masked array, whose mask would be lost; give {name}.filled(VALUE)")


def ids(name: str, values: Values, classes: int) -> Tensor:
    """Class numbers of any shape, from a tensor, a NumPy array or a list, as int64."""
    given = integers(name, values)
    for bound in read(*given.aminmax()) if given.numel() else ():
        if not 0 <= bound < classes:
            article = "an" if name[0] in "ie" else "a"
            raise ValueError(f"{article} {name} is {bound:.0f}; the {classes} classes are 0..{classes - 1}")
    return given


def law(name: str, q: Tensor) -> Tensor:
    """Laws [..., C] in float64, each divided by its sum, which may differ from 1 by what the precision explains."""
    values = _classes(name, q)
    if not bool((torch.isfinite(values) & (values >= 0)).all()):
        raise ValueError(f"{name} must hold finite numbers >= 0, got {describe(values)}")
    total = values.sum(-1, keepdim=True)
    _check_sum(name, total, q.dtype, "divide it by its sum")
    return values / total


def log_law(name: str, log_q: Tensor) -> Tensor:
    """Logarithms of laws [..., C] in float64, normalised; -inf for probability 0."""
    values = _classes(name, log_q)
    largest = values.detach().max().item() if values.numel() else 0.0
    if math.isnan(largest) or largest == math.inf:
        raise ValueError(f"{name} holds {largest}; it must hold logarithms of probabilities (-inf for 0)")
    log_total = torch.logsumexp(values, -1, keepdim=True)
    _check_sum(f"exp({name})", log_total.detach().exp(), log_q.dtype, "normalise it, as torch.log_softmax does")
    return values - log_total


def typed(function: Callable[P, R]) -> Callable[P, R]:
    """Check each argument against its annotation, so that a wrong one raises a clear error, not one of torch.

    A tensor holds real numbers that can be read, none of them NaN on a CPU (an accelerator would wait for the look, and
    ``torch.func.vmap`` allows none); a whole number has 64 bits; a number is not NaN.
    """
    parameters = signature(function).parameters

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        hints = _hints(function)
        for name, value in signature(function).bind(*args, **kwargs).arguments.items():
            if name in hints:
                several = parameters[name].kind is Parameter.VAR_POSITIONAL
                for part in value if several else (value,):
                    argument(name, part, hints[name])
        return function(*args, **kwargs)

    return checked


def first_order(backward: Callable[P, R]) -> Callable[P, R]:
    """A backward pass that refuses ``create_graph=True``: its gradients would count as constants.

    torch's ``once_differentiable`` notices only if the gradient of the result requires one itself.
    """

    @wraps(backward)
    def checked(*arguments: P.args, **options: P.kwargs) -> R:
        if torch.is_grad_enabled():
            raise RuntimeError("only first derivatives are known here: leave out create_graph")
        return backward(*arguments, **options)

    return checked


def is_batched(gradient: Tensor) -> bool:
    """Whether autograd takes many gradients at once, by ``is_grads_batched``; torch has no public name for it."""
    return torch._C._functorch.is_legacy_batchedtensor(gradient)


def refuse_batched(gradient: Tensor) -> None:
    """Raise a NotImplementedError where many gradients are taken at once."""
    if is_batched(gradient):
        raise NotImplementedError("gradients are computed one at a time here: leave out is_grads_batched")


def attributes(instance: Any) -> None:
    """Check each field of a dataclass against its annotation, as :func:`typed` does arguments."""
    if torch.compiler.is_compiling():  # which cannot follow annotations
        return
    for field in fields(instance):
        argument(field.name, getattr(instance, field.name), _hints(type(instance))[field.name])  # type: ignore[arg-type]


@cache
def _hints(annotated: Any) -> dict[str, Any]:
    return get_type_hints(annotated)


def argument(name: str, value: object, kind: Any) -> None:
    """Check a value against an annotation."""
    if torch.compiler.is_compiling():  # which cannot follow annotations
        return
    if not _fits(value, kind):
        given = f"{value.dtype} of {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
        raise ValueError(f"{name} is {given[:80]}; it must be {_words(kind)}")
    if isinstance(value, Tensor) and value.is_cpu and read(value.isnan().any())[0]:
        place = value.isnan().nonzero()[0].tolist()
        raise ValueError(f"{name}{place or ''} is nan; it must be a number")


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value is of an annotated kind."""
    origin, inside = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in inside)
    if origin is Literal:
        return isinstance(value, str) and value in inside
    if origin is Sequence:
        ordered = isinstance(value, Sequence) and not isinstance(value, str)
        return ordered and all(_fits(one, inside[0]) for one in value)
    if origin is tuple:
        parts = inside[:1] * len(value) if inside[-1:] == (...,) and isinstance(value, tuple) else inside
        return isinstance(value, tuple) and len(value) == len(parts) and all(map(_fits, value, parts))
    if kind is Tensor:
        real = isinstance(value, Tensor) and value.layout is torch.strided and not value.is_complex()
        return real and not value.is_nested and value.device.type != "meta"
    if kind is int:
        return not isinstance(value, bool) and hasattr(value, "__index__") and _index(value)
    if kind in (float, Fraction):
        return isinstance(value, Real) and not isinstance(value, bool) and _finite(value, kind is float)
    if getattr(kind, "_is_protocol", False):
        return all(hasattr(value, name) for name in vars(kind) if not name.startswith("_"))
    return kind is Any or isinstance(kind, TypeVar) or isinstance(value, origin or kind)


def _index(value: Any) -> bool:
    try:
        return -(1 << 63) <= operator.index(value) < 1 << 63
    except TypeError:  # a tensor of several
        return False


def _float(value: Real) -> float:
    """The number in double precision, infinite beyond it."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]


def _finite(value: Any, or_infinite: bool) -> bool:
    try:
        return not math.isnan(value) and (or_infinite or not math.isinf(value))
    except OverflowError:  # a whole number beyond double precision, which a fraction may be
        return not or_infinite


def _words(kind: Any) -> str:
    """What fits a kind."""
    origin, inside = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(_words, inside)))
    if origin is Literal:
        return f"one of {', '.join(inside)}"
    if origin in (Sequence, tuple):
        return f"a {'sequence' if origin is Sequence else 'tuple'}, its entries each {_words(inside[0])}"
    names = {
        Tensor: "a torch.Tensor of real numbers, dense and on a device that holds them",
        int: "a whole number of at most 64 bits",
        float: "a number",
        Fraction: "a finite number",
        type(None): "None",
    }
    return names.get(kind) or f"a {getattr(origin or kind, '__name__', kind)}"


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
    return q.to(wide(q.device))


def _check_sum(name: str, total: Tensor, dtype: torch.dtype, fix: str) -> None:
    off = (total.detach() - 1).abs()
    if off.numel() and not off.max().item() <= TOLERANCE[dtype]:
        raise ValueError(f"{name} sums to {total.flatten()[off.argmax()].item()!r}, not 1; {fix}")
