"""How far a process is: a bar on a terminal; elsewhere, as in the log of a build, a line every 20 seconds."""

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

EVERY = 20.0
"""Seconds between two lines."""


def bar(steps: Iterable[int], what: str) -> "tqdm[int]":
    """Iterate over ``steps`` and show how far that is."""
    return tqdm(steps, desc=what, **options())


def options() -> dict[str, Any]:
    """Options of tqdm: without a terminal, a loop that ends within `EVERY` seconds prints no line."""
    return {} if sys.stderr.isatty() else {"mininterval": EVERY, "delay": EVERY}


@contextmanager
def step(name: str) -> Iterator[None]:
    """Print when a step begins, and how long it took."""
    begun = time.monotonic()
    say(f"{name}: starting")
    yield
    say(f"{name}: {as_time(time.monotonic() - begun)}")


def say(line: str) -> None:
    """Print a line at once: other processes print too."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def as_time(seconds: float) -> str:
    """A time such as ``12 s``, ``3:05 min`` or ``2:31 h``."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d} h"
