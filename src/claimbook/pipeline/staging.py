"""The book as Sphinx reads it: pages as they are, notebooks with their outputs."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import copy2, copytree, ignore_patterns, rmtree
from typing import Any

from claimbook import BookError
from claimbook.pipeline.notebooks import EXECUTED, INJECTED
from claimbook.pipeline.outputs import noted, staged
from claimbook.pipeline.plan import NOTEBOOKS, source_path
from claimbook.store import Entry
from claimbook.store.entries import write_text

DATA = Path("book/_data")
"""Where the staged book has what its directives read."""
FIGURES, WRITTEN = "figures", "written"
"""Where in there the data of figures are, and the chapters as they are written."""
_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python", "pygments_lexer": "ipython3"},
}
# Numbers and figures of a run, for which a chapter that is not executed has dots.
_OF_RUN = re.compile(r"\{glue(?::\w+)?\}`[^`]*`|\{(?:ref|numref)\}`(?:[^`<]*<)?fig-[^`]*`")


def stage(target: Path, shown: Mapping[str, Entry | None]) -> None:
    """Lay out the book's sources: settings, pages, and a notebook with outputs for each chapter.

    What readers may take away and Sphinx need not read is next to them: chapters as written, the data of figures.
    ``shown`` has the execution of each chapter, if there is one.
    """
    rmtree(target, ignore_errors=True)
    copytree("book", target / "book", ignore=ignore_patterns("__pycache__"))
    for settings in ("_config.yml", "_toc.yml"):
        copy2(settings, target)
    for name, entry in shown.items():
        page = chapter(name, entry)
        for output in _outputs_of(page["cells"]):
            if data := output.get("data", {}).pop("text/csv", None):
                write_text(target / DATA / FIGURES / f"{noted(output)['figure']}.csv", "".join(data))
        write_text(target / NOTEBOOKS / f"{name}.ipynb", json.dumps(page, indent=1, ensure_ascii=False) + "\n")
        write_text(target / DATA / WRITTEN / f"{name}.md", source_path(name).read_text("utf-8"))


def chapter(name: str, entry: Entry | None) -> dict[str, Any]:
    """A chapter as a notebook: text, tags and code from its source, outputs from its execution, if there is one.

    The same content gives the same bytes.
    """
    import jupytext

    cells = jupytext.read(source_path(name))["cells"]
    if entry is not None:
        executed = json.loads((entry.path / EXECUTED).read_text("utf-8"))["cells"]
        ran = [cell for cell in executed if cell["cell_type"] == "code" and not _tagged(cell, INJECTED)]
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        for cell, done in zip(code, ran, strict=True):  # the same code, as their keys are the same
            cell["outputs"] = [staged(output) for output in done["outputs"]]
        _check_guards(name, cells)
    else:
        for cell in cells:
            if cell["cell_type"] == "markdown":
                cell["source"] = _OF_RUN.sub("…", cell["source"])
        note = f"```{{warning}}\nThis chapter is not executed yet; `make book ONLY={name}` does it.\n```"
        cells[0]["source"] = re.sub(r"(?m)^(# .*)$", rf"\1\n\n{note}\n", cells[0]["source"], count=1)
    cells = [{**_clean(dict(cell), entry), "id": f"cell-{number}"} for number, cell in enumerate(cells)]
    return {"cells": cells, "metadata": _METADATA, "nbformat": 4, "nbformat_minor": 5}


def _outputs_of(cells: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [output for cell in cells for output in cell.get("outputs", ())]


def _check_guards(name: str, cells: Sequence[Mapping[str, Any]]) -> None:
    """Check that the chapter has the words that its code has tied to a condition."""
    outputs = _outputs_of(cells)
    marks = [noted(output) for output in outputs]
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    texts += [mark[part] for mark in marks if "figure" in mark for part in ("caption", "alt")]
    texts += ["".join(output.get("data", {}).get("text/html", ())) for output in outputs]
    shown = " ".join(" ".join(texts).split())
    for guard in (mark["guard"] for mark in marks if "guard" in mark):
        if " ".join(guard.split()) not in shown:
            raise BookError(
                f"{source_path(name)} guards {guard!r}, which it does not say: change the text or the guard"
            )


def _clean(cell: dict[str, Any], execution: Entry | None) -> dict[str, Any]:
    cell["metadata"] = {k: v for k, v in cell["metadata"].items() if k not in ("papermill", "execution")}
    if cell["cell_type"] == "code":
        if _keeps_books(cell):
            cell["metadata"]["tags"] = [*dict.fromkeys((*cell["metadata"].get("tags", ()), "hide-input"))]
        cell |= {"outputs": _outputs(cell["outputs"], execution), "execution_count": None}
    return cell


def _keeps_books(cell: Mapping[str, Any]) -> bool:
    """Whether a cell shows nothing and only notes what the prose says, or sets parameters: its code is folded."""
    seen = (output for output in cell["outputs"] if output.get("name") != "stderr")  # such as how far a training is
    kept = [noted(output).keys() & {"result", "sentence", "guard"} for output in seen]
    return _tagged(cell, "parameters") or (bool(kept) and all(kept))


def _outputs(outputs: Sequence[Mapping[str, Any]], execution: Entry | None) -> list[dict[str, Any]]:
    """What a page shows of a cell; printed text is joined, since it arrives in pieces that differ each time."""
    shown: list[dict[str, Any]] = []
    for output in outputs:
        mark = noted(output)
        if output.get("name") == "stderr" or "guard" in mark:
            continue
        if output["output_type"] == "stream" and shown and shown[-1]["output_type"] == "stream":
            shown[-1] = {**shown[-1], "text": shown[-1]["text"] + output["text"]}
        elif execution is not None and "figure" in mark:
            shown.append({**output, "metadata": {"sumexp": {**mark, "provenance": provenance(execution)}}})
        else:
            shown.append(dict(output))
    return shown


def provenance(entry: Entry) -> str:
    """The line under a figure: what it was made from, nothing of when and how long."""
    values: Mapping[str, object] = entry.provenance.more["parameters"]
    parts = (f"{name} {'none' if value == '' else value}" for name, value in values.items())
    return " · ".join((f"key {entry.computation.key[:12]}", *parts))


def _tagged(cell: Mapping[str, Any], tag: str) -> bool:
    return tag in cell["metadata"].get("tags", ())
