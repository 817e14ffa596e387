"""All results at a glance: every entry and every erratum once, what is stated cut where it reads."""

import re
from pathlib import Path
from typing import TypeAlias

import pytest

from claimbook import register
from claimbook.register import page as drawn

ROOT = Path(__file__).parents[3]
Tables: TypeAlias = tuple[register.Register, dict[str, drawn.Erratum], str]


@pytest.fixture(scope="module")
def tables() -> Tables:
    entries = register.decide(register.load(ROOT / "claims"), (), ROOT / "tests")
    explained: dict[str, drawn.Erratum] = {}
    for file in (ROOT / "book" / "errata").glob("*.md"):
        explained |= drawn.read_errata(file.read_text("utf-8"), f"errata/{file.stem}.html")
    return entries, explained, "".join(drawn.glance(entries, explained, "register.html").values())


def test_every_result_has_a_line(tables: Tables) -> None:
    entries, _, html = tables
    results = [entry.id for entry in entries if entry.verdict != "convention" or entry.erratum]
    assert sorted(re.findall(r'<th scope="row"><a href="register.html#claim-([^"]*)">', html)) == sorted(results)


def test_every_erratum_is_named_with_its_weight(tables: Tables) -> None:
    _, explained, html = tables
    named = set(re.findall(r'#(erratum-[a-z0-9]+)">[A-G][0-9]+</a> \((?:' + "|".join(drawn.WEIGHTS) + r")\)", html))
    assert named == {erratum.address.partition("#")[2] for erratum in explained.values()}


@pytest.mark.parametrize(
    "text, length, short",
    [
        ("It is so.", 40, "It is so."),
        ("It is so, and more.", 10, "It is so, …"),
        ("With $a + b = c$, it is.", 12, "With …"),
        ("With $a + b = c$, it is.", 17, "With $a + b = c$, …"),
        ("($x$-$y$) or not", 9, "($x$-$y$) …"),
        ("$a + b + c + d$ is long", 5, "$a + b + c + d$ …"),
    ],
)
def test_a_statement_is_cut_between_words_and_not_in_a_formula(text: str, length: int, short: str) -> None:
    assert drawn.shortened(text, length) == short
