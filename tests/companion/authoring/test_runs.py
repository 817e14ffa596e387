"""Cached runs: computed once, kept whole or not at all, and the same whether fresh or cached."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sumexp import datasets, fits, runtime
from sumexp.companion import CompanionError, keys
from sumexp.companion.authoring import runs
from sumexp.datasets import DataError, DataFile, Dataset
from sumexp.models import wordmodel


@dataclass(frozen=True)
class Config:
    steps: int = 3
    rate: float = 0.5
    name: str = "plain"
    layers: tuple[int, ...] = (2, 3)


@dataclass(frozen=True)
class Nested:
    inner: Config = Config()


CALLS: list[object] = []


def task(
    config: Config, /, *, device: str, progress: Callable[[Iterable[int]], Iterable[int]]
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    CALLS.append(config)
    steps = [step * config.rate for step in progress(range(config.steps))]
    arrays = {"steps": np.array(steps), "words": np.array(["the", "dog"]), "half": np.float32([1 / 3])}
    return arrays, {"last": steps[-1], "third": 1 / 3, "threads": torch.get_num_threads()}


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache in a path with a space; the tasks here are outside the package, so their code has no digest."""
    CALLS.clear()
    monkeypatch.setenv("SUMEXP_RUNS", str(tmp_path / "the runs"))
    monkeypatch.setattr(runs, "code_digest", lambda modules: ",".join(modules))
    monkeypatch.delenv("SUMEXP_DECLARED_DATA", raising=False)
    return tmp_path / "the runs"


def entries(root: Path) -> list[Path]:
    return sorted(path for path in root.glob("*/*") if path.suffix != ".lock")


def test_a_run_is_computed_once(root: Path) -> None:
    fresh = runs.cached(task, Config())
    cached = runs.cached(task, Config())
    assert len(CALLS) == 1
    assert fresh.metrics == cached.metrics == {"last": 1.0, "third": 1 / 3, "threads": 2}
    assert fresh.config == {"steps": 3, "rate": 0.5, "name": "plain", "layers": [2, 3]}
    assert fresh.environment == cached.environment
    assert fresh.arrays["steps"].tolist() == [0, 0.5, 1]
    for name, array in fresh.arrays.items():
        assert array.dtype == cached.arrays[name].dtype
        np.testing.assert_array_equal(array, cached.arrays[name])
    [entry] = entries(root)
    assert entry.name == fresh.key
    assert sorted(path.name for path in entry.iterdir()) == [
        "SHA256SUMS",
        "arrays.npz",
        "history.parquet",
        "run.json",
    ]
    assert fresh.history.empty
    assert cached.history.empty


def test_the_environment_is_recorded() -> None:
    start = time.perf_counter()
    environment = runs.cached(task, Config(), threads=1).environment
    assert environment["versions"]["torch"] == torch.__version__
    assert environment["versions"]["numpy"] == np.__version__
    assert environment["threads"] == 1
    assert environment["data"] == []
    assert environment["device"] == "cpu"
    assert 0 <= environment["seconds"] <= time.perf_counter() - start
    assert environment["peak_memory_bytes"] > 10_000_000
    assert environment["date"].endswith("+00:00")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
@given(
    hnp.arrays(
        st.one_of(hnp.floating_dtypes(endianness="="), hnp.integer_dtypes(endianness="="), hnp.unicode_string_dtypes()),
        hnp.array_shapes(min_dims=0, min_side=0),
    )
)
def test_any_array_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, array: np.ndarray) -> None:
    def return_it(config: Config, /, **_: object) -> tuple[dict[str, np.ndarray], dict[str, float]]:
        return {"array": array}, {}

    back = runs.cached(return_it, Config(), root=tmp_path_factory.mktemp("runs")).arrays["array"]
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


columns = st.one_of(
    st.lists(st.floats(), max_size=5).map(np.float64),
    st.lists(st.floats(width=32), max_size=5).map(np.float32),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5).map(np.int64),
    st.lists(st.booleans(), max_size=5).map(np.bool_),
    st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=5),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), columns, max_size=4))
