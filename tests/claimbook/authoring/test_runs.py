"""Cached runs: computed once, kept whole or not at all, and the same whether fresh or cached."""

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from claimbook import BookError
from claimbook.authoring import runs
from claimbook.store import Store, parts
from sumexp import datasets
from sumexp._runtime import Result
from sumexp.datasets import DataError, DataFile, Dataset
from tests.claimbook.store.conftest import flip


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


def task(config: Config, /, *, progress: Callable[[Iterable[int]], Iterable[int]], **_: object) -> Result:
    CALLS.append(config)
    steps = [step * config.rate for step in progress(range(config.steps))]
    arrays = {"steps": np.array(steps), "words": np.array(["the", "dog"]), "half": np.float32([1 / 3])}
    return Result(arrays, {"last": steps[-1], "third": 1 / 3, "threads": torch.get_num_threads()})


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty store in a path with a space; the tasks here are outside the package, so their code has no part."""
    CALLS.clear()
    monkeypatch.setenv("SUMEXP_STORE", str(tmp_path / "the store"))
    monkeypatch.setattr(parts, "modules", lambda names: {f"module {name}": "code" for name in names})
    monkeypatch.delenv("SUMEXP_DECLARED_DATA", raising=False)
    return tmp_path / "the store"


def left(root: Path) -> list[Path]:
    """Entries, checkpoints and what is half written."""
    return sorted(root.glob("run/*/*"))


def test_a_run_is_computed_once(root: Path) -> None:
    fresh = runs.cached(task, Config())
    cached = runs.cached(task, Config())
    assert len(CALLS) == 1
    assert fresh.metrics == cached.metrics == {"last": 1.0, "third": 1 / 3, "threads": 1}
    assert fresh.config == {"steps": 3, "rate": 0.5, "name": "plain", "layers": [2, 3]}
    assert fresh.provenance == cached.provenance
    assert fresh.arrays["steps"].tolist() == [0, 0.5, 1]
    for name, array in fresh.arrays.items():
        assert array.dtype == cached.arrays[name].dtype
        np.testing.assert_array_equal(array, cached.arrays[name])
    [entry] = left(root)
    assert entry.name == fresh.key
    files = ["SHA256SUMS", "arrays.npz", "entry.json", "history.npz", "run.json"]
    assert sorted(path.name for path in entry.iterdir()) == files
    assert fresh.history == cached.history == {}


def test_its_provenance_is_recorded() -> None:
    start = time.perf_counter()
    made = runs.cached(task, Config()).provenance
    assert torch.__version__.startswith(made.versions["torch"])  # which may go on: +cu130
    assert made.versions["numpy"] == np.__version__
    assert made.data == ()
    assert made.device.startswith("cpu (")
    assert 0 <= made.seconds <= time.perf_counter() - start
    assert made.peak_memory > 10_000_000
    assert made.finished.endswith("+00:00")


def test_arrays_and_history_come_back_as_they_were() -> None:
    values = [np.float64([np.nan, -0.0, np.inf]), np.float32([[1e-45]]), np.int64([-(2**63)]), np.array(["é", ""])]
    values += [np.bool_([]), np.array(7)]
    arrays = {f"aé_{number}": value for number, value in enumerate(values)}

    def return_it(config: Config, /, **_: object) -> Result:
        return Result(arrays, history=arrays)

    run = runs.cached(return_it, Config())
    for back in (run.arrays, run.history):
        assert list(back) == list(arrays)
        for name, before in arrays.items():
            assert back[name].dtype == before.dtype
            np.testing.assert_array_equal(back[name], before)


def test_an_array_of_objects_is_refused_and_leaves_nothing(root: Path) -> None:
    def return_it(config: Config, /, **_: object) -> Result:
        return Result({"objects": np.array([object()])})

    with pytest.raises(ValueError, match="allow_pickle"):
        runs.cached(return_it, Config())
    assert left(root) == []


def test_the_parts_of_a_key_are_all_that_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    file = DataFile("tiny/tiny.bin", "https://nowhere.invalid", "ab" * 32, 1)
    monkeypatch.setattr(datasets, "available", lambda name: True)
    key_parts = []
    for declared in (file, replace(file, sha256="cd" * 32)):
        monkeypatch.setattr(datasets, "DATASETS", {"tiny": Dataset("tiny", "", "", "", (declared,))})
        key_parts.append(dict(runs.computation(task, Config(), data=["tiny"], device="cuda:1").parts))
    assert key_parts[0].pop("data tiny") != key_parts[1].pop("data tiny")
    config = {"config steps": "3", "config rate": "0.5", "config name": '"plain"', "config layers": "[2, 3]"}
    assert key_parts[0] == {f"module {__name__}": "code", "device": "cuda", "threads": "1"} | config


@pytest.mark.parametrize(
    "config, fault",
    [
        (Config(steps="3"), r"steps\n  Input should be a valid integer"),  # type: ignore[arg-type]
        (Config(steps=3.5), r"steps\n  Input should be a valid integer"),  # type: ignore[arg-type]
        (Config(rate=None), r"rate\n  Input should be a valid number"),  # type: ignore[arg-type]
        (Config(layers=(1, "2")), r"layers.1\n  Input should be"),  # type: ignore[arg-type]
        (Nested(Config(name=7)), r"inner.name\n  Input should be a valid string"),  # type: ignore[arg-type]
        (Config(name=object()), r"Unable to serialize"),  # type: ignore[arg-type]
    ],
)
def test_a_field_of_a_wrong_type_is_named(root: Path, config: Config, fault: str) -> None:
    with pytest.raises(BookError, match=fault):
        runs.cached(task, config)
    assert CALLS == []
    assert not root.exists()


def test_a_config_that_is_no_dataclass() -> None:
    with pytest.raises(BookError, match=r"a run's config must be a dataclass, got {'steps': 3}"):
        runs.cached(task, {"steps": 3})


def test_a_damaged_entry_is_computed_again_with_a_note(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = runs.cached(task, Config())
    [entry] = left(root)
    flip(entry / "arrays.npz")
    again = runs.cached(task, Config())
    assert len(CALLS) == 2
    assert f"{entry} is damaged" in caplog.text
    assert again.metrics == first.metrics
    assert runs.cached(task, Config()).metrics == first.metrics
    assert len(CALLS) == 2


def test_a_task_that_fails_leaves_nothing(root: Path) -> None:
    def fail(config: Config, /, **_: object) -> Result:
        assert (torch.get_num_threads(), torch.get_default_dtype()) == (1, torch.float32)
        raise RuntimeError("diverged")

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(RuntimeError, match="diverged"):
            runs.cached(fail, Config())
        assert (torch.get_num_threads(), torch.get_default_dtype()) == (3, torch.float64)
    finally:
        torch.set_num_threads(before)
        torch.set_default_dtype(torch.float32)
    assert left(root) == []
    assert "SUMEXP_DECLARED_DATA" not in os.environ


def test_a_run_may_read_the_data_it_declares_and_no_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = []

    def read(config: Config, /, **_: object) -> Result:
        seen.append(os.environ["SUMEXP_DECLARED_DATA"])
        datasets.declared("brown")
        return Result({})

    with pytest.raises(DataError, match="'brown' is read but not declared"):
        runs.cached(read, Config())
    monkeypatch.setenv("SUMEXP_DECLARED_DATA", "brown,digits")
    runs.cached(read, Config(), data=["brown"])
    assert seen == ["", "brown"]
    assert os.environ["SUMEXP_DECLARED_DATA"] == "brown,digits"
    monkeypatch.setenv("SUMEXP_DECLARED_DATA", "digits")  # a notebook cannot read by way of the cache either
    with pytest.raises(DataError, match="'brown' is read but not declared"):
        runs.cached(read, Config(), data=["brown"])


def test_a_finished_run_takes_half_a_checkpoint_with_it(tmp_path: Path) -> None:
    """A process killed between the writing of a checkpoint and its renaming leaves one."""
    store = Store(tmp_path / "runs")
    half = store.checkpoint(runs.computation(task, Config())).with_suffix(".checkpoint.part")
    half.parent.mkdir(parents=True)
    half.write_bytes(b"half")
    assert [path.name for path in left(store.root)] == [half.name]
    run = runs.computed(task, Config(), store=store)
    assert [path.name for path in left(store.root)] == [run.key]


def test_several_runs_are_those_of_one_by_one_and_computed_once(root: Path) -> None:
    single = runs.cached(task, Config(steps=1))
    several = runs.cached_all(task, [Config(steps=steps) for steps in (1, 2, 1)])
    assert [run.metrics["last"] for run in several] == [0, 0.5, 0]
    assert several[0].provenance == several[2].provenance == single.provenance
    assert len(CALLS) == len(left(root)) == 2


def test_a_gpu_that_is_full_is_named_with_what_needs_less(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_large(config: Config, /, **_: object) -> Result:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1 << 30, 80 << 30))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 9 << 30)
    with pytest.raises(BookError, match=r"too_large .*: 80.0 GiB, of which other processes hold 70.0\. .*CORES=1"):
        runs.cached(too_large, Config())
