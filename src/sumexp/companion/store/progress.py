"""How far the processes of a build are: each says so in a file of its own, and the driver shows all of them.

A driver makes the folder and names it in the environment (`shown`); a step reports in it (`step`), and so does every
training loop inside it (`bar`). Without a driver `bar` is a plain progress bar on the terminal.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event, Thread
from typing import TextIO

from sumexp.companion.store.files import scratch, write_text
from sumexp.companion.store.location import in_words

FOLDER = "SUMEXP_PROGRESS"
STEP = "SUMEXP_STEP"
EVERY = 0.5
"""Seconds between two reports of a loop, and between two looks of the driver."""
PLAIN = 20.0
"""Seconds between two plain lines about a running step, where there is no terminal."""


@dataclass(frozen=True)
class Report:
    """What a step says of itself: what it does, and how many parts of how many are done (0: of how many is not known).

    It began so many seconds after the epoch, and is ``running``, ``finished`` or ``failed``; a loop may be ``over``.
    """

    step: str
    what: str
    done: int = 0
    total: int = 0
    begun: float = 0.0
    state: str = "running"

    def line(self, now: float) -> str:
        """It in words: what, how far, and how much time is left."""
        if self.state == "failed":
            return f"error: {self.what}"
        words, seconds = f"{self.step}: {self.what}", now - self.begun
        if self.state != "running":
            return words
        if not self.total:
            return f"{words}, {_time(seconds)}"
        words += f", {self.done} of {self.total}"
        if self.done and seconds > 2:
            words += f", about {_time(seconds / self.done * (self.total - self.done))} left"
        return words


def report(
    what: str, done: int = 0, total: int = 0, *, state: str = "running", begun: float = 0.0, own: str = ""
) -> None:
    """Say how far this step is, if anybody wants to know; ``own`` tells a loop inside the step from the step."""
    name = os.environ.get(STEP)
    if name and is_shown():
        file = Path(os.environ[FOLDER], f"{name}{own and '~'}{own}.json")
        write_text(file, json.dumps(asdict(Report(name, what, done, total, begun or time.time(), state))))


def is_shown() -> bool:
    """Whether a driver shows what this process reports."""
    return Path(os.environ.get(FOLDER) or os.devnull).is_dir()


@contextmanager
def step(name: str, what: str) -> Iterator[None]:
    """Name this process's step, and say that it begins, and how it ends."""
    os.environ[STEP] = name
    begun = time.time()
    report(what, begun=begun)
    try:
        yield
    except BaseException as error:
        report(in_words(error) or f"{name} failed: {error!r}", state="failed", begun=begun)
        raise
    report(_time(time.time() - begun), state="finished", begun=begun)


def bar(steps: Iterable[int], what: str, *, quiet: bool = False) -> Iterator[int]:
    """Go through ``steps`` and show how far it is: to the driver, else by a bar on the terminal."""
    if not is_shown():
        from tqdm import tqdm

        yield from tqdm(steps, desc=what, disable=quiet)
        return
    begun, last, own = time.time(), 0.0, f"{os.getpid()}"
    total = len(steps) if isinstance(steps, Sized) else 0
    for done, number in enumerate(steps):
        if time.time() - last > EVERY:
            last = time.time()
            report(what, done, total, begun=begun, own=own)
        yield number
    report(what, total, total, state="over", begun=begun, own=own)


@contextmanager
def shown(title: str, total: int, finished: Callable[[], int]) -> Iterator[None]:
    """Show, while the block runs, what its processes report: a line each on a terminal, else plain lines now and then.

    Of the whole a terminal has the title, and how many of how many steps are finished.
    """
    with scratch("sumexp-progress-") as name:
        os.environ[FOLDER] = name
        ended = Event()
        watcher = Thread(target=_show, args=(Path(name), title, total, finished, sys.stderr, ended), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
            del os.environ[FOLDER]


def _reports(folder: Path) -> list[Report]:
    """What there is to say now: of each running step its innermost loop."""
    innermost: dict[str, Report] = {}
    for file in sorted(folder.glob("[!.]*.json")):
        try:
            report = Report(**json.loads(file.read_text("utf-8")))
        except (OSError, ValueError):  # it is being replaced
            continue
        outer = innermost.get(report.step)
        if report.state != "over" and (outer is None or outer.state == "running"):
            innermost[report.step] = report
    return list(innermost.values())


def _show(folder: Path, title: str, total: int, finished: Callable[[], int], output: TextIO, ended: Event) -> None:
    """Print what steps say; those that run have a line that is kept up to date, or where there is no terminal anew."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(file=output, force_terminal=output.isatty(), highlight=False)
    said: dict[str, tuple[float, str]] = {}
    begun = time.time()
    with Live(console=console, refresh_per_second=2, transient=True) as live:
        over = False
        while not over:
            over = ended.wait(EVERY)
            now, running = time.time(), []
            for one in _reports(folder):
                when, state = said.get(one.step, (0.0, ""))
                if one.state == "running" and console.is_terminal:
                    running.append(f"\n  {one.line(now)}")
                elif one.state != state or (one.state == "running" and now - when > PLAIN):
                    said[one.step] = now, one.state
                    console.print(Text(one.line(now)), soft_wrap=not console.is_terminal)
            if console.is_terminal:
                whole = f"{title}: {finished()} of {total}, {_time(now - begun)}"
                live.update(Text("".join([whole, *running]), no_wrap=True, overflow="ellipsis"))


def _time(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d} h"
