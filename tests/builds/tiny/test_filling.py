"""A grid filled as a person fills it, with accidents: a run that fails, a kill, a damaged entry."""

import signal
from pathlib import Path

import psutil
import pytest

from tests.claimbook.pipeline.tiny import Project, make_project

from .test_faults import wait_until

TINY = '''"""A task that counts, slowly, and fails where a file says so."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sumexp._runtime import Result


@dataclass(frozen=True)
class Config:
    number: int = 0


def train(config, /, *, device, progress, checkpoint):
    folder = Path(os.environ["TINY"])
    with (folder / "calls").open("a") as calls:
        calls.write(f"{config.number}\\n")
    if (folder / f"fail{config.number}").exists():
        raise ArithmeticError(f"{config.number} diverged")
    if (folder / f"hang{config.number}").exists():
        (folder / "pid").write_text(str(os.getpid()))
        time.sleep(300)
    return Result({"number": np.array(config.number)}, {"number": config.number})
'''
GRID = """from sumexp import tiny
from sumexp.chapters.jobs import Job

JOBS = tuple(Job(tiny.train, tiny.Config(number)) for number in range(3))
GRIDS = {"tiny": lambda profile, present: JOBS}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project without torch, whose one grid has three tiny runs, in a folder with a space."""
    project = make_project(tmp_path / "a project")
    project.write("src/sumexp/tiny.py", TINY)
    project.leave_torch_out()
    project.write("src/sumexp/chapters/tiny/__init__.py", "")
    project.write("src/sumexp/chapters/tiny/grids.py", GRID)
    monkeypatch.setenv("TINY", str(project.path))
    return project


FILL = ("runs", "run", "--grid", "tiny", "--profile", "smoke", "--cores", "4")


def calls(project: Project) -> list[str]:
    """The runs that were begun since this was last asked."""
    file = project.path / "calls"
    begun = sorted(file.read_text("utf-8").split()) if file.exists() else []
    file.unlink(missing_ok=True)
    return begun


@pytest.mark.slow
def test_a_grid_is_filled_whatever_happens(project: Project) -> None:
    project.write("hang1", "")
    driver = project.start(*FILL)
    hanging = project.path / "pid"
    assert wait_until(lambda: driver.poll() is not None or (hanging.exists() and len(project.entries("run")) == 2), 120)
    assert driver.poll() is None, driver.communicate()
    family = psutil.Process(driver.pid).children(recursive=True)
    assert int(hanging.read_text("utf-8")) in [process.pid for process in family]
    driver.send_signal(signal.SIGKILL)
    driver.communicate()
    assert wait_until(lambda: not any(process.is_running() for process in family), 30)
    before = project.entries("run")
    assert calls(project) == ["0", "1", "2"]

    (project.path / "hang1").unlink()
    project.write("fail1", "")
    damaged, untouched = before
    [entry] = project.store.glob(f"run/*/{damaged}")
    (entry / "run.json").write_text("{}", "utf-8")
    output = project.run(*FILL, code=1)
    assert ": ArithmeticError: 1 diverged\n" in output
    assert "error: 1 of 3 runs are not finished, see above" in output
    assert len(calls(project)) == 2
    after = project.entries("run")
    assert after.keys() == before.keys()
    assert after[damaged] > before[damaged]
    assert after[untouched] == before[untouched]
