"""The device of these tests: the GPU where there is one, otherwise the stand-in.

The two never share a process: a second accelerator that is registered with torch breaks autograd on CUDA.
"""

from collections import Counter
from typing import TYPE_CHECKING

import torch

GPU = torch.cuda.is_available()

if TYPE_CHECKING or not GPU:
    from tests.accelerator.standin import NAME, without_double
    from tests.accelerator.standin import StandIn as Device
else:
    NAME, without_double = "cuda", None

    class Device:
        """The GPU: it refuses by itself, and nothing is counted."""

        def __init__(self) -> None:
            self.synchronisations: Counter[str] = Counter()
            self.to_host = self.to_device = 0

        def __enter__(self) -> "Device":
            return self

        def __exit__(self, *error: object) -> None:
            pass


__all__ = ["GPU", "NAME", "Device", "without_double"]
