"""Keys change when a result could change, and not otherwise."""

import os
import subprocess
import sys
from pathlib import Path

import jupytext
import pytest

from sumexp.companion import CompanionError, keys

from .conftest import HEADER

NOTEBOOK = (
    HEADER
    + """
# Title

Some text.

```{code-cell} ipython3
:tags: [parameters]

profile = "cpu"
```

+++ {"tags": ["remove-cell"]}

More text, and code that is no cell:

```python
import sumexp.expectations
```

- a list

  ```{code-cell} ipython3
  not_a_cell = 1
  ```

```{code-cell} ipython3
---
tags: [hide-input]
mystnb: {figure: {name: a}}
---
x = 1

y = ":z: 2"
```

````{code-cell} ipython3
print('''
```
''')
````
"""
)


def key(tmp_path: Path, text: str = NOTEBOOK, **parameters: object) -> str:
    path = tmp_path / "a.md"
    path.write_text(text, "utf-8")
    return keys.notebook_key(path, parameters or {"profile": "cpu"})


@pytest.mark.parametrize("text", [NOTEBOOK, Path("notebooks/expectations.md").read_text("utf-8")])
def test_cells_are_those_jupytext_reads(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.md"
    path.write_text(text, "utf-8")
    cells = jupytext.reads(text, fmt="md:myst").cells
    source = keys.parse(path)
    assert list(source.code) == [cell.source for cell in cells if cell.cell_type == "code"]
    prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert source.text.split() == prose.split()


def test_tags_and_cell_metadata_do_not_count(tmp_path: Path) -> None:
    retagged = NOTEBOOK.replace("tags: [hide-input]", "tags: [remove-input]").replace('["remove-cell"]', "[]")
    retagged = retagged.replace(":tags: [parameters]", ":tags: [parameters, hide-cell]\n:other: 1")
    assert retagged != NOTEBOOK
    assert key(tmp_path) == key(tmp_path, retagged)


@pytest.mark.parametrize(
    "old, new", [("Some text", "Other text"), ("x = 1", "x = 2"), ("not_a_cell", "still_not_a_cell")]
)
def test_text_and_code_count(tmp_path: Path, old: str, new: str) -> None:
    assert key(tmp_path) != key(tmp_path, NOTEBOOK.replace(old, new))


def test_parameters_and_pins_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert key(tmp_path, profile="cpu") != key(tmp_path, profile="smoke")
    before = key(tmp_path)
    monkeypatch.setattr(keys, "PINS", tmp_path / "absent.txt")
    assert key(tmp_path) != before


def test_data_count_when_present_absent_or_incomplete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sumexp import datasets

    text = NOTEBOOK.replace("---\njupytext", "---\nsumexp: {data: [brown]}\njupytext", 1)
    monkeypatch.delenv("SUMEXP_DECLARED_DATA", raising=False)
    monkeypatch.setattr(datasets, "available", lambda name: True)
    present = key(tmp_path, text)
    monkeypatch.setattr(datasets, "available", lambda name: False)
    absent = key(tmp_path, text)
    monkeypatch.setenv("SUMEXP_DATA", str(tmp_path))
    monkeypatch.undo()
    monkeypatch.setenv("SUMEXP_DATA", str(tmp_path))
    incomplete = key(tmp_path, text)
    assert len({present, absent, incomplete, key(tmp_path)}) == 4


def test_a_data_set_that_does_not_exist_is_named(tmp_path: Path) -> None:
    text = NOTEBOOK.replace("---\njupytext", "---\nsumexp: {data: [blue]}\njupytext", 1)
    with pytest.raises(CompanionError, match=r"a\.md declares the data set blue; there are brown"):
        key(tmp_path, text)


def test_a_declared_file_counts_and_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a.md"
    path.write_text(NOTEBOOK.replace("---\njupytext", "---\nsumexp: {files: [measured.json]}\njupytext", 1), "utf-8")
    with pytest.raises(CompanionError, match=r"a\.md declares the file measured\.json, which is not in"):
        keys.notebook_key(path, {})
    found = []
    for content in ("1", "2", "1"):
        Path("measured.json").write_text(content, "utf-8")
        found.append(keys.notebook_key(path, {}))
    assert (found[0] == found[2], found[0] == found[1]) == (True, False)


@pytest.mark.parametrize(
    "code, modules",
    [
        ("from sumexp import expectations", {"sumexp.expectations"}),
        (
            "from sumexp.expectations import quadrature, no_module",
            {"sumexp.expectations", "sumexp.expectations.quadrature"},
        ),
        ("import sumexp.datasets as d", {"sumexp.datasets"}),
        ("import sumexp\nsumexp.expectations.product()", {"sumexp", "sumexp.expectations"}),
        ("import sumexp as s\ns.datasets.brown()", {"sumexp", "sumexp.datasets"}),
        ("def f():\n    from sumexp import datasets", {"sumexp.datasets"}),
        ("%time\n!ls\nimport sumexp.datasets", {"sumexp.datasets"}),
        ("import numpy as np\nnp.sumexp.datasets", set()),
        ("%%bash\nfor x in y; do z; done", set()),
    ],
)
def test_imports_of_a_cell(code: str, modules: set[str]) -> None:
    assert keys.imports(code) == modules


@pytest.mark.parametrize(
    "changed, same",
    [
        ("def f(x):\n    return x + 1", True),
        ("# comment\ndef f(x):\n    '''Other words.'''\n\n    return (x + 1)  # more", True),
        ("def f(x):\n    return x + 2", False),
        ("def f(x, y=0):\n    return x + 1", False),
        ("'Module.'\nclass A:\n    'Words.'\n    async def g(self):\n        'Words.'\ndef f(x): return x + 1", False),
    ],
)
def test_syntax_leaves_out_comments_and_docstrings(changed: str, same: bool) -> None:
    original = 'def f(x):\n    """Words."""\n    return x + 1\n'
    assert (keys.syntax(changed) == keys.syntax(original)) is same


def test_closure_follows_deferred_imports_and_parents_only(tmp_path: Path) -> None:
    package = tmp_path / "sumexp"
    files = {
        "__init__.py": "def __getattr__(name): ...\n",
        "a.py": "def f():\n    from sumexp.pack import inner\n",
        "b.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import sumexp.a\n",
        "pack/__init__.py": "from sumexp import c\n",
        "pack/inner.py": "x = 1\n",
        "c.py": "",
    }
    for name, text in files.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text, "utf-8")
    for name in ("__init__.py", "keys.py"):
        (package / "companion").mkdir(exist_ok=True)
        (package / "companion" / name).write_text((Path(keys.__file__).parent / name).read_text("utf-8"), "utf-8")

    code = 'from sumexp.companion.keys import closure as c; print(*sorted(c(["sumexp.a"]))); print(*c(["sumexp.b"]))'
    out = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert out[0] == "sumexp sumexp.a sumexp.c sumexp.pack sumexp.pack.inner"
    assert set(out[1].split()) == {"sumexp", "sumexp.b"}


def test_an_unknown_module_is_named() -> None:
    with pytest.raises(CompanionError, match=r"no module sumexp\.nothing in the package; it has sumexp, "):
        keys.code_digest(["sumexp.nothing"])
