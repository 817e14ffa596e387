"""A device that stands in for a GPU: it computes on the CPU, refuses what CUDA refuses, and counts what CUDA waits for.

Its tensors are wrappers around those of the CPU, and every operation passes through :func:`dispatch`: none mixes
devices, generators are where the draws are, and nothing reads a tensor as if it were in the host's memory. It does not
show that CUDA has each kernel, nor its rounding, its speed or anything of asynchrony.
"""

import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, ClassVar, NoReturn
from unittest import mock

import pytest
import torch
from torch import Tensor
from torch.utils import backend_registration
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

NAME = "standin"
HOME = torch.device("cpu")

COPIES = frozenset({"aten::_to_copy", "aten::copy_", "aten::_copy_from"})
INDEXING = frozenset({"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"})
"""Of these CUDA takes indices from the CPU too, though not the other way round."""

INTEGERS = frozenset({torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})
FILLS = frozenset({"aten::fill", "aten::fill_", "aten::masked_fill", "aten::masked_fill_"}) | INDEXING
"""These take numbers from the CPU, as elementwise operations do, except clamp."""

PRODUCTS = frozenset(f"aten::{name}" for name in ("mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot", "addbmm"))
"""Matrix products, of which CUDA has no kernel for integers."""

WAITING = frozenset(
    f"aten::{name}"
    for name in (
        "_local_scalar_dense", "equal", "nonzero", "masked_select", "_unique", "_unique2", "unique_dim",
        "unique_consecutive", "unique_dim_consecutive", "bincount", "_linalg_check_errors", "allclose",
    )
)  # fmt: skip
"""What makes the host wait: it reads a number, or the result's shape depends on numbers."""


class OnDevice(Tensor):
    """A CPU tensor that says it is elsewhere."""

    held: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: Tensor) -> "OnDevice":
        sparse = held.layout != torch.strided
        made: OnDevice = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            held.size(),
            strides=None if sparse else held.stride(),
            storage_offset=None if sparse else held.storage_offset(),
            dtype=held.dtype,
            layout=held.layout,
            device=torch.device(NAME, 0),
        )
        made.held = held
        return made

    def __init__(self, held: Tensor) -> None:
        pass

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return dispatch(func, args, dict(kwargs or {}))

    def numpy(self, *, force: bool = False) -> Any:
        if force:
            return self.detach().cpu().numpy()
        self._refuse_numpy()

    def __array__(self, dtype: Any = None) -> NoReturn:
        self._refuse_numpy()

    def _refuse_numpy(self) -> NoReturn:
        raise TypeError(f"can't convert {NAME}:0 device type tensor to numpy. Use Tensor.cpu() first.")

    def tolist(self) -> Any:
        return self.detach().cpu().tolist()

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.dim() == 0 else repr(self)

    def __repr__(self, *, tensor_contents: object = None) -> str:
        return f"on {NAME}: {self.held!r}"


def held(value: Any) -> Any:
    return value.held if isinstance(value, OnDevice) else value


def placed(value: Any) -> Any:
    return OnDevice(value) if isinstance(value, Tensor) else value


