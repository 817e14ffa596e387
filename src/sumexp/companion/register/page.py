"""What the book's page of the register shows beside its prose, as HTML: tables to filter and graphs to walk.

The directives ``register-table`` and ``register-graph`` of ``book/_ext`` put it into ``book/register.md``. It reads
without JavaScript; ``book/_static/register.js`` adds the filters and the walking.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import groupby

from sumexp.companion.register.errata import Erratum, heaviest
from sumexp.companion.register.graph import draw, slug
from sumexp.companion.register.model import CHAPTERS, Claim, Test
from sumexp.companion.register.verdict import TRUTH_TABLE, VERDICTS, Entry, Register, Verdict

_EVIDENCE = (
    ("kernel", "a formal proof, for all parameters, checked by Coq"),
    ("proof", "symbolic, for all parameters"),
    ("exact", "rational or integer arithmetic, on stated finite sizes"),
    ("quadrature", "deterministic floating point with an error bound, or two independent methods that agree"),
    ("sampled", "Monte Carlo; the test states its false-alarm rate"),
    ("experiment", "training runs; the interval over seeds is compared with the published value where there is one"),
)

# Shape and colour both tell a verdict, so that neither is needed to read the other.
_MARKS: Mapping[Verdict, str] = {
    "holds": '<circle cx="10" cy="10" r="8"/>',
    "holds with correction": '<path d="M10 .8 19.2 10 10 19.2 .8 10z"/>',
    "refuted": '<path class="line" d="M3.5 3.5l13 13m0-13l-13 13"/>',
    "not reproduced": '<path d="M1 3h18L10 19z"/>',
    "failing": '<path d="M2 2h16v16H2z"/><path class="hole" d="M9 5h2v6H9zm0 8h2v2H9z"/>',
    "convention": '<path class="line" d="M4 4h12v12H4z"/>',
    "open": '<circle class="line" cx="10" cy="10" r="7"/>',
}


def _formula(found: re.Match[str]) -> str:
    math = rf'<span class="math notranslate nohighlight">\({found[1]}\)</span>'
    # A browser may break the line between a formula and its comma.
    return f'<span class="keep">{math}{found[2]}</span>' if found[2] else math


def prose(text: str) -> str:
    r"""Turn ``$...$`` and backticks into HTML: formulas as Sphinx writes them, for MathJax to find."""
    html = re.sub(r"\$([^$]+)\$([,.;:)]*)", _formula, escape(text, quote=False))
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html)


def _mark(verdict: Verdict) -> str:
    return (
        f'<svg class="register-mark mark-{slug(verdict)}" aria-hidden="true"><use href="#mark-{slug(verdict)}"/></svg>'
    )


def badge(verdict: Verdict) -> str:
    """A verdict with its mark, which `symbols` must have drawn."""
    return f'<span class="register-verdict">{_mark(verdict)} {verdict}</span>'


def symbols() -> str:
    """The marks of the verdicts, drawn once on a page and used everywhere."""
    shapes = "".join(
        f'<symbol id="mark-{slug(verdict)}" class="mark-{slug(verdict)}" viewBox="0 0 20 20">{shape}</symbol>'
        for verdict, shape in _MARKS.items()
    )
    return f'<svg width="0" height="0" style="position:absolute" aria-hidden="true">{shapes}</svg>'


def marks() -> str:
    """Style and script of the register's page alone, and the marks."""
    return (
        '<link rel="stylesheet" href="../_static/register.css">\n<script defer src="../_static/register.js"></script>\n'
        + symbols()
    )


def link(entry: Entry, page: str, *, named: bool) -> str:
    """A link to an entry of the register: its verdict's mark, with its id where that is part of a sentence.

    Args:
        entry: the entry.
        page: the address of the register's page.
        named: whether to write the id; it is spoken in any case.
    """
    claim = entry.claim.id
    spoken = "" if named else f' aria-label="claim {claim}: {entry.verdict}"'
    name = f"<code>{claim}</code>" if named else ""
    return (
        f'<a class="claim-link{" claim-named" if named else ""}" href="{page}#claim-{claim}"{spoken} '
        f'aria-describedby="card-{claim}">{_mark(entry.verdict)}{name}</a>'
    )