def test_any_history_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, history: dict[str, np.ndarray | list[str]]
) -> None:
    rows = min((len(column) for column in history.values()), default=0)
    history = {name: column[:rows] for name, column in history.items()}

    def return_it(config: Config, /, **_: object) -> runs.Result:
        return {}, {}, history

    back = runs.cached(return_it, Config(), root=tmp_path_factory.mktemp("runs")).history
    assert list(back) == list(history)
    for name, column in history.items():
        if isinstance(column, list):
            assert back[name].tolist() == column
        else:
            assert back[name].dtype == column.dtype
            np.testing.assert_array_equal(back[name].to_numpy(), column)


def test_columns_of_unequal_length_are_no_history(root: Path) -> None:
    def ragged(config: Config, /, **_: object) -> runs.Result:
        return {}, {}, {"epoch": [0, 1], "loss": [0.5]}

    with pytest.raises(ValueError, match="same length"):
        runs.cached(ragged, Config())
    assert [entry.suffix for entry in entries(root)] == [".part"]


def test_the_key_is_of_all_that_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(config: Config, /, **_: object) -> tuple[dict[str, np.ndarray], dict[str, float]]:
        return {}, {}

    file = DataFile("tiny/tiny.bin", "https://nowhere.invalid", "ab" * 32, 1)
    monkeypatch.setattr(datasets, "DATASETS", {"tiny": Dataset("tiny", "", "", "", (file,))})
    keys = [runs.cached(task, config).key for config in (Config(), Config(steps=4), Config(rate=1.0), Config(name=""))]
    keys.append(runs.cached(task, Config(), threads=1).key)
    keys.append(runs.cached(other, Config()).key)
    keys.append(runs.cached(task, Config(), data=["tiny"]).key)
    monkeypatch.setattr(datasets, "DATASETS", {"tiny": Dataset("tiny", "", "", "", (replace(file, sha256="cd" * 32),))})
    keys.append(runs.cached(task, Config(), data=["tiny"]).key)
    monkeypatch.setattr(runs, "code_digest", lambda modules: "changed")
    keys.append(runs.cached(task, Config()).key)
    assert len(set(keys)) == len(keys) == 9
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    assert runs.cached(task, Config(), device="cuda").key not in keys


def test_the_code_of_the_task_is_its_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(runs, "code_digest", lambda modules: asked.append(list(modules)) or "digest")
    runs.cached(task, Config())
    assert asked == [[__name__]]


@pytest.mark.parametrize(
    "config, fault",
    [
        (Config(steps="3"), r"Config: steps = '3': Input should be a valid integer"),  # type: ignore[arg-type]
        (Config(steps=3.5), r"Config: steps = 3.5: Input should be a valid integer"),  # type: ignore[arg-type]
        (Config(rate=None), r"Config: rate = None: Input should be a valid number"),  # type: ignore[arg-type]
        (Config(layers=(1, "2")), r"Config: layers.1 = '2': Input should be"),  # type: ignore[arg-type]
        (Nested(Config(name=7)), r"Nested: inner.name = 7: Input should be a valid string"),  # type: ignore[arg-type]
        (Config(name=object()), r"Config cannot be written as JSON"),  # type: ignore[arg-type]
    ],
)
def test_a_field_of_a_wrong_type_is_named(root: Path, config: Config, fault: str) -> None:
    with pytest.raises(CompanionError, match=fault):
        runs.cached(task, config)
    assert CALLS == []
    assert not root.exists()


