"""A table says the same as HTML and as text, with nothing of its cells taken for markup."""

import pytest
from bs4 import BeautifulSoup

from claimbook.authoring import tables


def test_a_table_has_each_cell_as_it_was_given_in_html_and_in_text(monkeypatch: pytest.MonkeyPatch) -> None:
    displayed: list[dict[str, str]] = []
    monkeypatch.setattr(tables, "display", lambda data, raw: displayed.append(data))
    tables.show(["scheme", "KL", "m"], [["a < b", "0.10", 8], ["<b>c</b>", "-1e-03 [-2, top-2]", ""]], caption="<i>")
    (shown,) = displayed
    page = BeautifulSoup(shown["text/html"], "html.parser")
    rows = [[cell.get_text(strip=True) for cell in row.select("th, td")] for row in page.select("tr")]
    assert rows == [["scheme", "KL", "m"], ["a < b", "0.10", "8"], ["<b>c</b>", "−1\xa0×\xa010⁻³ [−2, top-2]", ""]]
    assert [caption.get_text() for caption in page.select("table.result-table caption")] == ["<i>"]
    assert [cell.get("style") for cell in page.select("thead th")] == [None, *["text-align: right;"] * 2]
    assert [line.split() for line in shown["text/plain"].splitlines()] == [
        ["<i>"],
        ["scheme", "KL", "m"],
        ["a", "<", "b", "0.10", "8"],
        ["<b>c</b>", "−1", "×", "10⁻³", "[−2,", "top-2]"],
    ]


def test_a_corner_that_heads_nothing_is_no_header(monkeypatch: pytest.MonkeyPatch) -> None:
    displayed: list[dict[str, str]] = []
    monkeypatch.setattr(tables, "display", lambda data, raw: displayed.append(data))
    tables.show(["", "KL"], [["a", "0.10"]])
    head = BeautifulSoup(displayed[0]["text/html"], "html.parser").select("thead tr > *")
    assert [(cell.name, cell.get_text(strip=True)) for cell in head] == [("td", ""), ("th", "KL")]


def test_a_row_that_is_too_short_is_named() -> None:
    with pytest.raises(ValueError, match=r"the row \['a'\] has 1 cells and the head 2"):
        tables.show(["scheme", "KL"], [["a"]])
