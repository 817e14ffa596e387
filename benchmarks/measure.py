"""Timing and peak memory, each case in its own process, and the files that keep them."""

import gc
import json
import multiprocessing
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "src" / "sumexp" / "measured"
SEEN = 2**20
"""Bytes: the resolution of a process's peak."""

Timing = Mapping[str, float]
"""``seconds``, and ``bytes`` where they are known."""
Tables = dict[str, list[dict[str, Any]]]
"""By title the rows of a table of the book, which :mod:`claimbook.pipeline.measured` shows."""


def seconds(action: Callable[[], object], repeats: int = 5) -> float:
    """The least wall time of some repeats, after one to warm up."""
    action()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def bytes_beside(action: Callable[[], object]) -> int:
    """The peak memory of a call on top of what the process holds before it."""

    def high_water() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # Linux: resets the peak to the memory held now
    before = high_water()
    action()
    return high_water() - before


def by_turns(
    calls: Mapping[str, Callable[..., object]], rounds: int, threads: int, argument: Callable[[], object] | None = None
) -> dict[str, float]:
    """The median seconds of each call; calls take turns, so that a disturbance hits all of them alike.

    With one thread these are seconds of CPU time, which other processes do not lengthen.

    Args:
        argument: makes the argument of each call, outside the timed region.
    """
    clock = time.process_time if threads == 1 else time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            arguments = () if argument is None else (argument(),)
            start = clock()
            calls[name](*arguments)
            times[name].append(clock() - start)
    return {name: statistics.median(samples) for name, samples in times.items()}


def alone(case: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a case run in a fresh process, so that its peak memory is its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(case, arguments)


def row(size: str, ours: Timing, others: Mapping[str, Timing | None], floor: float | None = None) -> dict[str, Any]:
    """A row of the page *Speed*: what a task took at this size, and each alternative; None if one cannot do it.

    Args:
        floor: a lower bound of the seconds.
    """
    known = {"size": size, **_told(ours)} | ({} if floor is None else {"floor": floor})
    return known | {"others": {name: _told(timing) for name, timing in others.items() if timing is not None}}


def _told(timing: Timing) -> dict[str, float]:
    """Its seconds, and its bytes if they exceed the resolution."""
    return {name: timing[name] for name in ("seconds", "bytes") if name == "seconds" or timing.get(name, 0) > SEEN}


def machine(threads: int) -> dict[str, Any]:
    """The machine, as the page names it."""
    import torch

    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else ():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {"cpu": model, "cores": os.cpu_count(), "threads": threads, "gpu": gpu, "torch": torch.__version__}


def keep(name: str, tables: Tables, threads: int, quick: bool, **results: Any) -> None:
    """Print the tables; unless ``quick``, write them with the machine and all else that was found."""
    for title, rows in tables.items():
        print(title)
        for each in rows:
            if "others" not in each:
                print("  ", *each.values(), sep="  ")
                continue
            timings = {"ours": each} | each["others"]
            cells = (f"{key} {1e3 * t['seconds']:.3f} ms {t.get('bytes', 0) >> 20} MiB" for key, t in timings.items())
            print(f"  {each['size']:24}", *cells)
    if not quick:
        print(f"written to {write(name, {'machine': machine(threads), 'tables': tables, **results})}")


def write(name: str, results: dict[str, Any]) -> Path:
    """Write the measurements, whole or not at all."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(results, indent=1) + "\n")
    temporary.replace(path)
    return path
