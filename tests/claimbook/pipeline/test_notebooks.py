"""A notebook that is executed: its parameters, and how far it is."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from claimbook import BookError
from claimbook.pipeline import notebooks

from .tiny import PARAMETERS, chapter

FOLDERS = ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_PATH", "JUPYTER_DATA_DIR")
MORE = "seed = 0\nrate = 0.5\nquick = False\nsizes = (1, 2)\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project of one notebook, and an environment that comes back after the test."""
    for name in (*notebooks.SURROUNDINGS, "SUMEXP_DECLARED_DATA", *FOLDERS):
        monkeypatch.setenv(name, "another")
    monkeypatch.chdir(tmp_path)
    Path("notebooks").mkdir()
    assert PARAMETERS in chapter("one", "profile")
    Path("notebooks/one.md").write_text(chapter("one", "profile").replace("seed = 0\n", MORE))


def test_parameters_are_values_of_the_kind_that_the_notebook_has() -> None:
    values = notebooks.parameters("one", ["seed=7", "rate=2", "quick=True", "sizes=(3,)", "profile=smoke"])
    wanted = {"profile": "smoke", "seed": 7, "rate": 2.0, "quick": True, "sizes": (3,)}
    assert {name: values[name] for name in wanted} == wanted
    assert isinstance(values["rate"], float)
    assert isinstance(values["seed"], int)


@pytest.mark.parametrize("given", ["seed=1.5", "seed=True", "seed=one", "rate=fast", "quick=1", "sizes=3"])
def test_a_parameter_of_another_kind_is_named(given: str) -> None:
    name, _, text = given.partition("=")
    default = {"seed": "0", "rate": "0.5", "quick": "False", "sizes": "(1, 2)"}[name]
    with pytest.raises(BookError, match=re.escape(f"parameter {name} is '{text}'; expected a value such as {default}")):
        notebooks.parameters("one", [given])


def test_a_notebook_sees_what_its_key_holds_and_its_own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = Path("notebooks/one.md")
    source.write_text(source.read_text().replace("---\n", "---\nsumexp: {data: [brown, omniglot]}\n", 1))
    fixed = {"PYTHONHASHSEED": "0", "SUMEXP_DECLARED_DATA": "brown,omniglot", "OMP_NUM_THREADS": "1"}
    fixed |= dict.fromkeys(("PYTHONOPTIMIZE", "PYTHONSTARTUP", "PYTHONWARNINGS", "PYTEST_ADDOPTS"), "")

    def execute(source: Any, values: Any, ran: list[Any], log: Any, folder: str) -> None:
        assert {name: os.environ[name] for name in fixed} == fixed
        assert {os.environ[name] for name in FOLDERS} == {folder}
        assert Path(folder).is_dir()
        ran.append(folder)

    monkeypatch.setattr(notebooks, "_execute", execute)
    monkeypatch.setattr(notebooks, "_write", lambda *written: written[0])
    notebooks.run("one", {}, tmp_path / "out", tmp_path / "log")
    assert not Path(os.environ["IPYTHONDIR"]).exists()


@pytest.mark.parametrize("code", ["import sys; sys.exit()", "raise SystemExit(0)"])
def test_a_cell_that_ends_the_run_early_is_an_error(code: str, tmp_path: Path) -> None:
    source = Path("notebooks/one.md")
    front = "```{code-cell}".join(source.read_text().split("```{code-cell}")[:2])  # as far as the parameters
    source.write_text(f"{front}```{{code-cell}}\n{code}\n```\n\n```{{code-cell}}\nafter = 1\n```\n")
    with pytest.raises(BookError, match=rf"begins with: {re.escape(code)}\n.* remove its sys.exit\(\)"):
        notebooks.run("one", {}, tmp_path / "out", tmp_path / "build/logs/one.log")
    assert not (tmp_path / "out").exists()
