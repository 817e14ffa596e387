"""What changed, what is there, and what can go."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from claimbook import BookError
from claimbook.cli.commands import app
from claimbook.grids import jobs
from claimbook.pipeline import inputs, pages, plan, why
from claimbook.store import Computation, complete_grids, default, parts, settings
from claimbook.store.checkpoints import Checkpoint
from claimbook.store.provenance import Meter
from sumexp import datasets
from sumexp._runtime import Result
from sumexp.chapters.jobs import Job, Present
from tests.claimbook import bundles

from .tiny import HEADER, PARAMETERS

NOTEBOOK = HEADER + PARAMETERS + "\n# One\n\nSome text.\n\n```{code-cell} ipython3\nx = 1\n```\n"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A chapter, and a store in which nothing is computed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUMEXP_STORE", str(tmp_path / "store"))
    for folder in ("notebooks", "book", "claims", "tests"):
        Path(folder).mkdir()
    Path("_toc.yml").write_text("format: jb-book\nroot: notebooks/one\n")
    Path("notebooks/one.md").write_text(NOTEBOOK)
    return tmp_path


def asked(profile: str = "cpu", device: str = "cpu") -> Computation:
    return inputs.notebook("one", {"profile": profile, "device": device})


def keep(computation: Computation) -> Path:
    store = default()
    with store.locked(computation), store.writing(computation) as (_, seal):
        seal(Meter().read(parameters={}))
    return store.path(computation)


def said(profile: str = "cpu") -> list[str]:
    return why.why("one", plan.make(profile, "cpu", "", stored=True))


def test_the_part_that_changed_is_named() -> None:
    assert said() == ["one: missing, and nothing of it was ever computed"]
    keep(asked())
    assert said()[0].startswith("one: fresh, computed ")
    assert said("smoke")[1:] == ["  parameter profile: cpu -> smoke"]
    Path("notebooks/one.md").write_text(NOTEBOOK.replace("Some", "Other"))
    assert said()[0].startswith("one: fresh, computed ")  # prose alone
    Path("notebooks/one.md").write_text(NOTEBOOK.replace("x = 1", "import sumexp.chapters.intervals"))
    assert "  module sumexp.chapters.intervals: new" in said()


def test_pages_are_compared_with_the_last_of_their_profile() -> None:
    for profile in ("cpu", "smoke"):
        asked_for = plan.make(profile, "cpu", "", stored=True)
        keep(pages.computation(asked_for, pages.chapters(asked_for), pages.evidence(asked_for)))
    Path("book/intro.md").write_text("# Intro\n")
    assert why.why("pages", plan.make("cpu", "cpu", "", stored=True))[1:] == ["  file book/intro.md: new"]


def test_what_is_stored_needs_no_gpu_here(monkeypatch: pytest.MonkeyPatch) -> None:
    for there in (False, True):
        monkeypatch.setattr(settings, "cuda_available", lambda there=there: there)
        devices = [plan.make("cpu", device, "", stored=True).device for device in ("cuda", "cpu", "auto")]
        assert devices == ["cuda", "cpu", "cuda" if there else "cpu"]
    monkeypatch.setattr(settings, "cuda_available", lambda: False)
    with pytest.raises(BookError, match="device is 'cuda', but torch finds no CUDA device"):
        plan.make("cpu", "cuda", "")


def test_a_grid_that_is_whole_changes_its_chapter(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = NOTEBOOK.replace("\n---\n", "\nsumexp: {data: [mnist], runs: {vae: [mnist]}}\n---\n", 1)
    Path("notebooks/one.md").write_text(declared)
    monkeypatch.setattr(datasets, "available", lambda name: True)
    bundles.in_folder(Path("no runs"), monkeypatch)
    keep(asked())
    mark, other = (complete_grids.mark("vae", "mnist", "cpu", device) for device in ("cpu", "cuda"))
    keep(mark)
    assert said()[1:] == ["  trained mnist: no -> store"]
    keep(other)
    keep(Computation("grid", "vae-mnist", {"profile": "cpu"}))
    assert [text for _, text in why.leftovers()] == ["of other code or data"] * 2  # the old chapter, a foreign mark


def test_clean_keeps_what_any_machine_asks_for_and_what_runs() -> None:
    kept = [keep(asked(profile, device)) for profile in ("smoke", "cpu", "paper") for device in ("cpu", "cuda")]
    old = Computation("notebook", "one", {"code": "old"})
    damaged, running = keep(asked()), keep(Computation("notebook", "one", {"code": "older"}))
    (damaged / "entry.json").write_text("{}")
    gone = {keep(old): "of other code or data", damaged: "damaged"}
    with default().locked(Computation("notebook", "one", {"code": "older"})):
        assert dict(why.leftovers()) == gone
        assert why.remove([running]) == (0, 0)
    count, freed = why.remove(gone)
    assert (count, freed > 0) == (2, True)
    assert not any(path.exists() for path in gone)
    assert all(path.exists() for path in kept if path != damaged)


def test_how_far_everything_is() -> None:
    def told() -> list[tuple[str, str, str]]:
        """Kind, name and state, after a look at what the line says of time and key."""
        lines = list(why.status(plan.make("cpu", "cpu", "", stored=True)))
        assert [line.key for line in lines if line.kind == "run"] in ([], [run.key])
        assert all((line.seconds is not None) == (line.status == "fresh") for line in lines)
        return [(line.kind, line.name, line.status) for line in lines]

    run, pages = (
        Computation("run", "sumexp._descent.task", parts.modules(["sumexp._descent"])),
        ("pages", "book", "missing"),
    )
    assert told() == [("notebook", "one", "missing"), pages]
    with default().locked(asked()):
        assert told() == [("notebook", "one", "running"), pages]
    state = default().checkpoint(asked())
    state.parent.mkdir(parents=True)
    state.write_bytes(b"a state")
    assert told() == [("notebook", "one", "half-done"), pages]
    path = keep(asked())
    assert told() == [("notebook", "one", "fresh"), pages]
    (path / "entry.json").write_text("{}")
    assert told() == [("notebook", "one", "damaged"), pages]
    Checkpoint(default(), run, "cpu", every=0).save({"step": 1})
    assert told() == [("notebook", "one", "damaged"), pages, ("run", "sumexp._descent.task", "half-done")]


def train(config: Computation, /, **_: object) -> Result:
    return Result({}, {}, {})


def test_runs_that_a_chapter_s_grid_lacks_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the chapters of this book alone, once each, however far they are."""
    configs = [Computation("config", str(number), {}) for number in range(4)]
    tasks = tuple(Job(train, config) for config in configs)

    def grid(profile: str, there: Present) -> tuple[Job, ...]:
        return tasks if profile == "smoke" else ()

    monkeypatch.setattr(jobs, "grids", lambda: {"one": grid, "two": grid})
    monkeypatch.setattr(parts, "modules", lambda names: {})  # the task is in none of the package
    assert jobs.asked("one", "smoke", "cuda") == jobs.computations(tasks, "cuda")
    assert jobs.asked("three", "smoke", "cuda") == []

    def rows() -> dict[str, str]:
        """State by key, as the command prints them."""
        done = CliRunner().invoke(app, ["status", "--profile", "smoke", "--device", "cpu"])
        lines = [line.split() for line in done.output.splitlines() if line.startswith("run ")]
        assert len({line[-1] for line in lines}) == len(lines) == 4, done.output
        assert {line[1] for line in lines} == {tasks[0].name}
        return {line[-1]: line[2] for line in lines}

    keys = [wanted.key[:12] for wanted in jobs.computations(tasks, "cpu")]
    assert rows() == dict.fromkeys(keys, "missing")
    fresh, damaged, half_done, running = jobs.computations(tasks, "cpu")
    keep(fresh)
    (keep(damaged) / "entry.json").write_text("{}")
    for one in (fresh, half_done):  # the first by a process that was killed before it removed it
        Checkpoint(default(), one, "cpu", every=0).save({"step": 1})
    default().path(running).mkdir()  # as who copies a store may do first
    with default().locked(running):
        assert rows() == dict(zip(keys, ["fresh", "damaged", "half-done", "running"], strict=True))
        Checkpoint(default(), running, "cpu", every=0).save({"step": 1})
        assert rows()[keys[3]] == "running"
    default().checkpoint(half_done).write_bytes(b"no state")
    assert rows()[keys[2]] == "damaged"
    for path in (default().path(damaged), default().checkpoint(half_done)):
        default().remove(path)
    monkeypatch.setattr(parts, "modules", lambda names: {"module sumexp": "other code"})
    assert set(rows().values()) == {"missing"}
    assert not rows().keys() & set(keys)


def test_a_chapter_asks_for_runs_on_what_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """At cpu on the sets whose grid is whole, else on all that are there."""
    declared = NOTEBOOK.replace("\n---\n", "\nsumexp: {runs: {one: [mnist, omniglot]}}\n---\n", 1)
    Path("notebooks/one.md").write_text(declared)
    monkeypatch.setattr(datasets, "available", lambda name: True)
    monkeypatch.setattr(parts, "modules", lambda names: {})
    sets = ("digits", "mnist", "omniglot")
    found = {name: Job(train, Computation("config", name, {})) for name in sets}

    def grid(profile: str, there: Present) -> tuple[Job, ...]:
        return tuple(job for name, job in found.items() if name == "digits" or there(name))

    monkeypatch.setattr(jobs, "grids", lambda: {"one": grid})

    def said(profile: str) -> list[str]:
        return [
            name for name in sets if jobs.computations([found[name]], "cpu")[0] in jobs.asked("one", profile, "cpu")
        ]

    assert said("paper") == list(sets)
    assert said("cpu") == ["digits"]
    keep(complete_grids.mark("one", "omniglot", "cpu", "cpu"))
    assert said("cpu") == ["digits", "omniglot"]
