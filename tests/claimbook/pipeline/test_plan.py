"""The sources of the book: what of a notebook and of a test module counts."""

from pathlib import Path

import pytest

from claimbook import BookError
from claimbook.pipeline import plan
from claimbook.store import Computation
from sumexp import datasets

from .tiny import HEADER, write

ROOT = Path(__file__).parents[3]
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


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SUMEXP_DECLARED_DATA", raising=False)
    return tmp_path


def notebook(text: str = NOTEBOOK, **parameters: object) -> Computation:
    write("notebooks/a.md", text)
    return plan.notebook("a", parameters or {"profile": "cpu"})


def test_code_is_that_of_cells_without_tags_and_metadata() -> None:
    source = plan.parse(write("a.md", NOTEBOOK.replace("---\njupytext", "---\nsumexp: {data: [brown]}\njupytext", 1)))
    assert source.code == ('profile = "cpu"', 'x = 1\n\ny = ":z: 2"', "print('''\n```\n''')")
    assert source.declared == {"data": ["brown"]}


def test_a_parameter_may_have_a_type() -> None:
    assert plan.parse(write("a.md", NOTEBOOK.replace('profile = "cpu"', "seed: int = 0"))).parameters == {"seed": 0}


def test_prose_tags_and_cell_metadata_do_not_count() -> None:
    before = notebook()
    retagged = NOTEBOOK.replace("tags: [hide-input]", "tags: [remove-input]").replace('["remove-cell"]', "[]")
    retagged = retagged.replace(":tags: [parameters]", ":tags: [parameters, hide-cell]\n:other: 1")
    reworded = NOTEBOOK.replace("Some text", "Other text").replace("not_a_cell", "still_not_a_cell")
    assert NOTEBOOK not in (retagged, reworded)
    assert before.key == notebook(retagged).key == notebook(reworded).key


def test_code_parameters_and_versions_count() -> None:
    before = notebook()
    assert notebook(NOTEBOOK.replace("x = 1", "x = 2")).differences(before) == [
        f"code: {before.parts['code'][:8]}... -> {notebook(NOTEBOOK.replace('x = 1', 'x = 2')).parts['code'][:8]}..."
    ]
    assert notebook(profile="smoke").differences(before) == ["parameter profile: cpu -> smoke"]
    before = notebook(torch := NOTEBOOK.replace("x = 1", "import torch"))
    write("constraints.txt", "idna==3\ntorch==1\n")
    assert notebook(torch).differences(before) == ["version torch: new"]


def test_the_modules_that_code_imports_count() -> None:
    names = notebook(NOTEBOOK.replace("x = 1", "import sumexp.expectations")).parts
    assert {"module sumexp", "module sumexp.expectations"} <= names.keys()
    assert not any(name.startswith("module") for name in notebook().parts)


@pytest.mark.parametrize("chapter", plan.chapters_of(ROOT / "_toc.yml"))
def test_versions_that_no_chapter_reaches_do_not_count(chapter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    parts = plan.notebook(chapter, {}).parts
    assert {"version numpy", "version torch", "version matplotlib"} <= parts.keys()
    assert not {f"version {name}" for name in ("idna", "sphinx", "papermill", "pytest")} & parts.keys()


def test_declared_data_count(monkeypatch: pytest.MonkeyPatch) -> None:
    text = NOTEBOOK.replace("---\njupytext", "---\nsumexp: {data: [brown]}\njupytext", 1)
    monkeypatch.setattr(datasets, "available", lambda name: False)
    assert notebook(text).differences(notebook()) == ["data brown: new"]
    assert notebook(text).parts["data brown"] == "absent"


def test_a_data_set_that_does_not_exist_is_named() -> None:
    text = NOTEBOOK.replace("---\njupytext", "---\nsumexp: {data: [blue]}\njupytext", 1)
    with pytest.raises(BookError, match=r"a\.md declares data: blue; there are brown"):
        notebook(text)


def test_declared_measurements_count_and_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "measurements", lambda: sorted(tmp_path.glob("*.json")))
    text = NOTEBOOK.replace("---\njupytext", "---\nsumexp: {measured: [speed]}\njupytext", 1)
    with pytest.raises(BookError, match=r"a\.md declares measured: speed; there are"):
        notebook(text)
    keys = []
    for content in ("1", "2", "1"):
        (tmp_path / "speed.json").write_text(content)
        keys.append(notebook(text).key)
    assert (keys[0] == keys[2], keys[0] == keys[1]) == (True, False)


def test_a_notebook_that_does_not_exist_is_named() -> None:
    write("notebooks/a.md", NOTEBOOK)
    with pytest.raises(BookError, match="no notebook 'b' in notebooks/; there are: a"):
        plan.notebook("b", {})


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["seed = 0", "seed = 1"], "2 cells are tagged 'parameters'; expected one"),
        (["seed = len('a')"], "a parameter is not a plain value such as 0 or 'cpu': seed"),
    ],
)
def test_a_cell_of_parameters_has_plain_values_and_stands_alone(cells: list[str], message: str) -> None:
    text = "".join(f"\n```{{code-cell}} ipython3\n:tags: [parameters]\n\n{cell}\n```\n" for cell in cells)
    with pytest.raises(BookError, match=message):
        plan.parse(write("a.md", NOTEBOOK.partition("\n```{code-cell}")[0] + "\n" + text))