def test_a_config_that_is_no_dataclass() -> None:
    with pytest.raises(CompanionError, match=r"a run's config must be a dataclass, got {'steps': 3}"):
        runs.cached(task, {"steps": 3})


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        lambda entry: flip(entry / "arrays.npz"),
        lambda entry: (entry / "arrays.npz").write_bytes(b""),
        lambda entry: (entry / "arrays.npz").unlink(),
        lambda entry: flip(entry / "history.parquet"),
        lambda entry: (entry / "history.parquet").unlink(),
        lambda entry: (entry / "run.json").unlink(),
        lambda entry: flip(entry / "run.json"),
        lambda entry: (entry / "SHA256SUMS").unlink(),
        lambda entry: flip(entry / "SHA256SUMS"),
    ],
)
def test_a_damaged_entry_is_computed_again_with_a_note(
    root: Path, damage: Callable[[Path], object], caplog: pytest.LogCaptureFixture
) -> None:
    first = runs.cached(task, Config())
    [entry] = entries(root)
    damage(entry)
    again = runs.cached(task, Config())
    assert len(CALLS) == 2
    assert f"the cached run {entry} is damaged" in caplog.text
    assert again.metrics == first.metrics
    assert runs.cached(task, Config()).metrics == first.metrics
    assert len(CALLS) == 2


def test_a_task_that_fails_leaves_nothing(root: Path) -> None:
    def fail(config: Config, /, **_: object) -> tuple[dict[str, np.ndarray], dict[str, float]]:
        raise RuntimeError("diverged")

    before = torch.get_num_threads()
    with pytest.raises(RuntimeError, match="diverged"):
        runs.cached(fail, Config(), threads=before + 1)
    assert entries(root) == []
    assert torch.get_num_threads() == before
    assert "SUMEXP_DECLARED_DATA" not in os.environ


def test_no_pickle_is_ever_written(root: Path) -> None:
    def objects(config: Config, /, **_: object) -> tuple[dict[str, np.ndarray], dict[str, float]]:
        return {"objects": np.array([object()])}, {}

    with pytest.raises(ValueError, match="allow_pickle"):
        runs.cached(objects, Config())
    assert [entry for entry in entries(root) if entry.suffix != ".part"] == []


def test_a_run_may_read_the_data_it_declares_and_no_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = []

    def read(config: Config, /, **_: object) -> tuple[dict[str, np.ndarray], dict[str, float]]:
        seen.append(os.environ["SUMEXP_DECLARED_DATA"])
        datasets.declared("brown")
        return {}, {}

    with pytest.raises(DataError, match="'brown' is read but not declared"):
        runs.cached(read, Config())
    monkeypatch.setenv("SUMEXP_DECLARED_DATA", "brown,digits")
    runs.cached(read, Config(), data=["brown"])
    assert seen == ["", "brown"]
    assert os.environ["SUMEXP_DECLARED_DATA"] == "brown,digits"
    monkeypatch.setenv("SUMEXP_DECLARED_DATA", "digits")  # a notebook cannot read by way of the cache either
    with pytest.raises(DataError, match="'brown' is read but not declared"):
        runs.cached(read, Config(), data=["brown"])


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: Path) -> None:
    runs.cached(task, Config(), root=tmp_path / "argument")
    assert entries(tmp_path / "argument")
    assert not root.exists()
    monkeypatch.delenv("SUMEXP_RUNS")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    runs.cached(task, Config())
    assert entries(tmp_path / "user/sumexp/runs")


def test_a_cache_that_cannot_be_written(root: Path) -> None:
    root.write_text("a file where the folder should be")
    with pytest.raises(CompanionError, match=r"cannot keep the run .* name another folder by SUMEXP_RUNS"):
        runs.cached(task, Config())
    assert CALLS == []


# Several processes, forked from one that has imported what is slow to import and has run nothing; it is started once,
# as one worker of the tests has all of these.
FORKED = pytest.mark.xdist_group("forked")


def sleepy(config: Config, /, **_: object) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    with Path(config.name).open("a") as calls:
        calls.write("called\n")
    time.sleep(config.rate)
    return {"steps": np.arange(config.steps)}, {"done": 1.0}


