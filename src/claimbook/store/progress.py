"""Progress of the processes of a build: each appends lines to one file, which the driver prints (`shown`).

A step names itself (`step`); training loops inside it report now and then (`bar`). Without a driver `bar` is a plain
progress bar on the terminal.
"""

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from claimbook.store.files import scratch

FILE = "SUMEXP_PROGRESS"
STEP = "SUMEXP_STEP"
EVERY = 20.0
"""Seconds between two lines of a process."""
LOOK = 0.5
"""Seconds between two looks of the driver."""
_last = [time.time()]
"""When this process wrote its last line."""


def report(what: str, done: int, total: int, *, begun: float) -> None:
    """Say how far a loop of this step is, if the last line is `EVERY` seconds old; a total of 0 is unknown."""
    now = time.time()
    if now - _last[0] < EVERY:
        return
    left = f", about {as_time((now - begun) / done * (total - done))} left" if total and done else ""
    _write(f"{what}, {done}{f' of {total}' if total else ''}{left}")


@contextmanager
def step(name: str) -> Iterator[None]:
    """Name this process's step, and report its beginning and its end."""
    os.environ[STEP] = name
    begun = time.time()
    _write("starting")
    yield
    _write(as_time(time.time() - begun))


def bar(steps: Iterable[int], what: str, *, quiet: bool = False) -> Iterator[int]:
    """Iterate over ``steps`` and report progress: to the driver, else by a bar on the terminal."""
    if not _is_shown():
        from tqdm import tqdm

        yield from tqdm(steps, desc=what, disable=quiet)
        return
    begun = time.time()
    for done, number in enumerate(steps):
        report(what, done, len(steps) if isinstance(steps, Sized) else 0, begun=begun)
        yield number


@contextmanager
def shown() -> Iterator[None]:
    """Print, while the block runs, what its processes report."""
    with scratch("sumexp-progress-") as folder, Path(folder, "lines").open("w+", encoding="utf-8") as file:
        os.environ[FILE] = file.name
        ended, output = Event(), sys.stderr

        def follow() -> None:
            over = False
            while not over:
                over = ended.wait(LOOK)
                output.write(file.read())
                output.flush()

        printer = Thread(target=follow, daemon=True)
        printer.start()
        try:
            yield
        finally:
            ended.set()
            printer.join()
            del os.environ[FILE]


def as_time(seconds: float) -> str:
    """A time such as ``12 s``, ``3:05 min`` or ``2:31 h``."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d} h"


def _is_shown() -> bool:
    return Path(os.environ.get(FILE, "")).is_file()


def _write(line: str) -> None:
    _last[0] = time.time()
    if _is_shown():
        with Path(os.environ[FILE]).open("a", encoding="utf-8") as file:
            file.write(f"{os.environ[STEP]}: {line}\n")