def tensors_of(values: Iterable[Any]) -> Iterator[Tensor]:
    """Those among an operation's arguments, which hold them at most in lists: torch's trees take ten times as long."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors_of(value)


def each(change: Callable[[Any], Any], value: Any) -> Any:
    """The same argument or result, with each part changed."""
    return type(value)(each(change, part) for part in value) if type(value) in (list, tuple) else change(value)


def dispatch(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Refuse what CUDA refuses, count, and compute on the CPU."""
    name: str = func._schema.name
    tensors = list(tensors_of((*args, *kwargs.values())))
    on_device = [tensor for tensor in tensors if isinstance(tensor, OnDevice)]
    asked = kwargs.get("device")
    result_here = bool(on_device) if asked is None else torch.device(asked).type == NAME
    if on_device and name not in COPIES:
        _refuse_mixture(name, func, args, kwargs, tensors)
    _refuse_generator(name, kwargs, args, result_here)
    if kwargs.get("pin_memory") and result_here:
        raise RuntimeError(f"{name}: Cannot pin a tensor of {NAME}; only CPU memory can be pinned")
    if on_device and name in PRODUCTS and tensors[0].dtype in INTEGERS:
        raise RuntimeError(f"{name}: not implemented for {tensors[0].dtype} on {NAME}")
    if name == "aten::copy_":
        result_here = isinstance(args[0], OnDevice)
    _count(name, args, kwargs, on_device, result_here)
    if asked is not None:
        kwargs["device"] = HOME
    function = _topk if on_device and name == "aten::topk" else func
    result = function(*(each(held, arg) for arg in args), **{key: each(held, arg) for key, arg in kwargs.items()})
    if torch.Tag.inplace_view in func.tags and isinstance(args[0], OnDevice):
        with no_dispatch():  # as squeeze_, which changes the shape that the wrapper shows
            func(*args, **kwargs)
    if name.endswith("_") and func._schema.is_mutable and isinstance(args[0], OnDevice):
        return args[0]
    if "out" in kwargs:
        return kwargs["out"]
    if not result_here:
        return result
    return each(placed, result)


def _topk(values: Tensor, k: int, dim: int = -1, *options: bool) -> tuple[Tensor, Tensor]:
    """Of equal values the last: CUDA takes others than the CPU."""
    top, place = values.flip(dim).topk(k, dim, *options)
    return top, values.shape[dim] - 1 - place


def _refuse_mixture(
    name: str, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], tensors: Sequence[Tensor]
) -> None:
    """Raise where tensors of both devices meet, but for numbers from the CPU and, in indexing, indices from there."""
    if name in INDEXING and isinstance(args[0], OnDevice):
        tensors = [args[0], *tensors_of((*args[2:], *kwargs.values()))]
    first = args[0] if args else None
    written = first if func._schema.is_mutable and isinstance(first, Tensor) else None
    numbers = name in FILLS or (torch.Tag.pointwise in func.tags and name != "aten::clamp")
    strangers = [
        arg for arg in tensors if not isinstance(arg, OnDevice) and (arg.dim() > 0 or arg is written or not numbers)
    ]
    if strangers:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in strangers)
        raise RuntimeError(
            f"{name}: Expected all tensors to be on the same device, but found {NAME}:0 and cpu (of shape {shapes})"
        )


def _refuse_generator(name: str, kwargs: Mapping[str, Any], args: Sequence[Any], result_here: bool) -> None:
    for source in (*args, *kwargs.values()):
        if isinstance(source, torch._C.Generator):
            where = NAME if source._cdata in Generator.of_device else "cpu"
            if where != (NAME if result_here else "cpu"):
                wanted = NAME if result_here else "cpu"
                raise RuntimeError(f"{name}: Expected a {wanted!r} device type for generator but found {where!r}")


def _count(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], on_device: Sequence[Tensor], onto: bool) -> None:
    """Note what is copied from or to the device (``onto``), and what the host waits for."""
    if name in COPIES:
        source = args[1] if name == "aten::copy_" else args[0]
        moved = source.numel() * source.element_size()
        if isinstance(source, OnDevice) and not onto:
            StandIn.note(name, to_host=moved)
        elif onto and not isinstance(source, OnDevice):
            StandIn.note(to_device=moved)
    elif on_device and (name in WAITING or _by_mask(name, args) or _by_repeats(name, args, kwargs)):
        StandIn.note(name, to_host=on_device[0].element_size() if name == "aten::_local_scalar_dense" else 0)


def _by_mask(name: str, args: Sequence[Any]) -> bool:
    """Whether an index is a mask of the device, whose elements must be counted first."""
    if name not in INDEXING:
        return False
    return any(isinstance(index, OnDevice) and index.dtype in (torch.bool, torch.uint8) for index in args[1])