def walk(
    config: Config,
    /,
    *,
    device: str,
    progress: Callable[[Iterable[int]], Iterable[int]],
    checkpoint: runtime.Checkpoint,
) -> runs.Result:
    """A random walk, one number a step, that goes on from the step where it was; it tells where it starts."""
    generator = torch.Generator().manual_seed(7)
    first, positions = 0, [torch.zeros(())]
    if state := checkpoint.load():
        generator.set_state(state["generator"])
        first, positions = state["step"], [*state["positions"]]
    with Path(config.name).open("a") as starts:
        starts.write(f"{first}\n")
    for step in progress(range(first, config.steps)):
        positions.append(positions[-1] + torch.randn((), generator=generator))
        checkpoint.save({"step": step + 1, "positions": positions, "generator": generator.get_state()})
        time.sleep(config.rate)
    steps = torch.stack(positions).numpy()
    return {"steps": steps}, {"last": float(steps[-1])}, {"step": np.arange(len(steps)), "position": steps}


def ask(task: Any, config: Config, root: Path, options: dict[str, Any]) -> None:
    runs.code_digest = lambda modules: "test"  # type: ignore[assignment]
    runs.cached(task, config, root=root, **options)


def start(task: Any, config: Config, root: Path, **options: Any) -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["sumexp.companion.authoring.runs", "sumexp.models.wordmodel", "pytest", "hypothesis.extra.numpy"]
    )
    process = context.Process(target=ask, args=(task, config, root, options))
    process.start()
    return process


def kill(process: Any) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.join(60)


def wait_for(path: Path, process: Any) -> None:
    while not path.exists():
        assert process.is_alive()
        time.sleep(0.01)


@FORKED
def test_two_that_ask_at_once_compute_once(tmp_path: Path) -> None:
    config = Config(name=str(tmp_path / "calls"), rate=1.0)
    processes = [start(sleepy, config, tmp_path / "runs") for _ in range(2)]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert (tmp_path / "calls").read_text() == "called\n"


@FORKED
def test_a_killed_run_leaves_nothing_and_the_next_one_succeeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, root = tmp_path / "calls", tmp_path / "runs"
    process = start(sleepy, Config(name=str(calls), rate=60.0), root)
    wait_for(calls, process)
    kill(process)
    assert entries(root) == []
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    monkeypatch.setattr(runs, "code_digest", lambda modules: "test")
    runs.cached(sleepy, Config(name=str(calls), rate=60.0), root=root)
    assert len(entries(root)) == 1


@FORKED
def test_a_killed_run_goes_on_from_its_checkpoint_and_ends_with_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    starts, root = tmp_path / "starts", tmp_path / "runs"
    config = Config(name=str(starts), steps=200, rate=0.05)
    monkeypatch.setattr(runs, "code_digest", lambda modules: "test")
    checkpoint = runs.path_of(walk, config, root=root).with_suffix(".checkpoint")
    process = start(walk, config, root, save_every=0.0)
    wait_for(checkpoint, process)
    time.sleep(0.5)  # of the 10 s that it takes
    kill(process)
    before = torch.load(checkpoint, weights_only=True)["environment"]["seconds"]
    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", lambda seconds: None)
        resumed = runs.cached(walk, config, root=root)
        whole = runs.cached(walk, config, root=tmp_path / "others")
    first, second, third = map(int, starts.read_text().split())
    assert (first, third) == (0, 0)
    assert 1 <= second < 200
    assert "going on from a checkpoint" in caplog.text
    assert before > 0.05 * (second - 1)
    assert resumed.environment["seconds"] > before > whole.environment["seconds"]
    assert resumed.metrics == whole.metrics
    np.testing.assert_array_equal(resumed.arrays["steps"], whole.arrays["steps"])
    pd.testing.assert_frame_equal(resumed.history, whole.history)
    assert len(whole.history) == len(whole.arrays["steps"]) == 201
    assert [path.name for path in entries(root)] == [resumed.key]


