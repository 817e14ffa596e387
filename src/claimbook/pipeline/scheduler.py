"""Run commands of ``claimbook`` in parallel, each in a separate process.

A command computes an entry of the store, which appears whole or not at all: a missing entry is a failure.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from claimbook.store import Computation, default, processes, progress

COMMAND = (sys.executable, "-m", "claimbook.cli")


@dataclass(frozen=True)
class Task:
    """A command (``arguments`` of ``claimbook``) that computes an entry; it may take the GPU."""

    wanted: Computation
    arguments: tuple[str, ...]
    gpu: bool


def run(tasks: Sequence[Task], cores: int, *, share: int = 1) -> list[Task]:
    """Run the tasks in order and print what they print, with their names; returns those without an entry at the end.

    As many run at a time as there are cores, ``share`` of them on the GPU. A failure stops no other task.
    """
    waiting = list(tasks)
    running: dict[Future[None], Task] = {}
    processes.drive()
    with ThreadPoolExecutor(max(1, len(tasks))) as threads:
        try:
            while waiting or running:
                for task in [*waiting]:
                    if len(running) < cores and task.gpu + sum(other.gpu for other in running.values()) <= share:
                        waiting.remove(task)
                        running[threads.submit(_run, task)] = task
                for ended in wait(running, return_when=FIRST_COMPLETED).done:
                    del running[ended]
                    ended.result()
        except KeyboardInterrupt:
            processes.end(130)
    return [task for task in tasks if default().find(task.wanted) is None]


def _run(task: Task) -> None:
    """Run a task and pass its output on, line by line."""
    wanted = task.wanted
    name = wanted.name if wanted.kind == "notebook" else f"{wanted.name.rpartition('.')[2]} {wanted.key[:12]}"
    command = subprocess.Popen(
        [*COMMAND, *task.arguments],
        env=os.environ | {"PYTHONHASHSEED": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    with progress.step(name), command as process:
        for line in filter(str.strip, process.stdout or ()):
            progress.say(f"{name}: {line.rstrip()}")
    if process.returncode:
        progress.say(f"{name}: exit code {process.returncode}")
