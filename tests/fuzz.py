"""Each public function of the subject meets hostile arguments: numbers come of them, or one clear error.

A fuzzed call is a good one of the table of `tests.accelerator.functions` in which the named function gets other
arguments, each of the kind that it replaces: a law for a law, a count for a count.
"""

import math
import resource
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from fractions import Fraction
from importlib import import_module
from types import FrameType, ModuleType
from typing import Any
from unittest import mock

import numpy as np
import psutil
import torch
from hypothesis import strategies as st
from torch import Generator, Tensor

from sumexp import bias, expectations, nce, negatives, perturb
from sumexp.bias.rational import softmax
from sumexp.bias.reading import without_replacement
from sumexp.nce import gaussians
from sumexp.negatives import consistency
from sumexp.perturb import noises
from tests.accelerator import functions
from tests.accelerator.functions import Call, law, log_law, row
from tests.accelerator.test_functions import scores
from tests.perturb.standard import CONTINUOUS

PAIR = bias.Schedule((1, 2), (Fraction(1), Fraction(1, 2)))

EXTRA: Mapping[str, Call] = {
    "bias.Schedule": lambda z: bias.Schedule((1, 2), (Fraction(1), Fraction(1, 2))),
    "bias.certify": lambda z: bias.certify(without_replacement(2, 1), (1, 1), (2, Fraction(5, 2))),
    "bias.mixed_difference": lambda z: bias.mixed_difference(softmax, (1, 1), (2, Fraction(5, 2))),
    "bias.cost_variance_bound": lambda z: bias.cost_variance_bound(4),
    "bias.cube": lambda z: bias.cube(4, 2, 1, Fraction(3, 2)).error,
    "bias.cube_difference": lambda z: bias.cube_difference(3, 1, Fraction(3, 2)),
    "bias.dyadic": lambda z: bias.dyadic(8, 1.5, True),
    "bias.limit": lambda z: bias.limit(4, 2).error,
    "bias.lower_bound": lambda z: bias.lower_bound((Fraction(1), Fraction(1, 2), Fraction(0)), 1),
    "bias.moments": lambda z: bias.moments(PAIR, (Fraction(1), Fraction(1, 2))),
    "bias.reads_needed": lambda z: bias.reads_needed(8, Fraction(1, 8)),
    "bias.roulette": lambda z: bias.roulette((Fraction(1), Fraction(1, 2))),
    "bias.two_valued_moments": lambda z: bias.two_valued_moments(PAIR, Fraction(2), Fraction(1), 1),
    "expectations.discretisation_bound": lambda z: expectations.discretisation_bound(0.2, 1),
    "expectations.rule": lambda z: expectations.rule(1e-10, 10.0),
    "nce.Joint": lambda z: nce.Joint(z.flatten().softmax(0).view(4, 4)).mutual_information,
    "nce.gaussians.mutual_information": lambda z: gaussians.mutual_information(2, 0.5),
    "nce.gaussians.optimal_bound": lambda z: gaussians.optimal_bound(2, 0.5, 3, 40),
    "negatives.uniform": lambda z: negatives.uniform(4),
    "perturb.point_mass": lambda z: perturb.softmax.mean(row(z), perturb.point_mass(0.5)),
    **{
        f"perturb.{name}": lambda z, name=name: [
            perturb.argmax.probabilities(row(z)[:3], getattr(perturb, name)(0.5, 2.0))
        ]
        for name in (type(noise).__name__ for noise in CONTINUOUS)
    },
    "perturb.Discrete": lambda z: perturb.softmax.mean(
        row(z), perturb.Discrete((-1.0, 1.0), (Fraction(1, 2), Fraction(1, 2)))
    ),
    "perturb.HalfSpace": lambda z: [
        (half := perturb.HalfSpace((1.0, 1.0, -2.0), 0.5)).project(z[:, :3]),
        half.contains(z[:, :3]),
    ],
    "negatives.consistency.coin_losses": lambda z: consistency.coin_losses(log_law(z))(row(z)),
    "negatives.consistency.factors": lambda z: consistency.factors("importance", log_law(z), 3),
    "negatives.consistency.minimiser": lambda z: consistency.minimiser(
        consistency.multiset_losses(log_law(z), 3, consistency.factors("relative", log_law(z), 3)), law(z)
    ),
    "negatives.consistency.multiset_losses": lambda z: consistency.multiset_losses(
        log_law(z), 3, consistency.factors("relative", log_law(z), 3), hits="keep"
    )(row(z)),
    "negatives.consistency.union_law": lambda z: consistency.union_law(log_law(z), 3),
}
"""Those without a tensor, and those that the audit rests on."""

TABLE: dict[str, Call] = {
    **{name: call for name, call in functions.TABLE.items() if name.split(".")[0] not in ("fits", "vae", "models")},
    **EXTRA,
}

