"""Re-executed notebooks (profile smoke, no data set) give the committed outputs, figures' bytes and times excepted.

``pytest tests/book/test_reference_outputs.py --nb-force-regen`` writes the references anew.
"""

import copy
import math
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import NotebookNode
from pytest_notebook.diffing import diff_notebooks, diff_to_string, filter_diff
from pytest_notebook.post_processors import coalesce_streams

from sumexp.companion.build.sources import chapters_of

ROOT = Path(__file__).parents[2]
REFERENCES = ROOT / "tests" / "reference"
CHAPTERS = chapters_of(ROOT / "_toc.yml")
DIGITS = 6
# Printed numbers below this are errors of rounding: theirs is a size, not digits that another machine would repeat.
NOISE = 1e-9
# Values are compared by `moved`, each with its tolerance.
IGNORED = ["/cells/*/outputs/*/metadata"]
# A number with a decimal point or an exponent: integers are left as they are.
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.\d*(?:e[-+]?\d+)?|\d+e[-+]?\d+)(?![\w.])", re.IGNORECASE)


def reference_form(executed: NotebookNode) -> NotebookNode:
    """The outputs of every code cell, reduced to what is the same on every machine."""
    notebook = nbformat.v4.new_notebook()
    executed, _ = coalesce_streams(executed, {})  # how a cell's prints are cut into outputs is chance
    cells = [cell for cell in executed.cells if cell.cell_type == "code"]
    cells = [cell for cell in cells if "injected-parameters" not in cell.metadata.get("tags", [])]
    for number, cell in enumerate(cells):
        outputs = [reduced(output) for output in cell.outputs if output.get("name") != "stderr"]
        code = nbformat.v4.new_code_cell(id=f"cell-{number}", outputs=outputs)
        notebook.cells.append(code)
    return notebook


def reduced(output: NotebookNode) -> NotebookNode:
    mark = output.get("metadata", {}).get("sumexp", {})
    if output.output_type == "stream":
        return nbformat.v4.new_output("stream", name=output.name, text=rounded(output.text))
    if "result" in mark:
        text = f"result {mark['result']}"
    elif "figure" in mark:
        text = f"figure {mark['figure']}: {mark['alt']}"
    else:
        text = rounded(output.data.get("text/plain", "".join(sorted(output.data))))
    return nbformat.v4.new_output("display_data", {"text/plain": text}, metadata={"sumexp": mark} if mark else {})


def rounded(text: str) -> str:
    """The text with every decimal number at six significant digits, and what is left of rounding as just that."""
    text = NUMBER.sub(
        lambda number: "noise" if abs(float(number[0])) < NOISE else f"{float(number[0]):.{DIGITS}g}", text
    )
    return re.sub(" +noise", " noise", text)  # whether it had a sign is chance, too


def results(notebook: NotebookNode) -> dict[str, dict[str, Any]]:
    marks = [output.get("metadata", {}).get("sumexp", {}) for cell in notebook.cells for output in cell.outputs]
    return {mark["result"]: mark for mark in marks if "result" in mark}


def moved(before: NotebookNode, after: NotebookNode) -> list[str]:
    """The results that are further from the reference than they may be: six digits, or the tolerance recorded."""
    old, new = results(before), results(after)
    faults = [f"{name}: only in one of the two" for name in sorted(old.keys() ^ new.keys())]
    for name in sorted(old.keys() & new.keys()):
        was, found, rtol = old[name]["value"], new[name]["value"], max(new[name]["rtol"], 0.5 * 10 ** (1 - DIGITS))
        if not math.isclose(was, found, rel_tol=rtol):
            faults.append(f"{name}: {found!r}, the reference has {was!r}, relative tolerance {rtol:.1g}")
    return faults


def difference(before: NotebookNode, after: NotebookNode) -> str:
    found = filter_diff(diff_notebooks(before, after), IGNORED)
    return str(diff_to_string(before, found, use_color=False)) if found else ""


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_outputs_are_the_committed_ones(project: Path, chapter: str, request: pytest.FixtureRequest) -> None:
    after = reference_form(nbformat.read(project / "build" / "executed" / f"{chapter}.ipynb", as_version=4))
    reference = REFERENCES / f"{chapter}.ipynb"
    if request.config.getoption("nb_force_regen", default=False):
        reference.parent.mkdir(exist_ok=True)
        nbformat.write(after, reference)
    assert reference.exists(), f"no {reference.relative_to(ROOT)}: write it with --nb-force-regen, and look at it"
    before = nbformat.read(reference, as_version=4)
    assert difference(before, after) == ""
    assert moved(before, after) == []


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_no_picture_appears_twice_and_no_object_is_echoed(project: Path, chapter: str) -> None:
    """`figures.show` shows figures, as SVG in HTML; matplotlib would add a picture under each cell that draws."""
    executed = nbformat.read(project / "build" / "executed" / f"{chapter}.ipynb", as_version=4)
    shown = [output.get("data", {}) for cell in executed.cells for output in cell.get("outputs", ())]
    assert [kind for data in shown for kind in data if kind.startswith("image/")] == []
    assert [text for data in shown if " at 0x" in (text := "".join(data.get("text/plain", "")))] == []


def example(value: float = 0.5, rtol: float = 0.0, text: str = "1.2345678") -> NotebookNode:
    notebook = nbformat.v4.new_notebook()
    mark = {"sumexp": {"result": "share", "value": value, "rtol": rtol}}
    outputs = [
        nbformat.v4.new_output("stream", name="stdout", text=text),
        nbformat.v4.new_output("display_data", {"text/plain": f"{value}"}, metadata=mark),
    ]
    notebook.cells.append(nbformat.v4.new_code_cell("share", outputs=outputs))
    return reference_form(notebook)


def test_how_prints_are_cut_does_not_matter() -> None:
    whole, cut = (
        nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(outputs=[nbformat.v4.new_output("stream", text=text) for text in texts])]
        )
        for texts in (["1\n2\n"], ["1\n", "2\n"])
    )
    assert difference(reference_form(whole), reference_form(cut)) == ""


def test_a_changed_text_or_number_would_be_found() -> None:
    same = example()
    assert difference(same, copy.deepcopy(same)) == ""
    assert "1.23468" in difference(same, example(text="1.2346789"))
    assert difference(same, example(text="1.2345679")) == ""
    assert difference(example(text="by 3e-13"), example(text="by 2e-13")) == ""
    assert difference(example(text="by  3e-13"), example(text="by -3e-13")) == ""
    assert difference(example(text="by 3e-13"), example(text="by 2e-03")) != ""
    assert "words" in difference(same, example(text="1.2345678 words"))
    assert moved(same, example(value=0.5 * (1 + 1e-7))) == []
    (fault,) = moved(same, example(value=0.5 * (1 + 1e-5)))
    assert fault.startswith("share: ")
    assert moved(same, example(value=0.5 * (1 + 1e-5), rtol=1e-4)) == []
    assert moved(same, nbformat.v4.new_notebook()) == ["share: only in one of the two"]
