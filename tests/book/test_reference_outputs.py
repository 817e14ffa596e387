"""Executed notebooks (profile smoke, no data set) give the committed outputs, figures' bytes and times excepted.

Papermill has executed them for the book, pytest-notebook compares. ``--nb-force-regen`` writes what differs anew.
"""

import re
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from pytest_notebook.nb_regression import NBRegressionError, NBRegressionFixture

from claimbook.pipeline import references
from claimbook.pipeline.plan import chapters_of

ROOT = Path(__file__).parents[2]
REFERENCES = ROOT / "tests" / "reference"
CHAPTERS = chapters_of(ROOT / "_toc.yml")


@pytest.fixture
def check(nb_regression: NBRegressionFixture) -> Callable[[Path, Path], None]:
    """Hold an executed notebook against its reference."""
    nb_regression.exec_notebook = False
    nb_regression.post_processors = ("claimbook_executed", "coalesce_streams", "claimbook_shown")

    def check(reference: Path, executed: Path) -> None:
        if nb_regression.force_regen and not reference.exists():
            nbformat.write(nbformat.v4.new_notebook(), reference)
        nb_regression.process_resources = {"executed": str(executed)}
        try:
            nb_regression.check(str(reference))
        except NBRegressionError:
            if nb_regression.force_regen:
                references.write(nbformat.read(reference, as_version=4), reference)
            raise

    return check


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_outputs_are_the_committed_ones(executed_book: Path, check: Callable[[Path, Path], None], chapter: str) -> None:
    check(REFERENCES / f"{chapter}.ipynb", executed_book / "build" / "executed" / f"{chapter}.ipynb")


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_no_picture_appears_twice_and_no_value_is_echoed(executed_book: Path, chapter: str) -> None:
    """`figures.show` shows figures; matplotlib would add a picture under each cell that draws."""
    executed = nbformat.read(executed_book / "build" / "executed" / f"{chapter}.ipynb", as_version=4)
    outputs = [output for cell in executed.cells for output in cell.get("outputs", ())]
    others = [output for output in outputs if "figure" not in output.get("metadata", {}).get("sumexp", {})]
    assert [kind for output in others for kind in output.get("data", {}) if kind.startswith("image/")] == []
    assert [output for output in outputs if output["output_type"] == "execute_result"] == []  # a cell's last value


QUOTE = re.compile(r"\{(result|quoted-figure)\}(?:`([a-z]+)/| ([a-z]+) )([a-z0-9-]+)")


def test_what_pages_quote_is_in_their_chapters(executed_book: Path) -> None:
    missing, seen = [], 0
    for page in sorted((executed_book / "book").rglob("*.md")):
        for quote in QUOTE.finditer(page.read_text("utf-8")):
            chapter, name = quote[2] or quote[3], quote[4]
            executed = nbformat.read(executed_book / "build" / "executed" / f"{chapter}.ipynb", as_version=4)
            outputs = [output for cell in executed.cells for output in cell.get("outputs", ())]
            marks = [output.get("metadata", {}).get("sumexp", {}) for output in outputs]
            kinds = ("result", "sentence") if quote[1] == "result" else ("figure",)
            seen += 1
            missing += [f"{page.name}: {chapter}/{name}"] * all(mark.get(k) != name for mark in marks for k in kinds)
    assert missing == []
    assert seen > 0


def example(*prints: str, value: float | None = None, rtol: float = 0.0) -> NotebookNode:
    outputs = [nbformat.v4.new_output("stream", text=text) for text in prints]
    if value is not None:
        mark = {"sumexp": {"result": "share", "value": value, "rtol": rtol}}
        outputs.append(nbformat.v4.new_output("display_data", {}, metadata=mark))
    first = [nbformat.v4.new_output("stream", text="first")]
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(outputs=shows) for shows in (first, [], outputs)])


@pytest.fixture
def change(
    check: Callable[[Path, Path], None], nb_regression: NBRegressionFixture, tmp_path: Path
) -> Callable[[NotebookNode, NotebookNode], None]:
    """Check what one execution shows against a reference that another has written."""

    def change(before: NotebookNode, after: NotebookNode) -> None:
        reference, executed = tmp_path / "reference.ipynb", tmp_path / "executed.ipynb"
        nbformat.write(before, executed)
        nb_regression.force_regen = True
        with pytest.raises(NBRegressionError, match="regenerating"):
            check(reference, executed)
        shown = [cell for cell in before.cells if cell.outputs]
        assert len(reference.read_text("utf-8").splitlines()) == len(shown) + 3  # what stands around the cells
        nb_regression.force_regen = False
        nbformat.write(after, executed)
        check(reference, executed)

    return change


@pytest.mark.parametrize(
    "before, after",
    [
        (example("1.2345678"), example("1.2345679")),
        (example("by 3e-13"), example("by 2e-13")),
        (example("by  3e-13"), example("by -3e-13")),
        (example("1\n2\n"), example("1\n", "2\n")),
        (example(value=0.5), example(value=0.5 * (1 + 1e-7))),
        (example(value=0.5), example(value=0.5 * (1 + 1e-5), rtol=1e-4)),
    ],
)
def test_what_another_machine_may_change_is_no_difference(
    change: Callable[[NotebookNode, NotebookNode], None], before: NotebookNode, after: NotebookNode
) -> None:
    change(before, after)


@pytest.mark.parametrize(
    "before, after, shows",
    [
        (example("1.2345678"), example("1.2346789"), r"-  1\.23457\n\+  1\.23468"),
        (example("by 3e-13"), example("by 2e-03"), r"\+  by 0\.002"),
        (example("1.2"), example("1.2 words"), r"\+  1\.2 words"),
        (example("12"), example("13"), r"-  12\n\+  13"),
        (example(value=0.5), example(value=0.500005), r"-  result share: 0\.5\n\+  result share: 0\.500005"),
        (example(value=0.5), example(value=0.51, rtol=1e-2), r"\+  result share: 0\.51"),
        (example(value=0.5), example(), "deleted /cells/1"),
        (example(), example(value=0.5), "inserted .*/cells/1"),
    ],
)
def test_a_changed_text_or_number_is_shown(
    change: Callable[[NotebookNode, NotebookNode], None], before: NotebookNode, after: NotebookNode, shows: str
) -> None:
    with pytest.raises(NBRegressionError, match=shows):
        change(before, after)
