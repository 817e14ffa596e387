"""Tables of tensors that are kept between calls."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

import torch
from torch._guards import detect_fake_mode

from sumexp._checks import is_transformed

P = ParamSpec("P")
R = TypeVar("R")


def cached_table(maxsize: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Keep the last ``maxsize`` results of a function, made without gradients and outside of inference mode.

    They are only read. Tensors made while operations are traced or transformed (``torch.compile``, ``torch.func``,
    ``FakeTensorMode``) have no values afterwards, so nothing is kept there. Nor have those made while a CUDA graph is
    captured, where a table of before is read: the function copies from the CPU, which a capture refuses.
    """

    def keeping(function: Callable[P, R]) -> Callable[P, R]:
        kept = lru_cache(maxsize)(torch.inference_mode(False)(torch.no_grad()(function)))

        @wraps(function)
        def table(*args: P.args, **kwargs: P.kwargs) -> R:
            elsewhere = torch.compiler.is_compiling() or is_transformed() or detect_fake_mode() is not None
            made = function if elsewhere else kept
            return made(*args, **kwargs)  # type: ignore[arg-type]

        table.cache_clear = kept.cache_clear  # type: ignore[attr-defined]
        return table

    return keeping
