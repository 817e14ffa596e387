"""Results of a chapter as a table: HTML on the page, text where HTML is not shown."""

import re
from collections.abc import Iterable, Sequence
from html import escape

from IPython.display import display
from tabulate import tabulate

from claimbook.authoring.results import typeset


def show(head: Sequence[str], rows: Iterable[Sequence[object]], left: int = 1, caption: str = "") -> None:
    """Show rows under a head, with numbers as formatted texts: ``-1e-03`` is shown as ``−1 × 10⁻³``.

    Of the columns ``left`` are words; all others are aligned at the right, as numbers are. The caption stands above the
    table. A row with more or fewer cells than the head raises `ValueError`.
    """
    cells = [[typeset(str(cell)).replace(" × 10", "\xa0×\xa010") for cell in row] for row in rows]  # unbroken
    if wrong := [row for row in cells if len(row) != len(head)]:
        raise ValueError(f"the row {wrong[0]} has {len(wrong[0])} cells and the head {len(head)}: make them equal")
    sides = ("left",) * left + ("right",) * (len(head) - left)
    html, text = (
        tabulate(cells, list(head), tablefmt=form, disable_numparse=True, colalign=sides) for form in ("html", "plain")
    )
    html = re.sub(r"<th\b([^>]*)>\s*</th>", r"<td\1></td>", html)  # a corner that heads nothing is no header
    above = f"<caption>{escape(caption)}</caption>" if caption else ""
    html = html.replace("<table>", f'<table class="result-table">{above}', 1)
    data = {"text/html": html, "text/plain": f"{caption}\n{text}" if caption else text}
    display(data, raw=True)  # type: ignore[no-untyped-call]
