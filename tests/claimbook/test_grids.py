"""Grids of runs: what the store has of them and what they cost; and the commands that say so."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from claimbook import BookError, grids
from claimbook.authoring import runs
from claimbook.cli.commands import app
from claimbook.pipeline import scheduler
from claimbook.pipeline.plan import declared_runs, parse, source_path
from claimbook.store import Computation, complete_grids, default, entries, parts
from claimbook.store.checkpoints import Checkpoint
from sumexp import datasets
from sumexp._runtime import Result
from sumexp.chapters.jobs import Grid, Job


@dataclass(frozen=True)
class Part:
    kind: str = "a"
    seed: int = 0


@dataclass(frozen=True)
class Config:
    number: int = 0
    parts: tuple[Part, ...] = (Part(),)


CALLS: list[int] = []


def task(config: Config, /, **_: object) -> Result:
    CALLS.append(config.number)
    if config.number < 0:
        raise ArithmeticError("diverged")
    steps = np.arange(12)
    return Result({"steps": steps}, {"number": config.number}, {"epoch": steps, "loss": steps / 7})


def tiny(profile: str, has_data: Callable[[str], bool]) -> tuple[Job, ...]:
    extra = (job(9, 1e-6, ("mnist",)),) if has_data("mnist") else ()
    return (*(job(n, n + 1) for n in range(3)), *extra)


def ask_for(monkeypatch: pytest.MonkeyPatch, grid: Grid) -> None:
    """Let this be the one grid there is."""
    monkeypatch.setattr(grids, "grids", lambda: {"tiny": grid})


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty store and one tiny grid; the task here is outside the package, so its code has no part."""
    CALLS.clear()
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("SUMEXP_STORE", str(tmp_path / "the store"))
    monkeypatch.setenv("SUMEXP_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("SUMEXP_DECLARED_DATA", raising=False)
    monkeypatch.setattr(parts, "modules", lambda names: {f"module {name}": "code" for name in names})
    ask_for(monkeypatch, tiny)
    return tmp_path / "the store"


def command(*arguments: str, code: int = 0, answer: str = "") -> str:
    """Run ``claimbook runs``; what it printed, or the message of its error."""
    done = CliRunner().invoke(app, ["runs", *arguments], input=answer)
    assert done.exit_code == code, (done.output, done.exception)
    return str(done.exception) if isinstance(done.exception, BookError) else done.output


def job(number: int, seconds: float = 1.0, data: tuple[str, ...] = ()) -> Job:
    return Job(task, Config(number), data, seconds={"cpu": seconds / 2, "cuda": seconds / 4})


def wanted(number: int) -> Computation:
    [computation] = grids.computations([job(number)], "cpu")
    return computation


def kept(number: int) -> runs.Run:
    """The run that the grid asks for, computed now if it is not in the store."""
    return grids.run(job(number), "cpu")


def place(number: int) -> Path:
    return default().path(wanted(number))


def half_done(number: int) -> Path:
    """Leave a checkpoint as a killed run does."""
    checkpoint = Checkpoint(default(), wanted(number), "cpu", every=0.0)
    checkpoint.save({"step": 1})
    return checkpoint.path


def test_a_job_lies_where_the_notebook_looks() -> None:
    [first, *_] = tiny("smoke", lambda name: False)
    assert wanted(0).key == grids.run(first, "cpu").key == runs.cached(task, Config(0)).key
    assert CALLS == [0]


def test_how_far_each_run_is() -> None:
    kept(0)
    half_done(1)
    table = command("list", "--grid", "tiny", "--device", "cpu").splitlines()
    assert [line.split()[1] for line in table[1:4]] == ["fresh", "half-done", "missing"]
    assert [line.split()[-1] for line in table[1:4]] == ["number=0", "number=1", "number=2"]
    (place(0) / "run.json").write_text("{}")
    assert command("list", "--grid", "tiny", "--device", "cpu").splitlines()[1].split()[1] == "missing"  # damaged


def finish(number: int, seconds: float) -> None:
    """Leave a finished run that took so long."""
    kept(number)
    entry = place(number)
    record = json.loads((entry / "entry.json").read_text())
    record["provenance"]["seconds"] = seconds
    (entry / "entry.json").write_text(json.dumps(record))
    (entry / "SHA256SUMS").write_text(entries._sums(entry))


def test_the_list_says_what_it_costs_and_writes_nothing(root: Path) -> None:
    printed = command("list", "--grid", "tiny", "--device", "cpu")
    assert "3 of 3 runs to compute: 3 s one after the other, at the speed of one core" in printed  # (1 + 2 + 3) / 2
    assert "data: without mnist" in printed
    assert not root.exists()
    assert CALLS == []
    finish(0, seconds=8281.0)
    printed = command("list", "--grid", "tiny", "--device", "cpu")
    assert "2 of 3 runs to compute: 11:30 h one after the other, at the speed of 1 finished" in printed  # 5 * 8281 s
    assert "at the speed of an H200" in command("list", "--grid", "tiny", "--device", "cuda")


def test_one_run_of_a_grid_is_computed_here_and_once() -> None:
    for _ in range(2):
        command("run", "--grid", "tiny", "--device", "cpu", "--only", place(1).name[:10])
        assert CALLS == [1]


def test_one_run_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    ask_for(monkeypatch, lambda profile, has_data: (job(-1),))
    arguments = ["runs", "run", "--grid", "tiny", "--device", "cpu", "--only", wanted(-1).key]
    with pytest.raises(ArithmeticError, match="diverged"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_the_longest_runs_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    ask_for(monkeypatch, lambda profile, has_data: (job(0, 2), job(1, 3), job(2, 1)))
    tasks = grids.missing("tiny", "smoke", "cpu")
    assert [task.wanted.key for task in tasks] == [place(number).name for number in (1, 0, 2)]
    settings = ("--grid", "tiny", "--profile", "smoke", "--device", "cpu", "--only", place(1).name)
    assert tasks[0].arguments == ("runs", "run", *settings)
    assert not tasks[0].gpu
    assert grids.missing("tiny", "smoke", "cuda")[0].gpu
    kept(2)
    tasks = grids.missing("tiny", "smoke", "cpu")
    assert [task.wanted.key for task in tasks] == [place(number).name for number in (1, 0)]


def test_what_is_missing_is_computed_by_tasks_on_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def compute(tasks: list[scheduler.Task], cores: int) -> list[scheduler.Task]:
        asked.append((len(tasks), cores))
        for number in (0, 1, 2)[: 1 + len(asked)] if tasks else ():
            kept(number)
        return [task for task in tasks if default().find(task.wanted) is None]

    monkeypatch.setattr(scheduler, "run", compute)
    kept(1)
    arguments = ["run", "--grid", "tiny", "--device", "cpu", "--cores", "3"]
    (place(1) / "run.json").write_text("{}")
    assert "1 of 3 runs are not finished" in command(*arguments, code=1)
    (place(1) / "run.json").write_text("{}")
    for _ in range(2):
        assert "all 3 runs are in the store" in command(*arguments)
    assert asked == [(3, 3), (2, 3), (0, 3)]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ("--grid none", "GRID is 'none'; expected one of tiny"),
        ("--grid tiny --profile huge", "PROFILE is 'huge'; expected one of smoke, cpu, paper"),
        ("--grid tiny --device tpu", "device is 'tpu'; expected one of auto, cpu, cuda"),
        ("--grid tiny --device cpu --only xyz", "no run of tiny, .* begins with 'xyz'; see .runs list."),
    ],
)
def test_wrong_input_is_named_before_anything_runs(arguments: str, message: str) -> None:
    assert re.search(message, command("run", *arguments.split(), code=1))
    assert CALLS == []


