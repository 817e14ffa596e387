"""Timing and peak memory, each case in a process of its own."""

import json
import multiprocessing
import os
import platform
import resource
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "src" / "sumexp" / "measured"
SEEN = 2**20
"""Bytes: the peak of a process tells no less apart."""

Timing = Mapping[str, float]
"""``seconds``, and ``bytes`` where they are known."""
Tables = dict[str, list[dict[str, Any]]]
"""By title the rows of a table of the book, which :mod:`claimbook.pipeline.measured` shows."""


def seconds(action: Callable[[], object], repeats: int = 5) -> float:
    """The least wall time of some repeats, after one to warm up: what the machine does when nothing disturbs it."""
    action()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def peak_bytes() -> int:
    """The peak resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def high_water() -> int:
    """The peak of what this process held since it was last reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def bytes_beside(action: Callable[[], object]) -> int:
    """What a call takes at its peak beside what is held already."""
    Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak becomes what is held now
    before = high_water()
    action()
    return high_water() - before


def by_turns(calls: dict[str, Callable[[], object]], rounds: int, threads: int) -> dict[str, float]:
    """The median seconds of each, which take turns: what disturbs one disturbs all, and none is always first.

    With one thread they are seconds of the processor, which other processes do not lengthen by waiting.
    """
    clock = time.process_time if threads == 1 else time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            start = clock()
            calls[name]()
            times[name].append(clock() - start)
    return {name: statistics.median(found) for name, found in times.items()}


def alone(case: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a case run in a fresh process, so that its peak memory is its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(case, arguments)


def checkout(place: Path) -> Path:
    """A copy of the project, with a store of its own and no data."""
    files = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, check=True).stdout
    for file in filter(None, files.split("\0")):
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, place / file)
    return place


def row(size: str, ours: Timing, others: Mapping[str, Timing | None], floor: float | None = None) -> dict[str, Any]:
    """A row of the page *Speed*: what a task took at this size, what each of the others took, None for who cannot.

    Args:
        floor: the least seconds that it can take.
    """
    known = {"size": size, **_told(ours)} | ({} if floor is None else {"floor": floor})
    return known | {"others": {name: _told(timing) for name, timing in others.items() if timing is not None}}


def _told(timing: Timing) -> dict[str, float]:
    """Its seconds, and its bytes where they are more than a peak can tell apart."""
    return {name: timing[name] for name in ("seconds", "bytes") if name == "seconds" or timing.get(name, 0) > SEEN}


def machine(threads: int) -> dict[str, Any]:
    """What a reader must know of the machine to read a ratio."""
    import torch

    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else ():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {"cpu": model, "cores": os.cpu_count(), "threads": threads, "gpu": gpu, "torch": torch.__version__}


def write(name: str, results: dict[str, Any]) -> Path:
    """Write the measurements, whole or not at all."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(results, indent=1) + "\n")
    temporary.replace(path)
    return path