def _by_repeats(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    return name == "aten::repeat_interleave" and kwargs.get("output_size") is None


class Generator(torch._C.Generator):
    """A generator that says where it is; the same seed gives the same numbers on either device."""

    of_device: ClassVar[set[int]] = set()
    """Addresses: torch hands a generator on as an object that only shares these."""
    _where: torch.device

    def __new__(cls, device: torch.device | str = "cpu") -> "Generator":
        made = super().__new__(cls, "cpu")
        made._where = torch.device(device)
        if made._where.type == NAME:
            made._where = torch.device(NAME, 0)
            cls.of_device.add(made._cdata)
            weakref.finalize(made, cls.of_device.discard, made._cdata)
        return made

    def __init__(self, device: torch.device | str = "cpu") -> None:
        pass

    @property
    def device(self) -> torch.device:
        return self._where


class StandIn(TorchDispatchMode):
    """Within it there is the device; waits of the host are counted by operation, transfers in bytes."""

    _entered: ClassVar[list["StandIn"]] = []

    def __init__(self) -> None:
        super().__init__()
        if not REGISTERED:
            pytest.skip("torch before 2.10 takes no device that is written in Python")
        self.synchronisations: Counter[str] = Counter()
        self.to_host = self.to_device = 0
        self._replaced: list[tuple[Any, Any]] = []

    @classmethod
    def entered(cls) -> "StandIn":
        """The innermost."""
        return cls._entered[-1]

    @classmethod
    def note(cls, waited_for: str | None = None, to_host: int = 0, to_device: int = 0) -> None:
        """Count in whichever is entered: autograd computes in threads that see no mode."""
        for mode in cls._entered:
            mode.synchronisations.update([waited_for] if waited_for else [])
            mode.to_host += to_host
            mode.to_device += to_device

    def __enter__(self) -> "StandIn":
        # A generator of the device can only be made by its own class, which modules may have imported by name.
        for module in [torch, *(module for name, module in sys.modules.items() if name.split(".")[0] == "sumexp")]:
            if vars(module).get("Generator") is torch._C.Generator or module is torch:
                self._replaced.append((module, vars(module)["Generator"]))
                module.Generator = Generator  # type: ignore[assignment, misc]
        self._entered.append(self)
        super().__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._entered.remove(self)
        while self._replaced:
            module, before = self._replaced.pop()
            module.Generator = before

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return dispatch(func, args, dict(kwargs or {}))


@contextmanager
def without_double() -> Iterator[StandIn]:
    """The device, which refuses float64 as Apple's GPUs do."""

    def refusing(func: Any, args: Sequence[Any], kwargs: dict[str, Any], compute: Any = dispatch) -> Any:
        result = compute(func, args, kwargs)
        if any(isinstance(tensor, OnDevice) and tensor.dtype == torch.float64 for tensor in tensors_of([result])):
            raise TypeError("Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64")
        return result

    with mock.patch.dict(globals(), dispatch=refusing), StandIn() as device:
        yield device


def _empty_strided(size: Any, stride: Any, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None) -> Tensor:  # fmt: skip  # noqa: E501
    return OnDevice(torch.empty_strided(size, stride, dtype=dtype, device=HOME))


def _empty(size: Any, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None, memory_format: Any = None) -> Tensor:  # fmt: skip  # noqa: E501
    return OnDevice(torch.empty(size, dtype=dtype, device=HOME))


def _copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    _count("aten::_copy_from", (source, target), {}, [], isinstance(target, OnDevice))
    held(target).copy_(held(source))
    return target


def _register() -> bool:
    """Make the name known to torch, once for the process, with what autograd's threads allocate and copy by."""
    with suppress(AttributeError):  # of a backend that is there already
        if torch._C._get_privateuse1_backend_name() == NAME:
            return True
    if (register := getattr(backend_registration, "_setup_privateuseone_for_python_backend", None)) is None:
        return False
    register(NAME)
    module = getattr(torch, NAME)
    module.get_amp_supported_dtype = lambda: [torch.bfloat16, torch.float16]
    library = torch.library.Library("aten", "IMPL")
    kernels: Mapping[str, Callable[..., Tensor]] = {
        "empty_strided": _empty_strided, "empty.memory_format": _empty, "_copy_from": _copy_from
    }  # fmt: skip
    for name, kernel in kernels.items():
        library.impl(name, kernel, "PrivateUse1")
    module.library = library  # as long as torch
    return True


REGISTERED = _register()
