"""What a build makes, what the next one makes again, and what it leaves alone."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from claimbook.pipeline import book, staging
from claimbook.store import Computation, Store, complete_grids, default
from claimbook.store.provenance import Meter
from tests.claimbook.pipeline.tiny import SETTINGS, Project, chapter, make_project


def staged(path: Path, name: str) -> str:
    return json.dumps(json.loads((path / "notebooks" / f"{name}.ipynb").read_text("utf-8")))


def test_everything_is_in_its_place(built: Project) -> None:
    build = built.path / "build"
    executions = json.loads((build / "executions.json").read_text("utf-8"))["tables"]
    assert [row["notebook"] for row in executions["cost"]] == ["one", "two"]
    for cost, origin in zip(executions["cost"], executions["origin"], strict=True):
        assert origin["notebook"] == cost["notebook"]
        assert origin["parameters"] == {"profile": "smoke", "device": "cpu", "seed": 0}
        assert cost["wall"] > 0.1
        assert 20e6 < cost["peak memory"] < 20e9  # a kernel, in bytes
        assert len(origin["key"]) == 64
    for table in ("executions.json", "register.json"):
        assert (build / "stage/book/_data" / table).read_bytes() == (build / table).read_bytes()
    (claim,) = json.loads((build / "register.json").read_text("utf-8"))
    assert (claim["id"], claim["verdict"]) == ("bias-sum", "holds")


def test_staged_notebooks_bear_no_trace_of_the_run(built: Project) -> None:
    page = staged(built.path / "build/stage", "one")
    assert "smoke" in page  # the output of the last cell
    for trace in ("papermill.record", "noise", "injected-parameters", "iopub", '"execution_count": 1'):
        assert (trace in page) is (trace == "papermill.record")
    assert '"id": "cell-0"' in page


def test_a_chapter_that_was_not_asked_for_is_shown_unexecuted(built: Project) -> None:
    first = built.path / "first-stage"
    assert "make book ONLY=two" in staged(first, "two")
    assert "{glue:text}" not in staged(first, "two")
    assert "make book ONLY" not in staged(first, "one")
    assert "make book ONLY" not in staged(built.path / "build/stage", "two")


def test_a_second_build_does_nothing(built: Project) -> None:
    before = built.executed()
    assert built.build() == "the book: build/html/index.html\n"
    assert built.executed() == before


def test_a_changed_proof_and_a_grid_found_whole_are_something_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUMEXP_STORE", str(tmp_path / "store"))
    told = [book._sources(())]
    (tmp_path / "proofs").mkdir()
    for text in ("Qed.", "Admitted."):
        (tmp_path / "proofs/a.v").write_text(text)
        told.append(book._sources(()))
    mark = complete_grids.mark("vae", "mnist", "cpu", "cpu")
    with default().locked(mark), default().writing(mark) as (_, seal):
        seal(Meter().read(parameters={}))
    told.append(book._sources(()))
    assert len(set(told)) == 4
    assert book._sources(()) == told[-1]


def test_what_a_cell_prints_is_one_piece_however_it_came() -> None:
    pieces = [{"output_type": "stream", "name": "stdout", "text": text} for text in ("a\nb", "c\n")]
    figure = {"output_type": "display_data", "data": {"text/plain": "f"}, "metadata": {}}
    after = {"output_type": "stream", "name": "stdout", "text": "d"}
    joined = staging._outputs([*pieces, figure, after], None)
    assert [output.get("text") for output in joined] == ["a\nbc\n", None, "d"]
    assert pieces[0]["text"] == "a\nb"


def test_what_can_change_a_result_runs_the_chapters_that_import_it_and_all_else_is_shown(project: Project) -> None:
    before = project.executed()
    entries = project.entries("notebook"), project.entries("evidence"), project.entries("pages")
    project.write("src/sumexp/used.py", '"""Words."""\n\n\n# A comment.\ndef two():\n    """More."""\n    return 2\n')
    project.write("src/sumexp/unused.py", "def three():\n    return 1 + 2\n")
    text = chapter("one", "profile", tags="[hide-input]").replace("Two is", "As everybody knows two is")
    project.write("notebooks/one.md", text)
    assert "file notebooks/one.md: " in project.run("why", "pages", "--profile", "smoke")
    project.build()
    assert project.executed() == before
    assert (project.entries("notebook"), project.entries("evidence")) == entries[:2]
    assert project.entries("pages").keys() != entries[2].keys()
    page = staged(project.path / "build/stage", "one")
    assert '"hide-input"' in page
    assert "As everybody knows" in page
    project.write("src/sumexp/used.py", "def two():\n    return 3 - 1\n")
    project.build("--only", "two")
    assert project.entries("evidence") == entries[1]  # the claim is of the other chapter
    project.build()
    assert project.entries("evidence").keys() > entries[1].keys()
    after = project.executed()
    assert after["one"] != before["one"]
    assert after["two"] == before["two"]


def test_one_notebook_with_parameters_of_ones_own_leaves_the_book_alone(project: Project, tmp_path: Path) -> None:
    before = project.executed()
    output = tmp_path / "mine" / "one.ipynb"
    shutil.rmtree(project.path / "build" / "logs")  # as it is before a first build
    printed = project.run("notebook", "run", "one", "-p", "profile=paper", "-p", "seed=7", "--output", str(output))
    assert str(output) in printed
    assert "'paper'" in output.read_text("utf-8")
    assert project.executed() == before


def test_going_back_costs_nothing(project: Project) -> None:
    """To another profile and back, and through `make clean`: the store has it all."""
    first, entries = project.executed(), project.entries("*")
    project.run("book", "--profile", "cpu", "--cores", "2", "--only", "one")
    assert project.executed() != first
    assert project.entries("*").keys() > entries.keys()
    shutil.rmtree(project.path / "build")
    project.build()
    assert project.executed() == first
    assert (project.path / "build/html/index.html").read_text() == "rendered"
    assert len(project.entries("notebook")) == 3


def test_a_guarded_sentence_must_stand_in_the_chapter(project: Project) -> None:
    guarded = "from claimbook.authoring.results import guard\nguard('Two is', profile == 'smoke')"
    # A kernel that is interrupted at its end, after its last cell, says so on the terminal.
    seen = project.path / "interrupted"
    watch = f"after = lambda: signal.signal(signal.SIGINT, lambda *_: Path({str(seen)!r}).touch())"
    project.write(
        "notebooks/one.md", chapter("one", f"{guarded}\n{watch}\nget_ipython().kernel.post_handler_hook = after")
    )
    project.build()
    assert not seen.exists()
    text = project.run("book", "--profile", "cpu", "--cores", "2", "--only", "one", code=1)
    assert "the text says 'Two is', and in this run it is not so" in text


def test_only_what_is_stored(project: Project) -> None:
    shutil.rmtree(project.path / "build")
    away = project.store.rename(project.path / "away")
    text = project.build("--stored", "1", code=1)
    assert "lacks 2 of 2 chapters and the outcomes of 1 of 1 test modules: one, two, test_tiny, ...; copy them" in text
    shutil.rmtree(project.store, ignore_errors=True)
    away.rename(project.store)
    before = project.entries("*")
    project.write("notebooks/two.md", chapter("two", "profile * 2"))
    text = project.build("--stored", "1", code=1)
    assert "lacks 1 of 2 chapters and the outcomes of 0 of 1 test modules: two, ...; copy them" in text
    assert not (project.path / "build/html").exists()
    project.build("--stored", "partial")
    after = project.entries("*")
    assert {key for key in after if key not in before} == set(project.entries("pages")) - set(before)
    assert "is not executed yet" in staged(project.path / "build/stage", "two")


def test_what_a_gpu_machine_computed_is_rendered_where_there_is_none(project: Project) -> None:
    store = Store(project.store)
    for entry in store.entries("notebook"):
        asked = Computation("notebook", entry.computation.name, {**entry.computation.parts, "parameter device": "cuda"})
        with store.locked(asked), store.writing(asked) as (folder, seal):
            shutil.copytree(entry.path, folder, dirs_exist_ok=True)
            seal(replace(entry.provenance, device="cuda (a GPU)"))
    before = project.entries("notebook"), project.entries("evidence")
    project.leave_torch_out()
    project.build("--stored", "1", "--device", "cuda")
    assert (project.entries("notebook"), project.entries("evidence")) == before
    executions = json.loads((project.path / "build/executions.json").read_text("utf-8"))
    assert [(row["notebook"], row["device"]) for row in executions["tables"]["cost"]] == [
        ("one", "cuda (a GPU)"),
        ("two", "cuda (a GPU)"),
    ]
    for name in ("one", "two"):
        assert "is not executed yet" not in staged(project.path / "build/stage", name)
    rows = project.run("why", "--profile", "smoke", "--device", "cuda").splitlines()
    assert [row.partition(", ")[0] for row in rows] == ["one: fresh", "two: fresh", "test_tiny: fresh", "pages: fresh"]


@pytest.mark.slow
def test_two_cold_builds_give_the_same_bytes(tmp_path: Path) -> None:
    project = make_project(tmp_path / "a project", real_renderer=True)
    project.write("_toc.yml", SETTINGS["_toc.yml"].replace("  - file: notebooks/two\n", ""))
    project.leave_torch_out()
    (project.path / "tests/test_tiny.py").unlink()
    project.write("claims/bias.yml", SETTINGS["claims/bias.yml"] + "  unjudged: no test yet\n")
    figure = """import matplotlib.pyplot as plt
import sumexp.used
from claimbook.authoring.figures import show

fig, ax = plt.subplots()
ax.plot([0, 1], [0, sumexp.used.two()])
show(fig, "line", caption="A line.", alt="A line.", source=sumexp.used.two)"""
    project.write("notebooks/one.md", chapter("one", figure))
    sites = []
    for _ in range(2):
        project.build()
        pages = project.path / "build" / "html"
        sites.append({str(f.relative_to(pages)): f.read_bytes() for f in pages.rglob("*") if f.is_file()})
        (project.path / "build").rename(tmp_path / f"build-{len(sites)}")
        (project.path / "cache").rename(tmp_path / f"cache-{len(sites)}")
    first, second = sites
    assert first.keys() == second.keys()
    different = {name for name in first if first[name] != second[name]}
    assert different <= {"book/executions.html"}  # which shows times
