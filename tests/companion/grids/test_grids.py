"""Grids of runs: what the cache has of them, what they cost, what may be removed; and the commands that say so."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from sumexp.companion.grids.leftovers import leftovers, remove
from typer.testing import CliRunner, Result

from sumexp.companion import CompanionError, build
from sumexp.companion.authoring import runs
from sumexp.companion.cli.commands import app
from sumexp.companion.grids import costs, filling, jobs
from sumexp.companion.grids.filling import Rules
from sumexp.companion.grids.jobs import Grid, Job, look
from sumexp.companion.grids.labels import differences


@dataclass(frozen=True)
class Part:
    kind: str = "a"
    seed: int = 0


@dataclass(frozen=True)
class Config:
    number: int = 0
    parts: tuple[Part, ...] = (Part(),)


CALLS: list[int] = []


def task(config: Config, /, **_: object) -> runs.Result:
    CALLS.append(config.number)
    if config.number < 0:
        raise ArithmeticError("diverged")
    steps = np.arange(10)
    return {"steps": steps}, {"number": config.number}, {"epoch": steps, "loss": steps / 7}


def tiny(profile: str, there: Callable[[str], bool]) -> tuple[Job, ...]:
    extra = (job(9, 1e3, ("mnist",)),) if there("mnist") else ()
    return (*(job(n, 1e9 * (n + 1)) for n in range(3)), *extra)


def ask_for(monkeypatch: pytest.MonkeyPatch, grid: Callable[[str, jobs.Present], tuple[Job, ...]]) -> None:
    """Let this be the one grid there is."""
    for module in (jobs, costs):
        monkeypatch.setattr(module, "GRIDS", {"tiny": Grid(grid, {"cpu": 2e9, "cuda": 4e9})})


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache and one tiny grid; the task here is outside the package, so its code has no digest."""
    CALLS.clear()
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("SUMEXP_RUNS", str(tmp_path / "the runs"))
    monkeypatch.setenv("SUMEXP_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("SUMEXP_DECLARED_DATA", raising=False)
    monkeypatch.setattr(runs, "code_digest", lambda modules: "code")
    monkeypatch.setattr(jobs, "_code", lambda module: "code")
    ask_for(monkeypatch, tiny)
    return tmp_path / "the runs"


def command(*arguments: str, code: int = 0, answer: str = "") -> str:
    """Run ``sumexp runs``; what it printed, or the message of its error."""
    done: Result = CliRunner().invoke(app, ["runs", *arguments], input=answer)
    assert done.exit_code == code, (done.output, done.exception)
    return str(done.exception) if isinstance(done.exception, CompanionError) else done.output


def job(number: int, work: float = 0.0, data: tuple[str, ...] = ()) -> Job:
    return Job(task, Config(number), data, threads=2, work=work)


def place(number: int) -> Path:
    return job(number).place("cpu")


def half_done(entry: Path, config: object = None) -> Path:
    """Leave a checkpoint as a killed run does."""
    entry.parent.mkdir(parents=True, exist_ok=True)
    settings = {"number": 1, "parts": [{"kind": "a", "seed": 0}]} if config is None else config
    checkpoint = runs._Checkpoint(entry, settings, "cpu", threads=2, data=(), every=0.0)
    checkpoint.save({"step": 1})
    return checkpoint.path


def test_a_job_lies_where_the_notebook_looks() -> None:
    [first, *_] = tiny("smoke", lambda name: False)
    run = first.run("cpu")
    assert first.place("cpu").name == run.key == runs.cached(task, Config(0)).key
    assert CALLS == [0]


def test_how_far_each_run_is(root: Path) -> None:
    runs.cached(task, Config(0))
    half_done(place(1))
    table = command("list", "--grid", "tiny", "--device", "cpu").splitlines()
    assert [line.split()[1] for line in table[1:]] == ["finished", "half-done", "missing"]
    assert [line.split()[-1] for line in table[1:]] == ["number=0", "number=1", "number=2"]
    with FileLock(place(1).with_suffix(".lock")):
        assert look(place(1)) == ("running", None)
    (place(0) / "run.json").write_text("{}")
    assert look(place(0)) == ("damaged", None)
    place(1).with_suffix(".checkpoint").write_bytes(b"")
    assert look(place(1)) == ("damaged", None)


def test_the_whole_cache_is_listed() -> None:
    assert "0 runs" in command("list")
    runs.cached(task, Config(5))
    head, line, _, summary = command("list").splitlines()
    assert head.split() == ["key", "state", "date", "time", "size", "device", "task"]
    assert line.split()[0] == place(5).name[:12]
    assert line.split()[-1].endswith("test_grids.task")
    assert summary.startswith("1 runs, ")


def test_locks_and_foreign_files_are_no_runs(root: Path) -> None:
    entry = place(0)
    half_done(entry)
    for name in ("notes.txt", f"{'0' * 64}.lock"):
        (entry.parent / name).touch()
    assert jobs.entries(root) == [entry]


def test_a_run_is_shown_by_the_first_digits_of_its_key() -> None:
    run = runs.cached(task, Config(2))
    printed = command("show", run.key[:8])
    assert "number: 2" in printed
    assert "steps: int64 [10]" in printed
    assert "history, the last of 10 rows:" in printed
    record = json.loads(command("show", run.key, "--json"))
    assert (record["key"], record["config"]["number"], record["metrics"]) == (run.key, 2, {"number": 2.0})
    assert record["history"][-1] == {"epoch": 9, "loss": pytest.approx(9 / 7)}
    assert "no run begins with 'xyz'" in command("show", "xyz", code=1)
    runs.cached(task, Config(3))
    assert "2 runs begin with ''" in command("show", "", code=1)
    (place(2) / "run.json").write_text("{}")
    assert "is damaged: there is nothing to show" in command("show", run.key, code=1)


def finish(number: int, seconds: float, size: int) -> None:
    """Leave a finished run that took so long and is so large."""
    entry = place(number)
    runs.cached(task, Config(number))
    record = json.loads((entry / "run.json").read_text())
    record["environment"]["seconds"] = seconds
    (entry / "run.json").write_text(json.dumps(record))
    arrays = entry / "arrays.npz"
    other = sum(path.stat().st_size for path in entry.iterdir()) - arrays.stat().st_size
    arrays.write_bytes(arrays.read_bytes().ljust(size - other, b"\0"))
    (entry / "SHA256SUMS").write_text(runs._checksums(entry))


def test_the_estimate_is_measured_on_finished_runs_or_assumed() -> None:
    name = f"{__name__}.task"
    [*_, third] = tiny("smoke", lambda name: False)
    assumed = costs.estimates("tiny", "cpu")[name]
    assert assumed == costs.Estimate(0, 2e9, costs.SIZE)
    assert assumed.seconds(third) == 3e9 / 2e9
    finish(0, seconds=1.0, size=10_000)
    finish(1, seconds=9.0, size=20_000)
    measured = costs.estimates("tiny", "cpu")[name]
    assert measured == costs.Estimate(2, (1e9 + 2e9) / (1 + 9), (10_000 + 20_000) / 2)
    assert measured.seconds(third) == 10.0
    half_done(place(2))
    assert costs.estimates("tiny", "cpu")[name] == measured
    assert costs.estimates("tiny", "cuda")[name].finished == 0


def test_the_estimate_is_measured_on_the_runs_of_all_profiles(monkeypatch: pytest.MonkeyPatch) -> None:
    number_of = {"smoke": 5, "cpu": 6, "paper": 7}
    ask_for(monkeypatch, lambda profile, there: (job(number_of[profile], 1e9),))
    finish(5, seconds=1.0, size=10_000)
    finish(7, seconds=3.0, size=10_000)
    assert costs.estimates("tiny", "cpu")[f"{__name__}.task"] == costs.Estimate(2, 2e9 / 4, 10_000)


def test_a_dry_run_says_what_it_costs_and_writes_nothing(root: Path) -> None:
    printed = command("run", "--grid", "tiny", "--device", "cpu", "--dry-run")
    assert "3 of 3 runs to compute" in printed
    assert "assumed, as no run is finished" in printed
    assert "data: without mnist" in printed
    assert not root.exists()
    assert CALLS == []
    finish(0, seconds=3600.0, size=10_000)
    printed = command("run", "--grid", "tiny", "--device", "cpu", "--dry-run")
    assert "2 of 3 runs to compute" in printed
    assert f"time: {2 + 3} hours on 2 cores" in printed
    assert "disk: 20.0 kB" in printed
    assert "measured on 1 finished runs" in printed
    assert "GPU hours" in command("run", "--grid", "tiny", "--device", "cuda", "--dry-run")


def test_a_grid_is_run_once_and_only_what_is_lacking() -> None:
    assert "all 3 runs are in the cache" in command("run", "--grid", "tiny", "--device", "cpu")
    assert CALLS == [0, 1, 2]
    command("run", "--grid", "tiny", "--device", "cpu")
    assert CALLS == [0, 1, 2]


def test_what_others_compute_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "is_running", lambda entry: entry == place(0))
    command("run", "--grid", "tiny", "--device", "cpu")
    assert CALLS == [1, 2, 0]


