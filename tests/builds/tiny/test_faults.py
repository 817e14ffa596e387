"""Bad input and accidents: one clear message, nothing lost that was finished, and the next build goes on."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from claimbook import BookError
from claimbook.cli.commands import app
from claimbook.store import Store
from tests.claimbook.pipeline.tiny import Project, chapter


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.1)
    return condition()


def asked(*arguments: str) -> str:
    """What ``sumexp`` says is wrong."""
    done = CliRunner().invoke(app, arguments)
    assert isinstance(done.exception, BookError)
    return str(done.exception)


RUN = ("notebook", "run", "one", "-p")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("book", "--profile", "huge"), "PROFILE is 'huge'; expected one of smoke, cpu, paper"),
        (("book", "--device", "tpu"), "device is 'tpu'; expected one of auto, cpu, cuda"),
        (("book", "--only", "one three"), "ONLY is 'three'; expected one of one, two"),
        (("notebook", "run", "three"), "no notebook 'three' in notebooks/; there are: one, two"),
        ((*RUN, "sede=1"), "parameter 'sede=1' of notebooks/one.md: expected NAME=VALUE with NAME one of profile, "),
        ((*RUN, "seed=x"), "parameter seed is 'x'; expected a value such as 0"),
        ((*RUN, "profile=huge"), "profile is 'huge'; expected one of smoke, "),
    ],
)
def test_wrong_input_is_named_before_anything_runs(
    built: Project, arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = built.executed()
    monkeypatch.chdir(built.path)
    assert message in asked(*arguments)
    assert built.executed() == before


def test_cells_that_raise_and_kernels_that_are_killed(project: Project) -> None:
    before = project.executed()
    project.write("notebooks/one.md", chapter("one", "x = 0\n\nratio = 1 / x"))
    project.write("notebooks/two.md", chapter("two", "os.kill(os.getpid(), signal.SIGKILL)"))
    output = project.build(code=1)
    line = (project.path / "notebooks/one.md").read_text("utf-8").splitlines().index("ratio = 1 / x") + 1
    assert (
        "one: error: notebooks/one.md failed in code cell 3, which begins with: x = 0\n"
        f"one:   line {line} of the file: ratio = 1 / x\n"
        "one:   ZeroDivisionError: division by zero\n"
        "one:   partial notebook: build/failed/one.ipynb\n"
        "one:   log: build/logs/one.log\n"
    ) in "".join(line for line in output.splitlines(keepends=True) if line.startswith("one:"))
    assert "notebooks/two.md failed in code cell 3, which begins with: os.kill(" in output
    assert "the kernel died; it was killed" in output
    assert "Traceback" not in output
    assert "ZeroDivisionError" in (project.path / "build/logs/one.log").read_text("utf-8")
    assert (project.path / "build/failed/two.ipynb").exists()
    assert project.executed() == before  # what was finished is still there

    project.write("notebooks/two.md", chapter("two", "profile"))
    project.build("--only", "two")
    assert project.executed() == before  # restored: what was made of that text is still right
    assert not (project.path / "build/failed/three.ipynb").exists()


POOL = """import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from claimbook.store import processes
context = multiprocessing.get_context("spawn")
if not Path("quick").exists():
    with ProcessPoolExecutor(2, context, initializer=processes.follow) as pool:
        waiting = [pool.submit(time.sleep, 300) for _ in range(2)]
        Path("pool").write_text(" ".join(map(str, pool._processes)))
        [one.result() for one in waiting]"""


def test_a_killed_build_leaves_no_process_and_the_next_one_goes_on(project: Project) -> None:
    """A notebook's pool of processes ends too, when the driver's whole process group is killed at once."""
    project.write("notebooks/one.md", chapter("one", "1 + 1"))
    project.write("notebooks/two.md", chapter("two", POOL))
    before, executed = project.entries("notebook", "one"), project.executed()
    driver = project.start("book", "--profile", "smoke", "--cores", "4", group=True)
    pool = project.path / "pool"
    assert wait_until(lambda: pool.exists() and len(pool.read_text("utf-8").split()) == 2, 120)
    assert wait_until(lambda: len(project.entries("notebook", "one")) > len(before), 120)
    between = project.entries("notebook", "one")

    assert f"error: another build runs in {project.path}" in project.build(code=1)

    family = psutil.Process(driver.pid).children(recursive=True)
    assert {int(pid) for pid in pool.read_text("utf-8").split()} <= {process.pid for process in family}
    os.killpg(driver.pid, signal.SIGKILL)
    driver.communicate()
    assert wait_until(lambda: not any(process.is_running() for process in family), 15)

    assert project.executed() == executed  # of a build that is not finished nothing is shown
    project.write("quick", "")
    project.build()
    assert project.entries("notebook", "one") == between
    assert project.executed()["two"] != executed["two"]
    assert not os.path.lexists(project.path / "build/failed/two.ipynb")


def test_builds_of_two_clones_and_the_tests_at_once(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They share a store: what one executes no other does, and all end well."""
    log, other = tmp_path / "log", Project(tmp_path / "another clone")
    for name in ("one", "two"):
        code = f"with open({str(log)!r}, 'a') as log:\n    log.write('{name} ')\ntime.sleep(1)"
        project.write(f"notebooks/{name}.md", chapter(name, code))
    project.write("src/sumexp/used.py", "def two():\n    return 1 + 1\n")
    shutil.copytree(project.path, other.path, ignore=shutil.ignore_patterns("cache"))
    environment, cache = Project.environment, str(project.path / "cache")
    monkeypatch.setattr(Project, "environment", lambda self: environment(self) | {"XDG_CACHE_HOME": cache})
    plugins = ["-pclaimbook.register.evidence"]
    tests = [sys.executable, "-m", "pytest", "-q", *plugins, "--keep-evidence", "tests/test_tiny.py"]
    started = [clone.start("book", "--profile", "smoke", "--cores", "2") for clone in (project, other)]
    surroundings = {"cwd": project.path, "env": project.environment()}
    started.append(subprocess.Popen(tests, **surroundings, stdout=subprocess.PIPE, text=True))
    outputs = [process.communicate(timeout=300)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0, 0], outputs
    assert sorted(log.read_text("utf-8").split()) == ["one", "two"]
    store = Store(project.store)
    assert len(store.entries()) == len(store.paths()) > 0
    assert not list(store.root.glob("*/*/*.part"))
    for clone in (project, other):
        (claim,) = json.loads((clone.path / "build/register.json").read_text("utf-8"))
        assert claim["verdict"] == "holds"
    assert project.executed() == other.executed()


def test_a_warning_of_the_renderer_is_passed_on(project: Project) -> None:
    renderer = (
        "from claimbook import BookError\n\n\ndef render(*_, **__):\n"
        "    raise BookError('the book could not be rendered: book/intro.md:3: WARNING: no such label')\n"
    )
    project.write("src/claimbook/pipeline/rendering.py", renderer)
    project.write("book/intro.md", "# Intro\n\nOther text.\n")
    output = project.build(code=1)
    assert "the book could not be rendered" in output
    assert "book/intro.md:3: WARNING: no such label" in output
    assert (project.path / "build/html/index.html").exists()  # the last one that was finished
