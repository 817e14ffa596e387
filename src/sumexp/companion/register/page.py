"""The page of the register in the book: MyST with HTML where a table must filter and a graph be walked.

It reads without JavaScript; ``book/_static/register.js`` adds the filters and the walking.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import groupby
from pathlib import Path

from sumexp.companion.register.graph import draw, slug
from sumexp.companion.register.model import CHAPTERS, Test
from sumexp.companion.register.verdict import TRUTH_TABLE, VERDICTS, Entry, Register, Verdict
from sumexp.companion.store.files import write_text

_EVIDENCE = (
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


def _raw(html: str) -> str:
    return f"```{{raw}} html\n{html}\n```\n"


def _mark(verdict: Verdict) -> str:
    return (
        f'<svg class="register-mark mark-{slug(verdict)}" aria-hidden="true"><use href="#mark-{slug(verdict)}"/></svg>'
    )


def _badge(verdict: Verdict) -> str:
    return f'<span class="register-verdict">{_mark(verdict)} {verdict}</span>'


def _assets() -> str:
    """Style and script of this page alone, and the marks of the verdicts, drawn once and used everywhere."""
    symbols = "".join(
        f'<symbol id="mark-{slug(verdict)}" class="mark-{slug(verdict)}" viewBox="0 0 20 20">{shape}</symbol>'
        for verdict, shape in _MARKS.items()
    )
    return (
        '<link rel="stylesheet" href="../_static/register.css">\n<script defer src="../_static/register.js"></script>\n'
        f'<svg width="0" height="0" style="position:absolute" aria-hidden="true">{symbols}</svg>'
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


def _rules() -> str:
    truth = _table(
        ("the tests show", "verdict", "and the entry"),
        ((row.when, _badge(row.verdict), row.says) for row in TRUTH_TABLE),
        "register-truth",
    )
    kinds = _table(("evidence", "means"), _EVIDENCE, "register-evidence")
    return _raw(truth) + "\nEvidence, the strongest first:\n\n" + _raw(kinds)


def _counts(chapters: Mapping[str, Register]) -> str:
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

    everything = [entry for entries in chapters.values() for entry in entries]
    total = ["all", *(str(sum(e.verdict == verdict for e in everything)) for verdict in VERDICTS), str(len(everything))]
    head = ["chapter", *map(_badge, VERDICTS), "all"]
    return _raw(_table(head, [*(row(*item) for item in chapters.items()), total], "register-counts"))


def _links(ids: Iterable[str]) -> str:
    return ", ".join(f'<a href="#claim-{claim}"><code>{claim}</code></a>' for claim in ids)


def _errata(labels: Iterable[str], explained: Mapping[str, str]) -> str:
    """Errata by label, as links where a page explains them; ``explained`` maps a target to its page."""
    targets = {label: f"erratum-{label.lower()}" for label in labels}
    return ", ".join(
        f'<a href="{explained[target]}#{target}">{label}</a>' if target in explained else label
        for label, target in targets.items()
    )


def _explained(book: Path) -> dict[str, str]:
    """The targets of the errata pages, each with its page as seen from the register."""
    return {
        target: page.relative_to(book).with_suffix(".html").as_posix()
        for page in sorted([*book.glob("errata.md"), *book.glob("errata/*.md")])
        for target in re.findall(r"^\((erratum-[a-z]\d+)\)=", page.read_text(encoding="utf-8"), re.MULTILINE)
    }


def _test(test: Test) -> str:
    findings = "".join(
        f"; {finding.estimate:.3g}, interval {finding.low:.3g} to {finding.high:.3g}"
        + (f" on {finding.ran}" if finding.ran else "")
        for finding in test.findings
    )
    ended = "" if test.outcome == "passed" else f", {test.outcome}"
    return f"<code>{escape(test.test)}</code> ({test.shows}, {test.evidence}{escape(findings)}{ended})"


def _entry(entry: Entry, users: Sequence[str], explained: Mapping[str, str]) -> str:
    claim = entry.claim
    shown = "Corrected" if entry.verdict == "holds with correction" else "Proposed correction"
    statement = [f'<p class="paper-says">{prose(claim.paper_says)}</p>']
    if claim.corrected:
        statement.append(f'<p class="corrected"><b>{shown}:</b> {prose(claim.corrected)}</p>')
    if claim.note:
        statement.append(f'<p class="note">{prose(claim.note)}</p>')
    facts = {
        "Rests on": _links(claim.depends_on),
        "Used by": _links(users),
        "Erratum": _errata(claim.erratum, explained),
        "Tests": ", ".join(map(_test, entry.tests)),
    }
    about = "".join(f"<span><b>{name}:</b> {value}</span> " for name, value in facts.items() if value)
    verdict = [_badge(entry.verdict)]
    if entry.evidence:
        verdict.append(f'<p class="evidence">{entry.evidence}</p>')
    if entry.says:
        verdict.append(f'<p class="says">{prose(entry.says)}</p>')
    return (
        f'<tr id="claim-{claim.id}" data-chapter="{claim.chapter}" data-verdict="{entry.verdict}" '
        f'data-kind="{claim.kind}">\n'
        f'<th scope="row"><a class="self" href="#claim-{claim.id}"><code>{claim.id}</code></a> '
        f"<span>{prose(claim.where)}</span> <span>{claim.kind}</span> "
        f'<a class="to-graph" href="#node-{claim.id}">in the graph</a></th>\n'
        f'<td>{"".join(statement)}\n<p class="about">{about}</p></td>\n'
        f"<td>{''.join(verdict)}</td></tr>\n"
    )


def _claims(chapters: Mapping[str, Register], stage_dir: Path) -> str:
    users: dict[str, list[str]] = {}
    for entry in (entry for entries in chapters.values() for entry in entries):
        for other in entry.claim.depends_on:
            users.setdefault(other, []).append(entry.claim.id)
    explained = _explained(stage_dir / "book")
    top = "".join(f'<th scope="col">{name}</th>' for name in ("claim", "statement", "verdict"))
    parts = []
    for chapter, entries in chapters.items():
        written = any((stage_dir / "notebooks" / f"{chapter}{suffix}").exists() for suffix in (".ipynb", ".md"))
        about = f"Decided in the chapter [{chapter}](../notebooks/{chapter}).\n\n" if written else ""
        rows = "".join(_entry(entry, users.get(entry.claim.id, ()), explained) for entry in entries)
        table = (
            f'<table class="register-table register-claims">\n<thead><tr>{top}</tr></thead>\n'
            f"<tbody>\n{rows}</tbody>\n</table>"
        )
        parts.append(f"(claims-{chapter})=\n### {chapter}\n\n{about}{_raw(table)}\n")
    return "".join(parts)


def _graphs(chapters: Mapping[str, Register]) -> str:
    by_id = {entry.claim.id: entry for entries in chapters.values() for entry in entries}
    return _raw(
        "\n".join(
            f'<details class="register-chapter"{" open" if first else ""}>'
            f"<summary>{chapter}: {len(entries)} claim{'s' * (len(entries) > 1)}</summary>\n"
            f'<div class="register-scroll">{draw(chapter, entries, by_id)}</div>\n</details>'
            for first, (chapter, entries) in zip([True, *[False] * len(chapters)], chapters.items(), strict=False)
        )
    )


def write_page(register: Register, stage_dir: Path) -> None:
    """Write ``book/register.md`` into the staged book.

    A chapter already staged is linked from its claims, as is an erratum for which the staged ``book/errata.md`` or a
    page in ``book/errata/`` has a target such as ``(erratum-b5)=``.
    """
    ordered = sorted(register, key=lambda entry: CHAPTERS.index(entry.claim.chapter))
    chapters = {chapter: tuple(entries) for chapter, entries in groupby(ordered, key=lambda entry: entry.claim.chapter)}
    undecided = sum(entry.verdict == "open" for entry in register)
    page = f"""# The register

{_raw(_assets())}
The papers of this book are about one sum, $\\sum_y e^{{f_y}}$. This page lists {len(register)} statements they make,
in our own words, each with its place in the paper and a verdict. No verdict is typed in: the tests of this book say
which statement they check and what they show of it, and the verdict follows from how they ended, by the table below.

{undecided} statements are open. Until tests have decided an entry, its correction and its note are proposals of our
review.

## How a verdict comes about

The first row that applies gives the verdict.

{_rules()}
An entry that has neither a test, nor a reason to be open, nor is a convention fails the build, as does one whose
statement and counterexample both pass.

## Where it stands

{_counts(chapters)}
## What rests on what

Lines run downwards, from a claim to those that use it. Each claim links to its entry; claims of other chapters have a
dashed frame, and those that touch no other stand in the last rows.

{_graphs(chapters)}
## The claims

{_raw('<div id="register-filters"></div>')}
{_claims(chapters, stage_dir)}"""
    write_text(stage_dir / "book" / "register.md", page)
