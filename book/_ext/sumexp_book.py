"""Roles and directives of the book: tables of the register, errata and measurements; quotations of chapters."""

import json
from ast import literal_eval
from pathlib import Path
from re import compile as pattern
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective, SphinxRole

from claimbook.pipeline import measured
from claimbook.pipeline.outputs import noted
from claimbook.register import Register, errata, read_json
from claimbook.register import page as drawn

LINK = r'<a class="claim-link"[^>]*>(?:(?!</a>).)*</a>'
COMMA = pattern(r"(?<=</a>),\s+")
BRACKETS = pattern(rf"\s*\(({LINK}(?:,\s+{LINK})*)\)")
MARKED = 'class="claim-link"', 'class="claim-link claim-mark"'
WORD_JOINER = "\u2060"  # no line begins with a mark
DATA = "book/_data"
RECORD = "application/papermill.record/text/"
TITLE = pattern(r"(?:^|\n)# (.*)")


class ClaimRole(SphinxRole):
    """``{claim}`bias-thm-3-1``` links to the claim's entry in the register, with the mark of its verdict."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        entry = next((entry for entry in register(self.env) if entry.id == self.text), None)
        if entry is None:
            raise ExtensionError(f"{self.env.docname} links to the claim {self.text!r}, which is not in the register")
        page = relative(self.env, "book/register")
        self.env.temp_data.setdefault("sumexp_cards", {})[self.text] = drawn.card(entry, page)
        return [raw(drawn.link(entry, page))], []


def add_cards(app: Sphinx, doctree: nodes.document) -> None:
    """End a page that links to claims with the cards that its links open."""
    if "sumexp_formulas" in app.env.temp_data:  # those of the register are hidden from Sphinx
        app.env.get_domain("math").data["has_equations"][app.env.docname] = True
    if cards := app.env.temp_data.get("sumexp_cards", {}).values():
        doctree += raw(f'{drawn.symbols()}<div class="claim-cards">{"".join(cards)}</div>')


def mark_words(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Turn links to claims that stand alone in brackets into marks at the word before."""

    def marks(links: str) -> str:
        return WORD_JOINER + COMMA.sub(WORD_JOINER, links).replace(*MARKED)

    if body := context.get("body"):
        context["body"] = BRACKETS.sub(lambda found: marks(found[1]), body)


def relative(env: BuildEnvironment, page: str) -> str:
    """The address of a page as seen from the page being read."""
    return str(env.app.builder.get_relative_uri(env.docname, page))


def read(env: BuildEnvironment, name: str) -> str | None:
    """The text of a staged file; None if it is missing."""
    file = Path(env.srcdir, name)
    return file.read_text("utf-8") if file.exists() else None


def register(env: BuildEnvironment) -> Register:
    """The entries of the register with their verdicts, parsed once."""
    if not hasattr(env.app, "sumexp_register"):
        env.app.sumexp_register = read_json(Path(env.srcdir, DATA, "register.json"))
    env.temp_data["sumexp_formulas"] = True
    entries: Register = env.app.sumexp_register
    return entries


def explained(env: BuildEnvironment) -> dict[str, errata.Erratum]:
    """The errata that pages explain, by label, with addresses relative to the page being read."""
    pages = sorted(name for name in env.found_docs if name.startswith("book/errata/"))
    texts = {name: read(env, f"{name}.md") or "" for name in pages}
    return {label: one for name in pages for label, one in errata.read(texts[name], relative(env, name)).items()}


class RegisterNumber(SphinxRole):
    """``{register-number}`open``` counts the papers' statements with a verdict, ``papers`` all, ``ours`` the book's."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        number = sum(self.text in (("ours",) if e.is_ours else ("papers", e.verdict)) for e in register(self.env))
        return [nodes.Text(str(number))], []


class RegisterTable(SphinxDirective):
    """A part of the register; ``claims`` and ``glance`` have a section for each chapter."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        tables = {"marks": drawn.marks, "truth": drawn.truth, "rules": drawn.rules, "evidence": drawn.kinds}
        match self.arguments[0]:
            case "counts":
                return [raw(drawn.counts(register(self.env)))]
            case "claims":
                return [raw('<div id="register-filters"></div>'), *self.claims()]
            case "glance":
                page = relative(self.env, "book/register")
                rows = drawn.glance(register(self.env), explained(self.env), page).items()
                return [self.section("glance", chapter, raw(table)) for chapter, table in rows]
            case name:
                return [raw(tables[name]())]

    def claims(self) -> list[nodes.Node]:
        """The entries of each chapter, with a link to the chapter if it is in the book."""
        sections: list[nodes.Node] = []
        repository = self.config.html_context.get("repository", "")
        for chapter, table in drawn.claims(register(self.env), explained(self.env), repository).items():
            is_there = f"notebooks/{chapter}" in self.env.found_docs
            decided = f"Decided in the chapter {{doc}}`/notebooks/{chapter}`." if is_there else ""
            sections.append(self.section("claims", chapter, *self.parse_text_to_nodes(decided), raw(table)))
        return sections

    def section(self, table: str, chapter: str, *content: nodes.Node) -> nodes.section:
        """A section under the chapter's title, or under its name if the chapter is not in the book."""
        text = read(self.env, f"notebooks/{chapter}.ipynb")
        titled = TITLE.search("".join(json.loads(text)["cells"][0]["source"])) if text else None
        title = nodes.title("", titled[1] if titled else chapter)
        return nodes.section("", title, *content, ids=[f"{table}-{chapter}"], names=[])


