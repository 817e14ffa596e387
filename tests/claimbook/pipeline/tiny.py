"""A project of two tiny chapters, built as a reader builds the book, in a folder whose name has a space."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import claimbook
import sumexp

ROOT = Path(__file__).parents[3]

HEADER = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec: {display_name: Python 3, language: python, name: python3}
---
"""
PARAMETERS = """
```{code-cell} ipython3
:tags: [parameters]

profile = "cpu"
device = "auto"
seed = 0
```
"""

SETTINGS = {
    "_config.yml": """title: Tiny
only_build_toc_files: true
execute: {execute_notebooks: "off"}
sphinx:
  recursive_update: true
  local_extensions: {sumexp_book: book/_ext}
  config: {html_theme_options: {navbar_persistent: []}, nb_ipywidgets_js: {}}
""",
    "_toc.yml": """format: jb-book
root: book/intro
chapters:
  - file: notebooks/one
  - file: notebooks/two
  - file: book/register
  - file: book/executions
""",
    "book/intro.md": "# Intro\n",
    "book/_ext/sumexp_book.py": (ROOT / "book/_ext/sumexp_book.py").read_text("utf-8"),
    "book/register.md": "# Register\n\n```{register-table} claims\n```\n",
    "book/executions.md": "---\nnosearch: true\n---\n\n# Executions\n\n```{measured} executions\n:table: cost\n```\n",
    "claims/bias.yml": """- id: bias-sum
  chapter: one
  where: sec. 1
  kind: equation
  paper_says: One and one is two.
""",
    "tests/test_tiny.py": """import pytest

import sumexp.used


@pytest.mark.claim("bias-sum", shows="statement", evidence="exact")
def test_sum():
    assert 1 + 1 == sumexp.used.two()
""",
    "src/sumexp/used.py": "def two():\n    return 2\n",
    "src/sumexp/unused.py": "def three():\n    return 3\n",
}

RENDERER = """def render(stage, output, *, jobs):
    output.mkdir(parents=True)
    (output / "index.html").write_text("rendered")
"""


TORCH = '''"""What a run asks of torch, which takes each of seven processes seconds to import, and counts no better."""

from types import SimpleNamespace


def device(name):
    return SimpleNamespace(type=name)


def get_num_threads():
    return 1


def set_num_threads(threads):
    pass


float32, OutOfMemoryError = "float32", MemoryError
get_default_dtype, set_default_dtype = get_num_threads, set_num_threads
'''


def write(name: str | Path, text: str) -> Path:
    """Put a file in place."""
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def chapter(name: str, code: str, tags: str = "[]") -> str:
    """The text of a notebook that quotes a number of its own and then runs ``code``."""
    return f"""{HEADER}
# Chapter {name}

Two is {{glue:text}}`{name}-two`.
{PARAMETERS}
```{{code-cell}} ipython3
:tags: {tags}

import os, signal, sys, time
from pathlib import Path

import sumexp.{"used" if name == "one" else "datasets"}
from claimbook.authoring.results import record

record("{name}-two", 2, "d")
print("noi" + "se", file=sys.stderr)
```

```{{code-cell}} ipython3
{code}
```
"""


@dataclass(frozen=True)
class Project:
    """A folder that is built by the commands a reader types."""

    path: Path

    def write(self, name: str, text: str) -> None:
        """Put a file in place."""
        write(self.path / name, text)

    def leave_torch_out(self) -> None:
        """Let what trains import something quicker under that name."""
        self.write("src/torch/__init__.py", TORCH)
        self.write("src/torch/version.py", "cuda = hip = None")
        # They are of none of its chapters, and need torch.
        for grids in (self.path / "src/sumexp").glob("chapters/*/grids.py"):
            grids.unlink()

    def environment(self) -> dict[str, str]:
        """One in which ``sumexp`` has its own copy of the package, and no data."""
        hidden = ("SUMEXP_DATA", "SUMEXP_DRIVEN", "SUMEXP_DECLARED_DATA", "SUMEXP_STORE")
        environment = {name: value for name, value in os.environ.items() if name not in hidden}
        environment |= {"PYTHONPATH": str(self.path / "src"), "XDG_CACHE_HOME": str(self.path / "cache")}
        # Its tests need no plugin of pytest; that of Hypothesis imports all of Hypothesis at the end.
        return environment | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

    def start(self, *arguments: str, group: bool = False) -> subprocess.Popen[str]:
        """Start ``sumexp``; ``group``: in a process group of its own."""
        command = [sys.executable, "-m", "claimbook.cli", *arguments]
        place = {"cwd": self.path, "env": self.environment(), "start_new_session": group}
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **place)

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run ``sumexp`` to its end; returns what it printed."""
        process = self.start(*arguments)
        output, _ = process.communicate(timeout=300)
        assert process.returncode == code, output
        return output

    def build(self, *arguments: str, code: int = 0) -> str:
        """Build the book at profile smoke."""
        return self.run("book", "--profile", "smoke", "--cores", "2", *arguments, code=code)

    def executed(self) -> dict[str, str]:
        """The executed notebooks; no two executions are the same bytes, as each says when it was."""
        return {file.stem: file.read_text("utf-8") for file in (self.path / "build" / "executed").glob("*.ipynb")}

    @property
    def store(self) -> Path:
        """Where its entries lie."""
        return self.path / "cache" / "sumexp" / "store"

    def entries(self, kind: str, name: str = "*") -> dict[str, float]:
        """The finished entries of a kind and name: their keys, and when each was written."""
        files = self.store.glob(f"{kind}/{name}/*/entry.json")
        return {path.parent.name: path.stat().st_mtime for path in files if not path.parent.suffix}  # nor half there


def make_project(path: Path, *, real_renderer: bool = False) -> Project:
    """Lay out a project that is not yet built."""
    project = Project(path)
    for package in (claimbook, sumexp):  # with their bytecode, as installed packages have it
        shutil.copytree(package.__path__[0], path / "src" / package.__name__)
    shutil.copy2(ROOT / "constraints.txt", path)
    for name, text in SETTINGS.items():
        project.write(name, text)
    for name in ("one", "two"):
        project.write(f"notebooks/{name}.md", chapter(name, "profile"))
    if not real_renderer:
        project.write("src/claimbook/pipeline/rendering.py", RENDERER)
    return project
