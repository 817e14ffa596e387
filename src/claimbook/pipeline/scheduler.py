"""Run commands of ``claimbook`` in parallel, each in a separate process.

A command computes an entry of the store, which appears whole or not at all: a missing entry is a failure.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from claimbook.store import Computation, default, processes, progress

COMMAND = (sys.executable, "-m", "claimbook.cli")


@dataclass(frozen=True)
class Task:
    """A command (``arguments`` of ``claimbook``) that computes an entry; it takes so many ``threads``, and the GPU."""

    wanted: Computation
    arguments: tuple[str, ...]
    gpu: bool
    threads: int = 1


def run(tasks: Sequence[Task], cores: int, log: Path, *, share: int = 1) -> list[Task]:
    """Run the tasks in order and show their progress; returns those whose entries are missing at the end.

    As many run at a time as fit on the cores, ``share`` of them on the GPU. A failure stops no other task. Their output
    goes to the terminal, and with their names to the log.
    """
    store, waiting = default(), list(tasks)
    running: dict[Future[None], Task] = {}
    with store.guarded(log):
        log.parent.mkdir(parents=True, exist_ok=True)
    processes.drive()
    with progress.shown(), log.open("w", encoding="utf-8") as file, ThreadPoolExecutor(len(tasks)) as threads:
        try:
            while waiting or running:
                for task in [*waiting]:
                    busy = sum(min(one.threads, cores) for one in (task, *running.values()))
                    if busy <= cores and task.gpu + sum(one.gpu for one in running.values()) <= share:
                        waiting.remove(task)
                        running[threads.submit(_run, task, file)] = task
                for ended in wait(running, return_when=FIRST_COMPLETED).done:
                    del running[ended]
                    ended.result()
        except KeyboardInterrupt:
            processes.end(130)
    return [task for task in tasks if not store.has(task.wanted)]


def _run(task: Task, log: TextIO) -> None:
    """Run a task and pass its output on, line by line."""
    command = subprocess.Popen(
        [*COMMAND, *task.arguments],
        env=os.environ | {"PYTHONHASHSEED": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    with command as process:
        for line in process.stdout or ():
            print(line, end="", file=sys.stderr, flush=True)
            print(f"{task.wanted.name} {task.wanted.key[:12]}: {line}", end="", file=log, flush=True)
    if process.returncode:
        print(f"{task.wanted.name} {task.wanted.key[:12]}: exit code {process.returncode}", file=log, flush=True)
