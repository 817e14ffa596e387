"""Every chapter that trains runs on a device, by papermill alone, in an empty folder, without any data set.

The device is the stand-in, or the GPU where there is one: the two never share a process.
"""

import os
from pathlib import Path

import jupytext
import papermill
import pytest
import torch

from claimbook.pipeline.inputs import chapters_of, parse
from claimbook.pipeline.notebooks import SURROUNDINGS

ROOT = Path(__file__).parents[2]
CHAPTERS = [
    name for name in chapters_of(ROOT / "_toc.yml") if "device" in parse(ROOT / "notebooks" / f"{name}.md").parameters
]
DEVICE = "cuda" if torch.cuda.is_available() else "standin"

# What a kernel runs first: the device is there while a task computes, and nowhere else.
STARTUP = """
from contextlib import contextmanager

from claimbook.authoring import figures, runs
from tests.accelerator.standin import StandIn

surroundings = runs._surroundings


@contextmanager
def on_the_stand_in(*arguments):
    with surroundings(*arguments), StandIn():
        yield


runs._surroundings = on_the_stand_in
figures.show = lambda *_, **__: None  # a picture needs no device, and takes time
"""


def test_most_chapters_train() -> None:
    assert len(CHAPTERS) >= 10


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_runs_on_a_device(chapter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    startup = tmp_path / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    if DEVICE == "standin":
        (startup / "standin.py").write_text(STARTUP, "utf-8")
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    settings = {"IPYTHONDIR": startup.parents[1], "SUMEXP_STORE": tmp_path / "store", "XDG_CACHE_HOME": tmp_path}
    for name, value in {**SURROUNDINGS, **settings, "PYTHONPATH": os.pathsep.join(paths)}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.delenv("SUMEXP_DATA", raising=False)
    executed = papermill.execute_notebook(
        jupytext.read(ROOT / "notebooks" / f"{chapter}.md"),
        None,
        parameters={"profile": "smoke", "device": DEVICE},
        kernel_name="python3",
        progress_bar=False,
        cwd=ROOT,  # chapters that show measurements read them there
    )
    codes = [cell for cell in executed.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in codes if cell.source.strip())
