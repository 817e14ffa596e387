"""Tasks run side by side: how many at a time, in which order, and what becomes of those that fail or are killed."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from claimbook.pipeline import scheduler
from claimbook.pipeline.scheduler import Task
from claimbook.store import Computation, Store, default

COMPUTE = """
import sys, time
from pathlib import Path

def say(what):
    with open("events", "a") as events:
        events.write(f"{what} {entry.name}\\n")

entry = Path(sys.argv[1])
say("begin")
"""
KEEP = """
entry.mkdir(parents=True)
(entry / "file").touch()
say("end")
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with a store; a task is lines of Python, run where the path of its entry is known."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUMEXP_STORE", str(tmp_path / "store"))
    monkeypatch.setattr(scheduler, "COMMAND", (sys.executable, "-c"))
    monkeypatch.setattr(Store, "find", lambda self, wanted: self.path(wanted).exists() or None)
    return tmp_path


def task(name: str, lines: str = "", *, gpu: bool = False) -> Task:
    wanted = Computation("run", name, {})
    return Task(wanted, (COMPUTE + lines + KEEP, str(default().path(wanted))), gpu)


def events(tasks: list[Task]) -> Iterator[tuple[str, Task]]:
    by_key = {task.wanted.key: task for task in tasks}
    for line in Path("events").read_text().splitlines():
        what, key = line.split()
        yield what, by_key[key]


def test_as_many_run_as_fit_and_the_first_begins_first() -> None:
    tasks = [task(str(n), "time.sleep(.1)", gpu=0 < n < 4) for n in range(6)]
    assert scheduler.run(tasks, 3, share=1) == []
    begun, running = [], []
    for what, job in events(tasks):
        if what == "begin":
            begun.append(job)
            running.append(job)
        else:
            running.remove(job)
        assert len(running) <= 3
        assert sum(other.gpu for other in running) <= 1
    assert begun.index(tasks[0]) < 3
    assert len(begun) == 6


def test_two_run_side_by_side_and_a_failure_stops_no_other(capfd: pytest.CaptureFixture[str]) -> None:
    meet = "Path({0!r}).touch()\nwhile not Path({1!r}).exists(): time.sleep(.01)\n"
    tasks = [task("a", meet.format("a", "b") + "raise SystemExit('wrong')"), task("b", meet.format("b", "a"))]
    tasks += [task("c", "print('ü')"), task("d", "import os; os.kill(os.getpid(), 9)")]
    assert scheduler.run(tasks, 2) == [tasks[0], tasks[3]]
    endings = [["wrong", "0 s", "exit code 1"], ["0 s"], ["ü", "0 s"], ["0 s", "exit code -9"]]
    lines = [
        f"{job.wanted.name} {job.wanted.key[:12]}: {line}"
        for job, printed in zip(tasks, endings, strict=True)
        for line in ["starting", *printed]
    ]
    assert sorted(re.sub(r"\d+ s$", "0 s", line) for line in capfd.readouterr().err.splitlines()) == sorted(lines)


DRIVER = """
import signal, sys
from pathlib import Path
from claimbook import cli
from claimbook.cli import commands
from claimbook.pipeline import scheduler
from claimbook.store import Computation

signal.signal(signal.SIGINT, signal.default_int_handler)  # else ignored where the tests run in the background
scheduler.COMMAND = (sys.executable, "-c")
lines = "import time; from pathlib import Path; Path('started').touch(); time.sleep(300)"
commands.app = lambda: scheduler.run([scheduler.Task(Computation("run", "a", {}), (lines,), False)], 1)
cli.main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])  # of Ctrl-C; of docker stop, systemd and Slurm
def test_a_driver_ends_by_a_signal_with_all_that_it_started(place: Path, number: int) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    driver = subprocess.Popen([sys.executable, "-c", DRIVER], env=environment)
    try:
        deadline = time.monotonic() + 60
        while not (place / "started").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        [child] = psutil.Process(driver.pid).children(recursive=True)
        driver.send_signal(number)
        assert driver.wait(10) == 128 + number
    finally:
        driver.kill()
    assert child.wait(5) is None  # it is gone, and was never ours