class ErrataTable(SphinxDirective):
    """The errata of all pages by weight, the heaviest first."""

    def run(self) -> list[nodes.Node]:
        known = sorted(explained(self.env).values(), key=lambda one: one.order)
        lines: list[str] = []
        for weight in errata.WEIGHTS:
            listed = [f"- {{ref}}`{one.label} <{one.target}>`: {one.title}" for one in known if one.weight == weight]
            lines += [f"**{weight[0].upper()}{weight[1:]}** ({len(listed)})", "", *listed, ""] if listed else []
        return self.parse_text_to_nodes("\n".join(lines))


def quoted(env: BuildEnvironment, chapter: str, kind: str, name: str) -> dict[str, Any] | None:
    """The output of a chapter's figure, result or sentence; None if its last execution has none of that name."""
    text = read(env, f"notebooks/{chapter}.ipynb")
    if text is None:
        raise ExtensionError(f"{env.docname} quotes the chapter {chapter!r}, which is not in the book")
    outputs = (output for cell in json.loads(text)["cells"] for output in cell.get("outputs", ()))
    return next((output for output in outputs if noted(output).get(kind) == name), None)


class QuotedResult(SphinxRole):
    """``{result}`negatives/fault``` is a number that a chapter has recorded, as printed there."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        chapter, _, name = self.text.partition("/")
        output = quoted(self.env, chapter, "result", name)
        shown = literal_eval(output["data"][f"{RECORD}plain"]).replace(" × ", measured.TIMES) if output else "…"
        return [nodes.Text(shown)], []


class QuotedSentence(SphinxDirective):
    """Sentences that a chapter has recorded, as one paragraph: ``towers out answer``."""

    required_arguments = 2
    optional_arguments = 4

    def run(self) -> list[nodes.Node]:
        chapter, *names = self.arguments
        found = [quoted(self.env, chapter, "sentence", name) for name in names]
        said = "\n".join("".join(output["data"][f"{RECORD}markdown"]) for output in found if output)
        return self.parse_text_to_nodes(said or "…")


class Measured(SphinxDirective):
    """``{measured} NAME ...`` shows its content and the tables of these files; nothing if all files are missing.

    The files are those of ``src/sumexp/measured``, and the cost of executions. Option ``table`` picks a table by its
    title, ``slower`` the rows in which an alternative is faster.
    """

    required_arguments = 1
    optional_arguments = 100
    has_content = True
    option_spec: ClassVar = {"table": directives.unchanged, "slower": directives.flag}

    def run(self) -> list[nodes.Node]:
        texts = [read(self.env, f"{DATA}/{name}.json") for name in self.arguments]
        files = [json.loads(text) for text in texts if text is not None]
        if not files:
            return []
        slower = "slower" in self.options
        text = measured.slower(files) if slower else measured.text(files, self.options.get("table"))
        return [*self.parse_content_to_nodes(), *self.parse_text_to_nodes(text)]


def raw(html: str) -> nodes.raw:
    return nodes.raw("", html, format="html")


def setup(app: Sphinx) -> None:
    for role, kind in (("claim", ClaimRole), ("register-number", RegisterNumber), ("result", QuotedResult)):
        app.add_role(role, kind())
    app.add_directive("register-table", RegisterTable)
    app.add_directive("errata-table", ErrataTable)
    app.add_directive("quoted-sentence", QuotedSentence)
    app.add_directive("measured", Measured)
    app.connect("doctree-read", add_cards)
    app.connect("html-page-context", mark_words)
    # Read in one process: of several, Sphinx does not see that two pages declare the same label. Writing is safe.
    app.is_parallel_allowed = lambda kind: kind == "write"
