"""What changed, and what is there."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from claimbook import BookError
from claimbook.cli.commands import app
from claimbook.pipeline import book, pages, plan
from claimbook.store import Computation, complete_grids, default, settings
from claimbook.store.provenance import Meter
from sumexp import datasets
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
    return plan.notebook("one", {"profile": profile, "device": device})


def keep(computation: Computation) -> Path:
    store = default()
    with store.locked(computation), store.writing(computation) as (_, seal):
        seal(Meter().read(parameters={}))
    return store.path(computation)


def reasons(profile: str = "cpu") -> list[str]:
    return book.why("one", asked(profile))


def test_the_part_that_changed_is_named() -> None:
    assert reasons() == ["one: missing, and never computed before"]
    keep(asked())
    assert reasons()[0].startswith("one: fresh, computed ")
    assert reasons("smoke")[1:] == ["  parameter profile: cpu -> smoke"]
    Path("notebooks/one.md").write_text(NOTEBOOK.replace("Some", "Other"))
    assert reasons()[0].startswith("one: fresh, computed ")  # prose alone
    Path("notebooks/one.md").write_text(NOTEBOOK.replace("x = 1", "import sumexp.chapters.intervals"))
    assert "  module sumexp.chapters.intervals: new" in reasons()


def test_pages_are_compared_with_the_last_of_their_profile() -> None:
    for profile in ("cpu", "smoke"):
        keep(pages.computation(plan.make(profile, "cpu", "", stored=True)))
    Path("book/intro.md").write_text("# Intro\n")
    changed = pages.computation(plan.make("cpu", "cpu", "", stored=True))
    assert book.why("pages", changed)[1:] == ["  file book/intro.md: new"]


def test_what_is_stored_needs_no_gpu_here(monkeypatch: pytest.MonkeyPatch) -> None:
    for has_gpu in (False, True):
        monkeypatch.setattr(settings, "cuda_available", lambda has_gpu=has_gpu: has_gpu)
        devices = [plan.make("cpu", device, "", stored=True).device for device in ("cuda", "cpu", "auto")]
        assert devices == ["cuda", "cpu", "cuda" if has_gpu else "cpu"]
    monkeypatch.setattr(settings, "cuda_available", lambda: False)
    with pytest.raises(BookError, match="device is 'cuda', but torch finds no CUDA device"):
        plan.make("cpu", "cuda", "")


def test_a_grid_that_is_whole_changes_its_chapter(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = NOTEBOOK.replace("\n---\n", "\nsumexp: {data: [mnist], runs: {vae: [mnist]}}\n---\n", 1)
    Path("notebooks/one.md").write_text(declared)
    monkeypatch.setattr(datasets, "available", lambda name: True)
    bundles.in_folder(Path("no runs"), monkeypatch)
    keep(asked())
    keep(complete_grids.mark("vae", "mnist", "cpu", "cuda"))  # of another device
    assert reasons()[0].startswith("one: fresh")
    keep(complete_grids.mark("vae", "mnist", "cpu", "cpu"))
    assert reasons()[1:] == ["  trained mnist: no -> store"]


def test_all_are_listed_with_whether_they_are_fresh() -> None:
    def told() -> list[str]:
        done = CliRunner().invoke(app, ["why", "--device", "cpu"])
        return [line.partition(",")[0] for line in done.output.splitlines()]

    assert told() == ["one: missing", "pages: missing"]
    path = keep(asked())
    assert told() == ["one: fresh", "pages: missing"]
    (path / "entry.json").write_text("{}")
    assert told() == ["one: missing", "pages: missing"]
