"""Every chapter that trains runs by papermill, without data, on the stand-in, or on the GPU where there is one."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jupytext
import papermill
import pytest
import torch
from jupyter_client.manager import KernelManager
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine, papermill_engines

from claimbook.pipeline.notebooks import SURROUNDINGS
from claimbook.pipeline.plan import chapters_of, parse

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


class Running(NBClientEngine):  # type: ignore[misc]
    """Papermill's engine with a kernel that runs already."""

    @classmethod
    def execute_managed_notebook(cls, manager: Any, *_: object, km: KernelManager, **__: object) -> None:
        client = PapermillNotebookClient(manager, km=km)
        try:
            client.execute()
        finally:
            client.kc.stop_channels()


papermill_engines.register("running", Running)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KernelManager]:
    """One for all chapters, as it imports torch; each chapter sets its names anew."""
    place = tmp_path_factory.mktemp("standin")
    startup = place / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    if DEVICE == "standin":
        (startup / "standin.py").write_text(STARTUP, "utf-8")
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    settings = {"IPYTHONDIR": startup.parents[1], "SUMEXP_STORE": place / "store", "XDG_CACHE_HOME": place}
    environment = os.environ | SURROUNDINGS | {name: str(path) for name, path in settings.items()}
    environment |= {"PYTHONPATH": os.pathsep.join(paths), "SUMEXP_DATA": ""}
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env=environment, cwd=ROOT)  # chapters that show measurements read them there
    yield manager
    manager.shutdown_kernel(now=True)
    manager.context.destroy()


def test_most_chapters_train() -> None:
    assert len(CHAPTERS) >= 10


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_runs_on_a_device(chapter: str, kernel: KernelManager) -> None:
    source = jupytext.read(ROOT / "notebooks" / f"{chapter}.md")
    values = {"profile": "smoke", "device": DEVICE}
    engine = {"engine_name": "running", "kernel_name": "python3", "km": kernel}
    ran = papermill.execute_notebook(source, None, values, progress_bar=False, **engine)
    codes = [cell for cell in ran.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in codes if cell.source.strip())
