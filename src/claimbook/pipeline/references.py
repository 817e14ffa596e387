"""Post-processors of pytest-notebook: what of an executed notebook is the same on every machine.

They are entry points of the package, by the names that the tests of notebooks list.
"""

import json
import math
import re
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from claimbook.pipeline.outputs import noted

Processed = tuple[NotebookNode, dict[str, Any]]

_DIGITS = 6
_LEAST_RTOL = 0.5 * 10 ** (1 - _DIGITS)
# Printed numbers below this are errors of rounding: theirs is a size, not digits that another machine would repeat.
_NOISE = 1e-9
# A number with a decimal point or an exponent: integers are left as they are.
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.\d*(?:e[-+]?\d+)?|\d+e[-+]?\d+)(?![\w.])", re.IGNORECASE)
_RESULT = re.compile(r"result ([a-z0-9-]+): (\S+)")


def executed(reference: NotebookNode, resources: dict[str, Any]) -> Processed:
    """Put what papermill has executed, the file ``resources["executed"]``, in the place of its reference."""
    texts = [output.data["text/plain"] for cell in reference.cells for output in cell.outputs if "data" in output]
    values = {match[1]: match[2] for match in map(_RESULT.fullmatch, texts) if match}
    return nbformat.read(resources["executed"], as_version=4), {**resources, "values": values}


def shown(notebook: NotebookNode, resources: dict[str, Any]) -> Processed:
    """Reduce a notebook to the outputs of its code, and these to texts; cells without output are left out.

    Of a figure its alternative text is left, of printed decimals six digits. A result within its tolerance of
    ``resources["values"]`` has the value that it has there. Sentences that a run chooses are as free as its numbers.
    """
    outputs = [cell for cell in _outputs(notebook, resources.get("values", {})) if cell]
    return _notebook(outputs), resources


def printed(notebook: NotebookNode, resources: dict[str, Any]) -> Processed:
    """Reduce a notebook to what its code prints: the rest has another form in the notebooks that readers take away."""
    outputs = [[output for output in cell if output.output_type == "stream"] for cell in _outputs(notebook, {})]
    return _notebook(outputs), resources


def write(notebook: NotebookNode, path: Path) -> None:
    """Write a notebook with a cell per line."""
    content = json.loads(nbformat.writes(notebook))
    cells = ",\n".join(json.dumps(cell, ensure_ascii=False) for cell in content.pop("cells"))
    path.write_text(f'{{"cells": [\n{cells}\n],\n{json.dumps(content)[1:]}\n', "utf-8")


def _outputs(notebook: NotebookNode, values: dict[str, str]) -> list[list[Any]]:
    """The outputs of each code cell of the source, as texts."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    cells = [cell for cell in cells if "injected-parameters" not in cell.metadata.get("tags", [])]
    return [[_text(output, values) for output in cell.outputs if output.get("name") != "stderr"] for cell in cells]


def _notebook(outputs: list[list[Any]]) -> Any:
    cells = [nbformat.v4.new_code_cell(id=f"cell-{n}", outputs=cell) for n, cell in enumerate(outputs)]
    return nbformat.v4.new_notebook(cells=cells)


def _text(output: NotebookNode, values: dict[str, str]) -> Any:
    mark = noted(output)
    if output.output_type == "stream":
        return nbformat.v4.new_output("stream", name=output.name, text=_rounded(output.text))
    if "result" in mark:
        known = values.get(mark["result"], "nan")
        same = math.isclose(mark["value"], float(known), rel_tol=max(mark["rtol"], _LEAST_RTOL))
        text = f"result {mark['result']}: {known if same else mark['value']}"
    elif "figure" in mark:
        text = f"figure {mark['figure']}: {mark['alt']}"
    else:
        data = output.get("data", {})  # none where a cell ended in an error, which pytest-notebook reports
        text = _rounded(data.get("text/plain", "".join(sorted(data))))
    return nbformat.v4.new_output("display_data", {"text/plain": text})


def _rounded(text: str) -> str:
    """The text with every decimal number at six significant digits, and what is left of rounding as just that."""
    text = _NUMBER.sub(
        lambda number: "noise" if abs(float(number[0])) < _NOISE else f"{float(number[0]):.{_DIGITS}g}", text
    )
    return re.sub(" +noise", " noise", text)  # whether it had a sign is chance, too