def test_settings_are_told_apart_in_few_words() -> None:
    configs = [Config(1, (Part("a"),)), Config(2, (Part("a"),)), Part("a" * 100)]
    assert grids.differences(configs[:2]) == ["number=1", "number=2"]
    assert grids.differences(configs[:1]) == [""]
    assert grids.differences([configs[2], Part()]) == [f"kind={'a' * 60}", "kind=a"]


@pytest.mark.parametrize("profile", ["smoke", "cpu", "paper"])
def test_the_grids_of_the_book(profile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for grid in grids.grids():
        asked = grids.jobs_of(grid, profile)
        assert len({wanted.key for wanted in grids.computations(asked, "cpu")}) == len(asked) > 0
        assert all(min(job.seconds.values()) > 0 and job.seconds.keys() == {"cpu", "cuda"} for job in asked)


def test_a_data_set_is_trained_when_all_its_runs_are_there(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "available", lambda name: name == "mnist")  # no run here reads it
    ask_for(monkeypatch, lambda profile, has_data: tuple(job(n, data=("mnist",) * has_data("mnist")) for n in range(2)))
    names = ("mnist", "omniglot")
    states = {"trained mnist": "no", "trained omniglot": "no", "runs tiny": "none"}
    assert complete_grids.states("tiny", names, "cpu", "cpu") == states
    assert complete_grids.trained("tiny", names, "smoke", "cpu") == ["mnist"]  # a moment's training waits for nothing
    for next_job, shown in zip(grids.jobs_of("tiny", "cpu"), ([], ["mnist"]), strict=True):
        grids.run(next_job, "cpu")
        grids.leave_mark("tiny", "mnist", "cpu", "cpu")
        assert complete_grids.trained("tiny", names, "cpu", "cpu") == shown
    assert complete_grids.states("tiny", names, "cpu", "cpu")["trained mnist"] == "store"
    assert complete_grids.trained("tiny", names, "cpu", "cuda") == []
    monkeypatch.setattr(parts, "modules", lambda names: {f"module {name}": "other code" for name in names})
    assert complete_grids.trained("tiny", names, "cpu", "cpu") == []


def test_the_command_that_fills_a_grid_leaves_the_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "available", lambda name: name == "mnist")
    command("run", "--grid", "tiny", "--device", "cpu", "--only", wanted(0).key)
    assert complete_grids.trained("tiny", ["mnist"], "cpu", "cpu") == []
    asked = grids.jobs_of("tiny", "cpu")
    monkeypatch.setattr(scheduler, "run", lambda *_: [grids.run(job, "cpu") for job in asked][:0])
    command("run", "--grid", "tiny", "--device", "cpu")
    assert complete_grids.trained("tiny", ["mnist"], "cpu", "cpu") == ["mnist"]


@pytest.mark.parametrize("chapter", ["vae", "longtail", "retrieval"])
def test_a_chapter_declares_the_data_sets_that_its_grid_asks_for(chapter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.chdir(Path(__file__).parents[2])
    plans = import_module(f"sumexp.chapters.{chapter}.grids").PLANS
    assert declared_runs(parse(source_path(chapter)))[chapter] == tuple(plans["paper"])