NUMBERS = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, 5e-324, 1e-300, 1e-30, 1e-8, 30.0, 745.5, -745.5, 1e4, -1e4, 1e30, -1e30),
    *(1e300, -1e300, math.inf, -math.inf, math.nan),
)
COUNTS = (0, -1, 1, 2, 5, 1000, 10**6, 10**9, 2**31, 2**53, 2**63, 2**70, 10**400)
OTHERS: tuple[object, ...] = (None, "2", True, 2.0, math.nan, 1j, [], [1.0], object(), np.float64(0.5), torch.ones(2))
"""What no signature asks for in the place of a number."""

numbers = st.sampled_from(NUMBERS)
others = st.sampled_from(OTHERS)


def shapes(values: Tensor) -> st.SearchStrategy[Tensor]:
    """The same numbers in other shapes."""
    flat = values.flatten()
    wrong = [flat[:0], flat[:1], flat[:1].squeeze(0), flat, values.unsqueeze(0), values.unsqueeze(-1)]
    if values.ndim:
        wrong += [values[:0], values[:1], values[:-1], values[..., :0], values[..., :1], torch.cat([values, values])]
        wrong += [values.expand(2, *values.shape), values.mT if values.ndim > 1 else values]
    return st.sampled_from(wrong)


def kinds(values: Tensor) -> st.SearchStrategy[object]:
    """The same numbers as something else."""
    return st.sampled_from(
        [
            *(values.to(dtype) for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32)),
            *(values.to(dtype) for dtype in (torch.uint8, torch.bool, torch.complex128)),
            *(values.detach().numpy(), values.tolist(), [], [[1.0], [1.0, 2.0]], "values", None, 1, 0.5, object()),
            *(values.to("meta"), values.to_sparse(), values.double().clone().requires_grad_()),
        ]
    )


def filled(values: Tensor, entries: st.SearchStrategy[Any]) -> st.SearchStrategy[Tensor]:
    """The tensor with some entries replaced, or all."""
    size = values.numel()
    places = st.dictionaries(st.integers(0, max(size - 1, 0)), entries, max_size=max(size, 1))

    def made(replaced: dict[int, Any]) -> Tensor:
        flat = values.detach().flatten().clone()
        for place, value in replaced.items():
            if size:
                flat[place] = torch.tensor(value).to(flat.dtype)
        return flat.view(values.shape)

    return places.map(made)


def is_law(values: Tensor) -> bool:
    return bool((values >= 0).all()) and abs(values.sum().item() - 1) < 1e-6


def tensor_like(values: Tensor) -> st.SearchStrategy[object]:
    """Of the kind of a tensor: scores, a law, logarithms of one, ids, marks."""
    if values.dtype == torch.bool:
        return st.one_of(filled(values, st.booleans()), shapes(values), kinds(values))
    if not values.is_floating_point():
        return st.one_of(filled(values, st.sampled_from((0, 1, 2, 3, 4, -1, 2**40))), shapes(values), kinds(values))
    hostile = filled(values, numbers)
    legal = filled(torch.zeros_like(values), st.sampled_from((0.0, 1.0, 30.0, -745.5, 1e4, -1e4, 1e30, -1e30)))
    if values.ndim and is_law(values):
        legal = legal.map(lambda scores: scores.flatten().softmax(0).view(values.shape))
    elif values.ndim and is_law(values.exp()):
        legal = legal.map(lambda scores: scores.flatten().log_softmax(0).view(values.shape))
    return st.one_of(hostile, legal, shapes(values), kinds(values))


def like(value: object) -> st.SearchStrategy[object]:
    """Hostile arguments in the place of a good one."""
    match value:
        case Tensor():
            return tensor_like(value)
        case bool():
            return st.one_of(st.booleans(), others)
        case int() | np.integer():
            return st.one_of(st.sampled_from(COUNTS), st.sampled_from(COUNTS[:6]), others)
        case float():
            return st.one_of(numbers, others)
        case Fraction():
            return st.one_of(
                numbers, st.sampled_from((Fraction(0), Fraction(-1), Fraction(1, 10**400), 10**400)), others
            )
        case str():
            return st.sampled_from(["", "nonsense", None, 1, ["mask"]])
        case Generator():
            return st.sampled_from([0, "seed"])
        case torch.device():
            return st.just(value)
        case noises.Noise():
            made = [noises.Gumbel(1e3, 2.0), noises.Gaussian(0.0, 1e-3), noises.Uniform(), noises.Logistic()]
            return st.sampled_from([*made, noises.signs(), None, "gumbel", 1])
        case list() | tuple() if not hasattr(value, "_fields"):
            inner = st.tuples(*(like(part) for part in value)).map(list)
            return st.one_of(inner, st.sampled_from([[], None, 1, "ab", list(value)[:-1], [*value, *value]]))
        case _:
            return others


