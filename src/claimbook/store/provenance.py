"""What a computation cost, where and with what it was made."""

import os
import platform
import resource
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Any


@dataclass(frozen=True)
class Provenance:
    """How an entry came to be: when (ISO 8601, UTC), in what time, on what, with what, and with which data sets.

    Wall-clock seconds are those of all processes, where some were killed, and processor seconds those of children too.
    Peak memory is in bytes, the largest resident size of a process. ``more`` is what else is worth keeping.
    """

    finished: str
    seconds: float
    cpu_seconds: float
    peak_memory: int
    device: str
    machine: str
    versions: Mapping[str, str]
    data: tuple[str, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def date(self) -> str:
        """When, to the minute."""
        return self.finished[:16].replace("T", " ")


class Meter:
    """Measures from its making on, after ``before`` = (wall, processor) seconds of processes that were killed."""

    def __init__(self, before: tuple[float, float] = (0.0, 0.0)) -> None:
        self._wall, self._cpu = time.perf_counter() - before[0], _cpu() - before[1]

    def elapsed(self) -> tuple[float, float]:
        """Wall-clock and processor seconds so far."""
        return time.perf_counter() - self._wall, _cpu() - self._cpu

    def read(self, device: str = "cpu", data: tuple[str, ...] = (), **more: Any) -> Provenance:
        """The provenance of what has just been finished on ``device``."""
        wall, cpu = self.elapsed()
        return Provenance(
            finished=datetime.now(UTC).isoformat(timespec="milliseconds"),
            seconds=round(wall, 3),
            cpu_seconds=round(cpu, 3),
            peak_memory=_peak(),
            device=device_name(device),
            machine=platform.platform(),
            versions=dict(_versions()),
            data=data,
            more=more,
        )


@cache
def _versions() -> dict[str, str]:
    """Those of what numbers depend on."""
    packages = "sumexp", "torch", "numpy", "scipy", "scikit-learn", "matplotlib"
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


def device_name(device: str) -> str:
    """The device in words: the GPU's name, or the processor's architecture and its number of cores."""
    if device.startswith("cuda"):
        import torch

        return f"cuda ({torch.cuda.get_device_name(device)})"
    return f"cpu ({platform.machine()}, {os.cpu_count()} cores)"


def _cpu() -> float:
    return sum(sum(resource.getrusage(scope)[:2]) for scope in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def _peak() -> int:
    peak = max(resource.getrusage(scope).ru_maxrss for scope in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return peak if sys.platform == "darwin" else peak * 1024