@pytest.mark.parametrize(
    "damage",
    [
        flip,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-100]),
        lambda path: torch.save([1], path),
        lambda path: torch.save({"environment": {"seconds": 1.0}, "state": {"step": datetime.now}}, path),
    ],
    ids=["a flipped bit", "empty", "truncated", "something else", "code"],
)
def test_a_damaged_checkpoint_is_reported_and_ignored(
    root: Path, tmp_path: Path, damage: Callable[[Path], object], caplog: pytest.LogCaptureFixture
) -> None:
    def stop(steps: Iterable[int]) -> Iterable[int]:
        yield from (step for step in steps if step < 2)
        raise KeyboardInterrupt

    config = Config(name=str(tmp_path / "starts"), rate=0.0)
    entry = runs.path_of(walk, config)
    entry.parent.mkdir(parents=True)
    checkpoint = runs._Checkpoint(entry, {}, "cpu", threads=2, data=(), every=0.0)
    with pytest.raises(KeyboardInterrupt):
        walk(config, device="cpu", progress=stop, checkpoint=checkpoint)
    assert checkpoint.load()["step"] == 2
    damage(checkpoint.path)
    run = runs.cached(walk, config)
    assert f"the checkpoint {checkpoint.path} is damaged" in caplog.text
    assert (tmp_path / "starts").read_text() == "0\n0\n"
    assert run.environment["seconds"] < 1
    assert entries(root) == [entry]


def test_fast_steps_do_not_pay_for_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, saved = [0.0], []
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(torch, "save", lambda state, path: saved.append(clock[0]) or path.touch())
    checkpoint = runs._Checkpoint(tmp_path / "key", {}, "cpu", threads=2, data=(), every=30.0)
    for second in range(100):
        clock[0] = second
        checkpoint.save({})
    assert saved == [30, 60, 90]


def test_half_written_files_of_a_killed_run_are_no_run(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(folder: Path) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(runs, "_checksums", killed)
        with pytest.raises(KeyboardInterrupt):
            runs.cached(task, Config())
    assert [entry.suffix for entry in entries(root)] == [".part"]
    assert runs.cached(task, Config()).metrics["last"] == 1.0
    assert [entry.suffix for entry in entries(root)] == [""]


def test_the_word_model_is_the_same_fresh_and_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    corpus = datasets.Corpus(
        words=tuple("abcde"),
        tokens=rng.integers(5, size=1000),
        starts=np.arange(0, 1001, 100),
        documents=tuple("0123456789"),
        categories=("none",) * 10,
    )
    monkeypatch.setattr(datasets, "brown", lambda: corpus)
    config = wordmodel.WordModelConfig(rank=2, steps=5, batch=4)
    fresh, cached = (runs.cached(wordmodel.train, config, data=["brown"]) for _ in range(2))
    context = torch.arange(5)
    models = [wordmodel.WordModel.from_arrays(run.arrays, run.metrics) for run in (fresh, cached)]
    assert torch.equal(models[0].logits(context), models[1].logits(context))
    assert models[0].labels == tuple("abcde")
    assert torch.equal(models[0].logits(context), wordmodel.fit(config, corpus).logits(context))


def test_several_runs_side_by_side_are_those_of_one_by_one(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In processes of their own, hence with a task of the package; what is there already is not computed again."""
    monkeypatch.setattr(runs, "code_digest", keys.code_digest)  # what the other processes have
    configs = [fits.FitConfig("discrete", noise, samples=None, steps=3) for noise in ("gumbel", "gaussian")]
    one = runs.cached(fits.train, configs[0], threads=1)
    both = runs.cached_all(fits.train, configs)
    assert [run.config["noise"] for run in both] == ["gumbel", "gaussian"]
    assert both[0].environment == one.environment
    alone = runs.cached(fits.train, configs[1], threads=1, root=tmp_path / "others")
    np.testing.assert_array_equal(both[1].arrays["objective"], alone.arrays["objective"])
    new = [replace(config, steps=4) for config in configs]
    assert [len(run.arrays["law"][0, 0, 0]) for run in runs.cached_all(fits.train, new)] == [10, 10]
    assert len(entries(root)) == 4


def test_several_runs_report_the_fault_of_one() -> None:
    absent = [fits.FitConfig("discrete", "gumbel", steps=steps, seeds=(0,)) for steps in (1, 2)]
    with pytest.raises(DataError, match="no data set 'absent'"):
        runs.cached_all(fits.train, absent, data=lambda config: ("absent",))