def test_one_run_of_a_grid() -> None:
    command("run", "--grid", "tiny", "--device", "cpu", "--only", place(1).name[:10])
    assert CALLS == [1]


def test_one_run_that_fails_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    ask_for(monkeypatch, lambda profile, there: (job(-1), job(1)))
    assert "1 of 2 runs failed, see above" in command("run", "--grid", "tiny", "--device", "cpu", code=1)
    assert CALLS == [-1, 1]
    assert look(place(1))[0] == "finished"


def test_the_rules_know_outputs_and_times(root: Path) -> None:
    rules = Rules("tiny", "smoke", "cpu")
    assert rules.root == root
    assert rules.outputs() == [f"{__name__}.task/{place(number).name}/SHA256SUMS" for number in range(3)]
    assert rules.job(place(2).name).config == Config(2)
    assert rules.minutes(place(2).name) == 10 + 1  # 3 * 1.5 s, rounded up
    finish(0, seconds=600.0, size=10_000)
    assert Rules("tiny", "smoke", "cpu").minutes(place(2).name) == 10 + 3 * 30
    with pytest.raises(CompanionError, match="no run xyz in the grid; has the code or the data changed"):
        rules.job("xyz")


@pytest.mark.parametrize("executor", ["", "slurm"])
def test_snakemake_is_asked_once_for_what_is_lacking(
    executor: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def compute(arguments: list[str]) -> None:
        asked.append((arguments, os.environ.get(build.DRIVER), os.environ.get("TQDM_DISABLE")))
        assert not place(1).exists()  # it was damaged
        for number in (0, 1, 2)[: 3 if len(asked) > 1 else 2]:
            runs.cached(task, Config(number))

    monkeypatch.chdir(Path(__file__).parents[3])
    monkeypatch.setattr(filling, "_snakemake", compute)
    monkeypatch.setattr(filling, "find_spec", lambda name: name == "snakemake_executor_plugin_slurm" or None)
    monkeypatch.setenv(build.DRIVER, "0")
    monkeypatch.setenv("TQDM_DISABLE", "0")
    runs.cached(task, Config(1))
    wanted = ["run", "--grid", "tiny", "--device", "cpu", "--cores", "3", "--options", "--quiet 'a b'"]
    wanted += ["--executor", executor, "--jobs", "7"]
    (place(1) / "run.json").write_text("{}")
    assert "1 of 3 runs are not finished" in command(*wanted, code=1)
    (place(1) / "run.json").write_text("{}")
    assert "all 3 runs are in the cache" in command(*wanted)
    assert len(command(*wanted)) > 0
    assert len(asked) == 2
    arguments, driver, quiet = asked[0]
    assert arguments[:2] == ["--snakefile", str(Path("runs.smk").absolute())]
    assert arguments[-6:] == ["--quiet", "a b", "--config", "grid=tiny", "profile=cpu", "device=cpu"]
    where = arguments[arguments.index("--nolock") + 1 : -6]
    if executor:
        assert where == ["--executor", "slurm", "--jobs", "7", "--retries", "2", "--latency-wait", "60"]
        assert (driver, quiet) == (None, "1")
    else:
        assert where == ["--cores", "3", "--resources", "gpu=1", "--latency-wait", "0"]
        assert (driver, quiet) == (str(os.getpid()), "0")  # 3 cores are one run of 2 at a time, which shows its bar
    assert (root / "logs/tiny-cpu-cpu.log").exists()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--grid", "none"], "GRID is 'none'; expected one of tiny"),
        (["--grid", "tiny", "--profile", "huge"], "PROFILE is 'huge'; expected one of smoke, cpu, paper"),
        (["--grid", "tiny", "--device", "tpu"], "device is 'tpu'; expected one of auto, cpu, cuda"),
        (["--grid", "tiny", "--device", "cpu", "--only", "xyz"], "no run of the grid tiny, .* begins with 'xyz'"),
        (["--grid", "tiny", "--device", "cpu", "--cores", "-1"], "CORES is -1; expected 1 or more"),
        (["--grid", "tiny", "--device", "cpu", "--executor", "nosuch"], "'nosuch', which is not installed; run: .* -m"),
        (["--grid", "tiny", "--executor", "slurm"], "device for EXECUTOR=slurm is 'auto'; expected one of cpu, cuda"),
        (["--grid", "tiny", "--device", "cpu", "--executor", "slurm", "--jobs", "0"], "JOBS is 0; expected 1 or more"),
    ],
)
def test_wrong_input_is_named_before_anything_runs(root: Path, arguments: list[str], message: str) -> None:
    import re

    assert re.search(message, command("run", *arguments, code=1))
    assert CALLS == []


