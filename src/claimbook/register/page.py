"""What pages show of the register, by ``templates/register.html``; ``book/_static/register.js`` adds the filters."""

import re
from collections.abc import Mapping
from dataclasses import astuple
from functools import partial
from html import escape
from itertools import accumulate, groupby
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from claimbook import project
from claimbook.register.errata import Erratum, heaviest
from claimbook.register.model import EVIDENCE
from claimbook.register.verdict import TRUTH_TABLE, VERDICTS, Register


def _formula(found: re.Match[str]) -> str:
    math = rf'<span class="math notranslate nohighlight">\({found[1]}\)</span>'
    # A browser may break the line between a formula and its comma.
    return f'<span class="keep">{math}{found[2]}</span>' if found[2] else math


def prose(text: str) -> Markup:
    r"""Turn ``$...$`` and backticks into HTML: formulas as Sphinx writes them, for MathJax to find."""
    html = re.sub(r"\$([^$]+)\$([,.;:)]*)", _formula, escape(text, quote=False))
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", html))


def shortened(text: str, length: int = 240) -> str:
    """The first words of a text, about ``length`` letters; a formula is kept whole or left out."""
    pieces = re.findall(r"[^\s$]*(?:\$[^$]*\$[^\s$]*)+|\S+", text)
    ends = accumulate(len(piece) + 1 for piece in pieces)
    kept = max(1, sum(end <= length + 1 for end in ends))
    return " ".join(pieces[:kept]) + (" …" if kept < len(pieces) else "")


def by_chapter(register: Register) -> dict[str, Register]:
    """The entries of each chapter that has any, in the order of the book; those of other chapters come last."""
    toc = Path("_toc.yml")
    order = re.findall(r"(?m)^ *- file: notebooks/(\S+)$", toc.read_text("utf-8")) if toc.exists() else []
    order += sorted({entry.chapter for entry in register}.difference(order))
    ordered = sorted(register, key=lambda entry: order.index(entry.chapter))
    return {chapter: tuple(entries) for chapter, entries in groupby(ordered, key=lambda entry: entry.chapter)}


_TEMPLATES = Environment(
    loader=PackageLoader(__package__), autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
)
_TEMPLATES.filters |= {"prose": prose, "shortened": shortened, "weight": heaviest, "by_chapter": by_chapter}
_TEMPLATES.globals["VERDICTS"] = VERDICTS
_MACROS = vars(_TEMPLATES.get_template("register.html").module)
symbols, marks, link, card, words, counts = (
    _MACROS[name] for name in ("symbols", "marks", "link", "card", "words", "counts")
)
truth = partial(words, "truth", ["the tests show", "verdict"], [row[:2] for row in TRUTH_TABLE])
kinds = partial(words, "evidence", ["evidence", "means"], list(EVIDENCE.items()))


def rules() -> str:
    """How training runs decide."""
    rows = [astuple(rule) for rule in project.module("intervals").RULES]
    return str(words("rules", ["asked of runs", "answered", "and wrong in at most"], rows))


def claims(register: Register, explained: Mapping[str, Erratum], repository: str = "") -> dict[str, str]:
    """For each chapter the entries of its claims, folded; ``explained`` are the errata by label."""
    users: dict[str, list[str]] = {}
    for entry in register:
        for other in entry.depends_on:
            users.setdefault(other, []).append(entry.id)
    shown = _MACROS["claims"]
    return {name: shown(entries, users, explained, repository) for name, entries in by_chapter(register).items()}


def glance(register: Register, explained: Mapping[str, Erratum], page: str) -> dict[str, str]:
    """For each chapter a table of its results: all entries but conventions without an erratum."""
    results = tuple(entry for entry in register if entry.verdict != "convention" or entry.erratum)
    shown = _MACROS["glance"]
    return {chapter: shown(entries, explained, page) for chapter, entries in by_chapter(results).items()}
