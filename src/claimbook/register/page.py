"""What pages show of the register and of errata, by ``templates/register.html``; `register.js` adds the filters."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from functools import partial
from html import escape
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from claimbook import project
from claimbook.register.model import EVIDENCE
from claimbook.register.verdict import TRUTH_TABLE, VERDICTS, Register

WEIGHTS = ("fault that changes a result", "gap that can be filled", "misprint", "lost in our text", "remark")
"""The weights of errata, the greatest first; the page of errata defines them. The last two are no fault of the paper:
its copy lacks something, or nothing that is printed is wrong."""
_ERRATUM = re.compile(r"(?m)^\(erratum-([a-z]\d+)\)=\n(?:## (?:[A-Z]\d+\. )?(.*)\n\n\*\*Weight:\*\* (.*)\.\n)?")


@dataclass(frozen=True)
class Erratum:
    """Label, such as ``B5``, heading in Markdown, one of `WEIGHTS`, and the address of its explanation."""

    label: str
    title: str
    weight: str
    address: str


def read_errata(text: str, page: str) -> dict[str, Erratum]:
    """The errata of a page in Markdown, by label; raises `ValueError` if one has no weight of `WEIGHTS`."""
    listed = _ERRATUM.findall(text)
    errata = {n.upper(): Erratum(n.upper(), title, weight, f"{page}#erratum-{n}") for n, title, weight in listed}
    if wrong := [erratum for erratum in errata.values() if erratum.weight not in WEIGHTS]:
        raise ValueError(
            f"the weight of erratum {wrong[0].label} is {wrong[0].weight!r}; expected a heading, and a line "
            f"'**Weight:** ... .' with one of {', '.join(WEIGHTS)}"
        )
    return errata


def heaviest(labels: Iterable[str], explained: Mapping[str, Erratum]) -> str:
    """The greatest weight of those errata that a page explains; empty if it explains none."""
    return min((explained[label].weight for label in labels if label in explained), key=WEIGHTS.index, default="")


def prose(text: str) -> Markup:
    r"""Turn ``$...$`` and backticks into HTML: formulas as Sphinx writes them, for MathJax to find."""
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))
    return Markup(re.sub(r"\$([^$]+)\$", r'<span class="math notranslate nohighlight">\(\1\)</span>', text))


def shortened(text: str, length: int = 240) -> str:
    """The first words of a text, about ``length`` letters; a formula is kept whole or left out."""
    pieces = re.findall(r"[^\s$]*(?:\$[^$]*\$[^\s$]*)+|\S+", text)
    ends = accumulate(len(piece) + 1 for piece in pieces)
    kept = max(1, sum(end <= length + 1 for end in ends))
    return " ".join(pieces[:kept]) + (" …" if kept < len(pieces) else "")


def by_chapter(register: Register) -> dict[str, Register]:
    """The entries of each chapter that has any, in the order of the book; those of other chapters come last."""
    order = re.findall(r"(?m)^ *- file: notebooks/(\S+)$", Path("_toc.yml").read_text("utf-8"))
    order += sorted({entry.chapter for entry in register}.difference(order))
    ordered = sorted(register, key=lambda entry: order.index(entry.chapter))
    return {chapter: tuple(entries) for chapter, entries in groupby(ordered, key=lambda entry: entry.chapter)}


_TEMPLATES = Environment(
    loader=PackageLoader(__package__), autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
)
_TEMPLATES.filters |= {"prose": prose, "shortened": shortened, "weight": heaviest, "by_chapter": by_chapter}
_TEMPLATES.globals["VERDICTS"] = VERDICTS
macros: Any = _TEMPLATES.get_template("register.html").module
marks, counts = macros.marks, macros.counts
truth = partial(macros.words, "truth", ["the tests show", "verdict"], [row[:2] for row in TRUTH_TABLE])
kinds = partial(macros.words, "evidence", ["evidence", "means"], list(EVIDENCE.items()))


def rules() -> str:
    """How training runs decide."""
    rows = [astuple(rule) for rule in project.module("intervals").RULES]
    return str(macros.words("rules", ["asked of runs", "answered", "and wrong in at most"], rows))


def claims(register: Register, explained: Mapping[str, Erratum], repository: str = "") -> dict[str, str]:
    """For each chapter the entries of its claims, folded; ``explained`` are the errata by label."""
    users = {entry.id: [user.id for user in register if entry.id in user.depends_on] for entry in register}
    chapters = by_chapter(register).items()
    return {chapter: macros.claims(entries, users, explained, repository) for chapter, entries in chapters}


def glance(register: Register, explained: Mapping[str, Erratum], page: str) -> dict[str, str]:
    """For each chapter a table of its results: all entries but conventions without an erratum."""
    results = tuple(entry for entry in register if entry.verdict != "convention" or entry.erratum)
    return {chapter: macros.glance(entries, explained, page) for chapter, entries in by_chapter(results).items()}