def test_what_can_go_goes_when_asked_and_nothing_else(root: Path) -> None:
    for number in range(4):
        runs.cached(task, Config(number))
    (place(1) / "run.json").write_text("{}")
    old = place(2).rename(root / place(2).parent.name / ("0" * 64))
    leftover = half_done(place(3), {"number": 3, "parts": []})
    asked_for = half_done(place(11), {"number": 11, "parts": [{"kind": "a", "seed": 0}]})
    of_old_code = half_done(place(12).with_name("1" * 64), {"number": 12})
    part = place(13).with_suffix(".part")
    part.mkdir()
    (root / "notes").mkdir()
    expected = {
        place(1): "damaged",
        old: "of other code or data",
        leftover: "of a run that is finished",
        of_old_code: "of other code or data",
        part: "half-written by a process that was killed",
    }
    assert dict(leftovers(root)) == expected
    assert part.name[:12] in command("clean", "--dry-run")
    assert "Remove these 5?" in command("clean", code=1, answer="n\n")
    assert all(path.exists() for path in expected)
    with FileLock(place(1).with_suffix(".lock")):
        assert place(1) not in dict(leftovers(root))
        assert not remove(place(1))
    assert "removed 5 of 5" in command("clean", "--yes")
    assert not any(path.exists() for path in expected)
    assert all(path.exists() for path in (place(0), place(3), asked_for, root / "notes"))
    assert "nothing to remove" in command("clean")


