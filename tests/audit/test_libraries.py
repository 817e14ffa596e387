"""The command lines that the page on libraries names are those of the audit."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from sumexp.audit import schemes
from sumexp.audit._command import _chosen, parser
from sumexp.audit._setup import read_setup

PAGE = (Path(__file__).parents[2] / "book" / "libraries.md").read_text("utf-8")


def lines() -> list[str]:
    """What stands in the last cell of a row."""
    return sorted(set(re.findall(r"\| `(--[^`]*)` \|$", PAGE, re.MULTILINE)))


@pytest.mark.parametrize("line", lines())
def test_a_line_of_the_page_is_parsed_and_set_up(line: str) -> None:
    options = parser().parse_args(["counts.csv", *shlex.split(line)])
    number = np.arange(2000, 0, -1)
    if options.scheme is not None:
        found = schemes._read(options.scheme, number, options.sampler, options.hits, options.m, options.batch)[1]
    else:
        way = _chosen(options, "sampler", "weights", "hits")
        found = read_setup(number / number.sum(), *way.values(), options.m, options.batch)
    assert found.negatives >= 1


def test_every_row_of_a_library_has_a_line_or_a_reason() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("|") and line.count("|") == 6]
    assert len(lines()) >= 6
    for row in rows:
        last = row.rsplit("|", 2)[1].strip()
        assert last == "---" or last.startswith(("`--", "`sumexp audit", "none: ")), row