def home(name: str) -> tuple[ModuleType, str]:
    """The module in which the table finds a function."""
    place, _, function = f"sumexp.{name}".rpartition(".")
    return import_module(place), function


def good(name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What the table hands to the function."""
    module, function = home(name)
    original, calls = getattr(module, function), []

    def noted(*given: Any, **options: Any) -> Any:
        calls.append((given, options))
        return original(*given, **options)

    with mock.patch.object(module, function, noted):
        TABLE[name](scores())
    return calls[0]


def hostile(name: str) -> st.SearchStrategy[dict[str | int, Any]]:
    """One or two arguments of the good call, by place or name, replaced."""
    given, options = good(name)
    arguments = {**dict(enumerate(given)), **options}
    strategies = {key: like(value) for key, value in arguments.items()}
    keys = st.lists(st.sampled_from(list(arguments)), min_size=1, max_size=2, unique=True)
    return keys.flatmap(lambda chosen: st.fixed_dictionaries({key: strategies[key] for key in chosen}))


def called(name: str, replaced: Mapping[str | int, Any]) -> Any:
    """The call of the table, in which the function gets what is replaced."""
    module, function = home(name)
    original = getattr(module, function)

    def instead(*given: Any, **options: Any) -> Any:
        positional = [replaced.get(place, value) for place, value in enumerate(given)]
        return original(*positional, **{key: replaced.get(key, value) for key, value in options.items()})

    with mock.patch.object(module, function, instead):
        return TABLE[name](scores())


class Slow(Exception):
    """A call takes longer than it may."""


@contextmanager
def limited(seconds: float, memory: int = 2 << 30) -> Iterator[None]:
    """Raise `Slow` in what takes more processor time, and refuse it more memory."""
    running = True

    def stop(signum: int, frame: FrameType | None) -> None:
        if running:
            raise Slow(f"more than {seconds} s")

    before, most = signal.signal(signal.SIGPROF, stop), resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + memory, most[1]))
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        running = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, most)
        signal.signal(signal.SIGPROF, before)


ASKED = {"bias.cost_variance_bound", "nce.gaussians.optimal_bound", "perturb.learner.descend"}
"""What works as long as it is asked to: steps, nodes, classes."""

OVERFLOWING = {"functional.adaptive", "nce.pairs.gbce", "samplers.importance", "samplers.relative", "samplers.tail"}
"""Weights, margins and scores of classes of probability 0 or 1, or nearly: infinite, as documented."""

PASSING = {"functional.gathered", "samplers.off_diagonal"}
"""Numbers are moved, not looked at."""

FINE = {"numbers", "error", "memory"}


def outcome(name: str, replaced: Mapping[str | int, Any], seconds: float = 5.0) -> str:
    """What comes of a call: numbers, one error that names the argument, or something that should not come of any.

    Where an argument holds an infinity, numbers may be infinite; minus infinity is the logarithm of 0. More memory than
    there is may be asked for, and more time where that is what an argument means.
    """
    try:
        with limited(seconds):
            result = called(name, replaced)
    except (ValueError, TypeError, NotImplementedError):
        return "error"
    except Slow:
        return "numbers" if name in ASKED else "slow"
    except (MemoryError, RuntimeError) as error:
        short = isinstance(error, MemoryError) or any(
            word in str(error) for word in ("allocate", "Storage size calculation overflowed")
        )
        return "memory" if short else f"raw {type(error).__name__}: {error}"
    except Exception as error:
        return f"raw {type(error).__name__}: {error}"
    parts = [part for part in held(result) if part.is_floating_point() and not part.is_meta]
    if any(bool(part.isnan().any()) for part in parts):
        return "numbers" if name in PASSING else "nan"
    infinite = name not in OVERFLOWING and any(bool((part == math.inf).any()) for part in parts)
    return "infinite" if infinite and not any(map(far, replaced.values())) else "numbers"


def held(result: Any) -> Iterator[Tensor]:
    """The tensors that a result holds; numbers become tensors."""
    match result:
        case Tensor():
            yield result.detach().to_dense() if result.is_sparse else result.detach()
        case float() | np.ndarray() | np.number():
            yield torch.as_tensor(result)
        case Mapping():
            yield from held(list(result.values()))
        case list() | tuple():
            for part in result:
                yield from held(part)
        case _ if is_dataclass(result):
            yield from held([getattr(result, field.name) for field in fields(result)])


def far(value: Any) -> bool:
    """Whether an argument holds an infinity, or a number near the end of double precision."""
    try:
        numbers = torch.as_tensor(value, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return isinstance(value, list | tuple) and any(map(far, value))
    return numbers.device.type != "meta" and bool((numbers.abs() >= 1e300).any())