def test_runs_of_other_data_or_threads_are_told_apart(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = runs.cached(task, Config(), threads=1)
    assert leftovers(root) == []
    monkeypatch.setattr(runs, "code_digest", lambda modules: "changed")
    assert [path.name for path, _ in leftovers(root)] == [one.key]


def test_settings_are_told_apart_in_few_words() -> None:
    configs = [
        Config(1, tuple(Part("a", seed) for seed in range(5))),
        Config(1, (Part("b", 7), Part("a", 3))),
    ]
    assert differences(configs) == ["5 parts a seed=0-4", "2 parts b,a seed=7,3"]
    assert differences(configs[:1]) == [""]
    assert differences([configs[0], replace(configs[0], number=2)]) == ["number=1", "number=2"]


def test_many_settings_and_deep_ones_are_counted() -> None:
    @dataclass(frozen=True)
    class Deep:
        part: Part
        rate: float = 0.5

    @dataclass(frozen=True)
    class Wide:
        deep: tuple[Deep, ...]
        name: str | None = None
        rates: tuple[float, ...] = (1 / 3,)

    four = tuple(Deep(Part("a", seed)) for seed in (0, 1, 1, 5))
    configs = [
        Wide(four, "one"),
        Wide(four[:1], "two", (0.1, 0.2, 0.3, 0.4)),
        Wide(four[:2], None, (0.1, 0.2, 0.3, 0.4, 0.5)),
    ]
    assert differences(configs) == [
        "4 deep part:3 one rates=0.3333",
        "1 deep part:1 two rates=0.1,0.2,0.3,0.4",
        "2 deep part:2 name=None rates:5",
    ]
    assert differences([Wide((four[0],) * n) for n in (1, 2)]) == ["1 deep", "2 deep"]
    assert differences([Part(seed=1), Part(seed=2)]) == ["seed=1", "seed=2"]
    assert differences([replace(four[0]), four[3]]) == ["seed=0", "seed=5"]


@pytest.mark.parametrize("profile", ["smoke", "cpu", "paper"])
def test_the_grids_of_the_book(profile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for grid in jobs.GRIDS:
        wanted = jobs.jobs_of(grid, profile)
        assert len({job.place("cpu") for job in wanted}) == len(wanted) > 0
        assert all(job.work > 0 for job in wanted)
