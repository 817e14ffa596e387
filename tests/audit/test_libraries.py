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
    number = np.arange(2001, 0, -1)  # inclusion is an integral of each up to 2,000
    if options.scheme is not None:
        setup = schemes._read(options.scheme, number, options.sampler, options.hits, options.m, options.batch)[1]
    else:
        way = _chosen(options, "sampler", "weights", "hits")
        setup = read_setup(number / number.sum(), *way.values(), options.m, options.batch)
    assert setup.negatives >= 1


def test_every_library_has_a_verdict_in_the_index_and_at_each_option() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("|") and line.count("|") == 6 and "---" not in line]
    options = [row for row in rows if "as probabilities" not in row]
    assert len(lines()) >= 6
    for row in options:
        _, _, verdict, *_, last, _ = row.split("|")
        assert re.fullmatch(r"\[(right|near|wrong|error)\]\{\.(right|near|wrong)\}", verdict.strip()), row
        assert not last.strip() or last.strip().startswith("`--"), row
    indexed = re.findall(r"^\| \{ref\}`[^<]*<([^>]*)>` \| \[(?:right|near|wrong)\]", PAGE, re.MULTILINE)
    assert indexed == re.findall(r"^\((library-[^)]*)\)=$", PAGE, re.MULTILINE)
    assert len(options) > 2 * len(indexed) > 20