def card(entry: Entry, page: str) -> str:
    """What a reader sees who points at a link to an entry; ``claims.js`` shows it, and it describes the link."""
    claim = entry.claim
    evidence = f" ({entry.evidence})" if entry.evidence else ""
    return (
        f'<div class="claim-card" id="card-{claim.id}" hidden><p>{badge(entry.verdict)}{evidence}: '
        f"{claim.kind}, {prose(claim.where)}</p>\n{_statement(claim, entry.verdict)}\n"
        f'<p><a href="{page}#claim-{claim.id}">{claim.id} in the register</a></p></div>\n'
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], name: str) -> str:
    """A small HTML table whose first column heads its rows."""
    top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>\n'
        for first, *rest in rows
    )
    table = f'<table class="register-table {name}">\n<thead><tr>{top}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>'
    return f'<div class="register-scroll">{table}</div>'


def truth() -> str:
    """The table by which a verdict comes about."""
    rows = ((row.when, badge(row.verdict), row.says) for row in TRUTH_TABLE)
    return _table(("the tests show", "verdict", "and the entry"), rows, "register-truth")


def kinds() -> str:
    """What each kind of evidence means, the strongest first."""
    return _table(("evidence", "means"), _EVIDENCE, "register-evidence")


def by_chapter(register: Register) -> dict[str, Register]:
    """The entries of each chapter that has any, in the order of the book."""
    ordered = sorted(register, key=lambda entry: CHAPTERS.index(entry.claim.chapter))
    return {chapter: tuple(entries) for chapter, entries in groupby(ordered, key=lambda entry: entry.claim.chapter)}


def counts(register: Register) -> str:
    """How many entries of each chapter have each verdict."""

    def cell(chapter: str, verdict: Verdict, number: int) -> str:
        return (
            f'<a href="#claims-{chapter}" data-chapter="{chapter}" data-verdict="{verdict}">{number}</a>'
            if number
            else '<span class="none">–</span>'
        )

    def row(chapter: str, entries: Register) -> list[str]:
        numbers = [sum(entry.verdict == verdict for entry in entries) for verdict in VERDICTS]
        return [
            f'<a href="#claims-{chapter}">{chapter}</a>',
            *(cell(chapter, verdict, number) for verdict, number in zip(VERDICTS, numbers, strict=True)),
            str(len(entries)),
        ]

    total = ["all", *(str(sum(e.verdict == verdict for e in register)) for verdict in VERDICTS), str(len(register))]
    head = ["chapter", *map(badge, VERDICTS), "all"]
    return _table(head, [*(row(*item) for item in by_chapter(register).items()), total], "register-counts")


def _links(ids: Iterable[str]) -> str:
    return ", ".join(f'<a href="#claim-{claim}"><code>{claim}</code></a>' for claim in ids)


def _errata(labels: Iterable[str], explained: Mapping[str, Erratum]) -> str:
    """Errata by label with their weight, as links where a page explains them."""
    return ", ".join(
        f'<a href="{explained[label].page}#{explained[label].target}">{label}</a> ({explained[label].weight})'
        if label in explained
        else label
        for label in labels
    )


def _test(test: Test, sources: Mapping[str, str]) -> str:
    findings = "".join(
        f"; {finding.estimate:.3g}, interval {finding.low:.3g} to {finding.high:.3g}"
        + (f" on {finding.ran}" if finding.ran else "")
        for finding in test.findings
    )
    ended = "" if test.outcome == "passed" else f", {test.outcome}"
    name = f"<code>{escape(test.test)}</code>"
    file, _, function = test.test.partition("::")
    if file in sources:
        name = f'<a href="{sources[file]}#{escape(function.rpartition("::")[2])}">{name}</a>'
    return f"{name} ({test.shows}, {test.evidence}{escape(findings)}{ended})"


def _statement(claim: Claim, verdict: Verdict) -> str:
    shown = "Corrected" if verdict == "holds with correction" else "Proposed correction"
    ours = "<b>We state:</b> " if claim.is_ours else ""
    statement = f'<p class="paper-says">{ours}{prose(claim.statement)}</p>'
    if claim.corrected:
        statement += f'<p class="corrected"><b>{shown}:</b> {prose(claim.corrected)}</p>'
    return statement


