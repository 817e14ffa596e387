"""The book and a grid computed by a cluster: `nodes` stands in for one."""

import json
from pathlib import Path

import pytest

from claimbook.pipeline import workflow
from tests.claimbook.pipeline.tiny import Project, chapter, make_project

from . import nodes
from .test_faults import asked
from .test_filling import GRID, TINY

CLUSTER = ("--executor", "nodes", "--jobs", "3", "--device", "cpu", "--profile", "smoke")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project without torch, with two chapters and a grid of one run, whose store is named as seen from there."""
    project = make_project(tmp_path / "a project")
    project.write("src/snakemake_executor_plugin_nodes/__init__.py", Path(nodes.__file__).read_text("utf-8"))
    project.write("src/sumexp/tiny.py", TINY)
    project.leave_torch_out()
    project.write("src/sumexp/chapters/tiny/__init__.py", "")
    project.write("src/sumexp/chapters/tiny/grids.py", GRID.replace("range(3)", "range(1)"))
    environment = Project.environment(project)
    more = {"SUMEXP_STORE": "cache/sumexp/store", "NODES": str(project.path), "TINY": str(project.path)}
    monkeypatch.setattr(Project, "environment", lambda self: environment | more)
    return project


def given(project: Project) -> list[dict[str, object]]:
    """What the nodes were asked for since this was last called."""
    file = project.path / "asked"
    lines = sorted(file.read_text("utf-8").splitlines())
    file.unlink()
    return [json.loads(line) for line in lines]


@pytest.mark.slow
def test_chapters_and_runs_go_to_the_nodes_and_come_back(project: Project) -> None:
    again = "if not Path('tried').exists():\n    Path('tried').touch()\n    raise RuntimeError('no such luck')"
    project.write("notebooks/two.md", chapter("two", again))
    said = project.run("book", *CLUSTER, "--only", "two")
    assert "notebooks/two.md failed in code cell 3, which begins with: if not Path('tried').exists():" in said
    assert given(project) == [
        {"rule": "notebook_two", "threads": 1, "runtime": 30 * number, "mem_mb": 8000 * number, "gpu": None}
        for number in (1, 2)  # what is tried again may take more
    ]
    assert project.executed().keys() == {"two"}
    assert not list(project.path.glob("build/workflow-*"))

    project.write("fail0", "")
    fill = ("runs", "run", "--grid", "tiny", *CLUSTER, "--options", "--retries 0")
    said = project.run(*fill, code=1)
    assert "ArithmeticError: 0 diverged" in said
    assert "error: 1 of 1 runs are not finished: see above, and" in said
    assert [one["runtime"] for one in given(project)] == [11]
    assert len(list(project.path.glob("build/workflow-*"))) == 1  # with the cluster's logs of what failed


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--executor", "nosuch", "--device", "cpu"), "EXECUTOR is 'nosuch', which is not installed; run: "),
        (("--executor", "nodes"), "device for EXECUTOR=nodes is 'auto'; expected one of cpu, cuda"),
        (("--executor", "nodes", "--device", "cpu", "--jobs", "0"), "JOBS is 0; expected 1 or more"),
    ],
)
def test_wrong_input_is_named_before_anything_runs(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(workflow, "find_spec", lambda name: None if "nosuch" in name else True)
    assert message in asked("book", *arguments)
    assert not list(tmp_path.iterdir())
