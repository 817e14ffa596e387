"""Re-executed notebooks (profile smoke, no data set) give the committed outputs, figures' bytes and times excepted.

``pytest tests/book/test_reference_outputs.py --write-references`` writes the references anew.
"""

import copy
import difflib
import math
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import NotebookNode

from sumexp.companion.pipeline.inputs import chapters_of

ROOT = Path(__file__).parents[2]
REFERENCES = ROOT / "tests" / "reference"
CHAPTERS = chapters_of(ROOT / "_toc.yml")
DIGITS = 6
# Printed numbers below this are errors of rounding: theirs is a size, not digits that another machine would repeat.
NOISE = 1e-9
# A number with a decimal point or an exponent: integers are left as they are.
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.\d*(?:e[-+]?\d+)?|\d+e[-+]?\d+)(?![\w.])", re.IGNORECASE)


def reference_form(executed: NotebookNode) -> NotebookNode:
    """The outputs of every code cell, reduced to what is the same on every machine."""
    notebook = nbformat.v4.new_notebook()
    cells = [cell for cell in executed.cells if cell.cell_type == "code"]
    cells = [cell for cell in cells if "injected-parameters" not in cell.metadata.get("tags", [])]
    for number, cell in enumerate(cells):
        outputs = [reduced(output) for output in joined(cell.outputs) if output.get("name") != "stderr"]
        code = nbformat.v4.new_code_cell(id=f"cell-{number}", outputs=outputs)
        notebook.cells.append(code)
    return notebook


def joined(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Outputs with all that a cell prints as one, where it began: how it is cut is chance."""
    found: list[NotebookNode] = []
    streams: dict[str, NotebookNode] = {}
    for output in outputs:
        if output.output_type == "stream" and output.name in streams:
            streams[output.name].text += output.text
        else:
            found.append(copy.copy(output))
            if output.output_type == "stream":
                streams[output.name] = found[-1]
    return found


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


def lines(notebook: NotebookNode) -> list[str]:
    """What its cells show, without the values of results: those are compared by `moved`, each with its tolerance."""
    return [
        line
        for number, cell in enumerate(notebook.cells)
        for output in cell.outputs
        for line in (
            f"cell {number}, {output.get('name', 'displayed')}:",
            *(output.text if "text" in output else output.data["text/plain"]).split("\n"),
        )
    ]


def difference(before: NotebookNode, after: NotebookNode) -> str:
    return "\n".join(difflib.unified_diff(lines(before), lines(after), "reference", "executed", lineterm=""))


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_outputs_are_the_committed_ones(project: Path, chapter: str, request: pytest.FixtureRequest) -> None:
    after = reference_form(nbformat.read(project / "build" / "executed" / f"{chapter}.ipynb", as_version=4))
    reference = REFERENCES / f"{chapter}.ipynb"
    if request.config.getoption("write_references"):
        reference.parent.mkdir(exist_ok=True)
        nbformat.write(after, reference)
    assert reference.exists(), f"no {reference.relative_to(ROOT)}: write it with --write-references, and look at it"
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
