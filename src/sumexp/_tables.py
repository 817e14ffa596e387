"""Tables of tensors that are kept between calls."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

import torch

from sumexp._checks import is_traced

P = ParamSpec("P")
R = TypeVar("R")


def cached_table(maxsize: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Keep the last ``maxsize`` results of a function, made without gradients and outside of inference mode.

    They are only read. Tensors made while operations are traced, transformed or captured (``torch.compile``,
    ``torch.func``, ``FakeTensorMode``, CUDA graphs) have no values afterwards, so nothing is kept there.
    """

    def keeping(function: Callable[P, R]) -> Callable[P, R]:
        kept = lru_cache(maxsize)(torch.inference_mode(False)(torch.no_grad()(function)))

        @wraps(function)
        def table(*args: P.args, **kwargs: P.kwargs) -> R:
            captured = torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
            made = function if captured or is_traced(torch.empty(0, device="cpu")) else kept
            return made(*args, **kwargs)  # type: ignore[arg-type]

        table.cache_clear = kept.cache_clear  # type: ignore[attr-defined]
        return table

    return keeping