def _entry(entry: Entry, users: Sequence[str], explained: Mapping[str, Erratum], sources: Mapping[str, str]) -> str:
    claim = entry.claim
    facts = {
        "Rests on": _links(claim.depends_on),
        "Used by": _links(users),
        "Erratum": _errata(claim.erratum, explained),
        "Tests": ", ".join(_test(test, sources) for test in entry.tests),
    }
    about = "".join(f"<span><b>{name}:</b> {value}</span> " for name, value in facts.items() if value)
    fields = {
        "paper": claim.paper,
        "chapter": claim.chapter,
        "verdict": entry.verdict,
        "evidence": entry.evidence or "none",
        "weight": heaviest([explained[label] for label in claim.erratum if label in explained]) or "no erratum",
        "kind": claim.kind,
    }
    data = " ".join(f'data-{name}="{value}"' for name, value in fields.items())
    return (
        f'<details class="register-claim" {data}>\n<summary><code>{claim.id}</code> '
        f"<span>{prose(claim.where)}</span> <span>{claim.kind}</span> "
        f"{badge(entry.verdict)}{f' <span>{entry.evidence}</span>' if entry.evidence else ''}</summary>\n"
        # The browser opens what holds the target of a link.
        f'<div id="claim-{claim.id}">{_statement(claim, entry.verdict)}\n'
        f"{_paragraph('note', claim.note)}{_paragraph('says', entry.says)}"
        f'<p class="about">{about}<a class="self" href="#claim-{claim.id}">link to this entry</a> '
        f'<a class="to-graph" href="#node-{claim.id}">in the graph</a></p></div>\n</details>\n'
    )


def _paragraph(name: str, text: str | None) -> str:
    return f'<p class="{name}">{prose(text)}</p>' if text else ""


def claims(register: Register, explained: Mapping[str, Erratum], sources: Mapping[str, str]) -> dict[str, str]:
    """For each chapter the entries of its claims, folded; a link to one, a search or the printer opens them.

    Args:
        register: the entries.
        explained: the errata that a page explains, by label such as ``B5``.
        sources: for each file of tests the page that shows it.
    """
    users: dict[str, list[str]] = {}
    for entry in register:
        for other in entry.claim.depends_on:
            users.setdefault(other, []).append(entry.claim.id)
    return {
        chapter: '<div class="register-claims">\n'
        + "".join(_entry(entry, users.get(entry.claim.id, ()), explained, sources) for entry in entries)
        + "</div>"
        for chapter, entries in by_chapter(register).items()
    }


def graphs(register: Register) -> str:
    """What rests on what, a graph for each chapter; the first is open."""
    by_id = {entry.claim.id: entry for entry in register}
    return "\n".join(
        f'<details class="register-chapter"{" open" if not number else ""}>'
        f"<summary>{chapter}: {len(entries)} claim{'s' * (len(entries) > 1)}</summary>\n"
        f'<div class="register-scroll">{draw(chapter, entries, by_id)}</div>\n</details>'
        for number, (chapter, entries) in enumerate(by_chapter(register).items())
    )


def glance(register: Register, explained: Mapping[str, Erratum], page: str) -> dict[str, str]:
    """For each chapter a table of its results: the verdict, what is stated, shortened, what hangs on a correction.

    Args:
        register: the entries; conventions are left out but for those with an erratum: there is nothing to decide.
        explained: the errata that a page explains, by label.
        page: the address of the register's page.
    """
    results = tuple(entry for entry in register if entry.verdict != "convention" or entry.claim.erratum)
    head = ("entry", "verdict", "what it says", "erratum")
    return {
        chapter: _table(head, (_line(entry, explained, page) for entry in entries), "register-glance")
        for chapter, entries in by_chapter(results).items()
    }


def _line(entry: Entry, explained: Mapping[str, Erratum], page: str) -> tuple[str, ...]:
    claim = entry.claim
    name = f'<a href="{page}#claim-{claim.id}"><code>{claim.id}</code></a>'
    return name, badge(entry.verdict), prose(shortened(claim.statement)), _errata(claim.erratum, explained)


def shortened(text: str, length: int = 240) -> str:
    """The first words of a text, about ``length`` letters; a formula is kept whole or left out."""
    pieces = re.findall(r"[^\s$]*(?:\$[^$]*\$[^\s$]*)+|\S+", text)
    kept = 0
    while kept < len(pieces) and len(" ".join(pieces[: kept + 1])) <= length:
        kept += 1
    kept = max(kept, 1)
    return " ".join(pieces[:kept]) + (" …" if kept < len(pieces) else "")
