"""What the book needs of Sphinx beyond its settings: tables of the register and of what was measured, quotations."""

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
from claimbook.register.verdict import VERDICTS

LINK = r'<a class="claim-link"[^>]*>(?:(?!</a>).)*</a>'
COMMA = pattern(r"(?<=</a>),\s+")
BRACKETS = pattern(rf"\s*\(({LINK}(?:,\s+{LINK})*)\)")
WORD_JOINER = "\u2060"  # no line begins with a mark
DATA, DECIDING, TESTS = "book/_data", "tests", "_tests"
RESULT = "application/papermill.record/text/plain"
SENTENCE = "application/papermill.record/text/markdown"
TITLE = pattern(r"(?:^|\n)# (.*)")


class ClaimRole(SphinxRole):
    """``{claim}`bias-thm-3-1``` is a link to the claim's entry in the register, with the mark of its verdict."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        entry = next((entry for entry in register(self.env) if entry.id == self.text), None)
        if entry is None:
            raise ExtensionError(f"{self.env.docname} links to the claim {self.text!r}, which the register lacks")
        page = self.env.app.builder.get_relative_uri(self.env.docname, "book/register")
        self.env.temp_data.setdefault("sumexp_cards", {})[self.text] = drawn.card(entry, page)
        return [raw(drawn.link(entry, page))], []


def add_cards(app: Sphinx, doctree: nodes.document) -> None:
    """End a page that links to claims with the cards that its links open."""
    cards = app.env.temp_data.get("sumexp_cards", {}).values()
    if cards or app.env.temp_data.get("sumexp_formulas"):
        # Cards and tables have formulas that Sphinx does not look into: the page loads MathJax, if only for them.
        app.env.get_domain("math").data["has_equations"][app.env.docname] = True
    if cards:
        doctree += raw(f'{drawn.symbols()}<div class="claim-cards">{"".join(cards)}</div>')


def mark_words(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Links to claims that stand alone in brackets become marks at the word before."""
    if body := context.get("body"):
        context["body"] = BRACKETS.sub(lambda links: f"{WORD_JOINER}{marks(links[1])}", body)


def marks(links: str) -> str:
    return COMMA.sub(WORD_JOINER, links).replace('class="claim-link"', 'class="claim-link claim-mark"')


def found(env: BuildEnvironment, name: str) -> Path:
    """A file that the build has copied next to the pages; a change of it has the page read again."""
    env.note_dependency(f"{DATA}/{name}")
    return Path(env.srcdir, DATA, name)


def register(env: BuildEnvironment) -> Register:
    """The entries of the register with their verdicts; a page reads them once, however often it shows them."""
    if "sumexp_register" not in env.temp_data:
        env.temp_data["sumexp_register"] = read_json(found(env, "register.json"))
    entries: Register = env.temp_data["sumexp_register"]
    return entries


def explained(env: BuildEnvironment) -> dict[str, errata.Erratum]:
    """The errata that pages explain, by label; their addresses are as seen from the page being read."""
    known: dict[str, errata.Erratum] = {}
    for name in sorted(name for name in env.found_docs if name.startswith("book/errata/")):
        file = Path(env.doc2path(name))
        env.note_dependency(str(file.relative_to(env.srcdir)))
        known |= errata.read(file.read_text("utf-8"), env.app.builder.get_relative_uri(env.docname, name))
    return known


def sources(env: BuildEnvironment) -> dict[str, str]:
    """For each test module that decides a claim its page, as seen from the page being read."""
    folder = Path(env.srcdir, DATA, DECIDING)
    up = "../" * env.docname.count("/")
    files = sorted(file.relative_to(folder) for file in folder.rglob("*.py"))
    return {str(file): f"{up}{TESTS}/{file.with_suffix('.html')}" for file in files}


class VerdictRole(SphinxRole):
    """``{verdict}`holds``` is a verdict with its mark, for a page that has no claims."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        if self.text not in VERDICTS:
            raise ExtensionError(f"{self.env.docname} has a verdict that there is not: {self.text!r}")
        first = not self.env.temp_data.get("sumexp_marks")
        self.env.temp_data["sumexp_marks"] = True
        return [raw((drawn.symbols() if first else "") + drawn.badge(self.text))], []


class RegisterNumber(SphinxRole):
    """``{register-number}`open``` is how many statements of the papers have that verdict, ``papers`` how many all are.

    ``ours`` is how many no paper states.
    """

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        number = sum(self.text in (("ours",) if e.is_ours else ("papers", e.verdict)) for e in register(self.env))
        return [nodes.Text(str(number))], []


class RegisterTable(SphinxDirective):
    """A part of the register: ``truth``, ``rules``, ``evidence``, ``counts``, ``claims`` or ``marks``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        tables = {"marks": drawn.marks, "truth": drawn.truth, "rules": drawn.rules, "evidence": drawn.kinds}
        match self.arguments[0]:
            case "counts":
                return [raw(drawn.counts(register(self.env)))]
            case "claims":
                return [raw('<div id="register-filters"></div>'), *self.claims()]
            case name:
                return [raw(tables[name]())]

    def claims(self) -> list[nodes.Node]:
        """A section for each chapter, with a link to it where the book has it."""
        sections: list[nodes.Node] = []
        for chapter, table in drawn.claims(register(self.env), explained(self.env), sources(self.env)).items():
            section = chapter_section(self.env, "claims", chapter)
            if f"notebooks/{chapter}" in self.env.found_docs:
                section += self.parse_text_to_nodes(f"Decided in the chapter {{doc}}`/notebooks/{chapter}`.")
            section += raw(table)
            sections.append(section)
        return sections


class AtAGlance(SphinxDirective):
    """All results and errata, a line each, in a section for each chapter that bears the chapter's own title."""

    def run(self) -> list[nodes.Node]:
        page = self.env.app.builder.get_relative_uri(self.env.docname, "book/register")
        style = '<link rel="stylesheet" href="../_static/register.css">'
        self.env.temp_data["sumexp_formulas"] = True
        tables = drawn.glance(register(self.env), explained(self.env), page).items()
        sections = (chapter_section(self.env, "glance", chapter, raw(table)) for chapter, table in tables)
        return [raw(style + drawn.symbols()), *sections]


def chapter_section(env: BuildEnvironment, table: str, chapter: str, *content: nodes.Node) -> nodes.section:
    """A section that bears the chapter's own title."""
    title = nodes.title("", heading(env, chapter))
    return nodes.section("", title, *content, ids=[f"{table}-{chapter}"], names=[])


def heading(env: BuildEnvironment, chapter: str) -> str:
    """The title of a chapter, which may not have been read yet; its name where the book has it not."""
    file = Path(env.srcdir, f"notebooks/{chapter}.ipynb")
    if not file.exists():
        return chapter
    env.note_dependency(f"notebooks/{chapter}.ipynb")
    titled = TITLE.search("".join(json.loads(file.read_text("utf-8"))["cells"][0]["source"]))
    return titled[1] if titled else chapter


class ErrataTable(SphinxDirective):
    """The errata of all pages by weight, the heaviest first."""

    def run(self) -> list[nodes.Node]:
        known = explained(self.env).values()
        lines: list[str] = []
        for weight in errata.WEIGHTS:
            those = sorted((one for one in known if one.weight == weight), key=lambda one: one.order)
            if those:
                lines += [f"**{weight[0].upper()}{weight[1:]}** ({len(those)})", ""]
                lines += [f"- {{ref}}`{one.label} <{one.target}>`: {one.title}" for one in those] + [""]
        return self.parse_text_to_nodes("\n".join(lines))


def quoted(env: BuildEnvironment, chapter: str, kind: str, name: str) -> dict[str, Any] | None:
    """The output of a chapter's figure or result as its page has it; None where its last execution has none such.

    A page that quotes it is read again when it changes.
    """
    file = f"notebooks/{chapter}.ipynb"
    if not Path(env.srcdir, file).exists():
        raise ExtensionError(f"{env.docname} quotes the chapter {chapter!r}, which is not in the book")
    env.note_dependency(file)
    cells = json.loads(Path(env.srcdir, file).read_text("utf-8"))["cells"]
    outputs = (output for cell in cells for output in cell.get("outputs", ()))
    return next((one for one in outputs if noted(one).get(kind) == name), None)


class QuotedResult(SphinxRole):
    """``{result}`negatives/fault``` is a number that a chapter has recorded, printed as it is there."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        chapter, _, name = self.text.partition("/")
        output = quoted(self.env, chapter, "result", name)
        return [nodes.Text(literal_eval(output["data"][RESULT]).replace(" × ", measured.TIMES) if output else "…")], []


class QuotedSentence(SphinxDirective):
    """Sentences that a chapter has recorded, as one paragraph: ``towers out answer``."""

    required_arguments = 2
    optional_arguments = 4

    def run(self) -> list[nodes.Node]:
        chapter, *names = self.arguments
        found = [quoted(self.env, chapter, "sentence", name) for name in names]
        said = "\n".join("".join(output["data"][SENTENCE]) for output in found if output)
        return self.parse_text_to_nodes(said or "…")


class Measured(SphinxDirective):
    """``{measured} NAME ...`` shows what it holds and all tables of these files; nothing where none is there.

    The files are those of ``src/sumexp/measured``, and what executions cost. Option ``table`` picks one table by its
    title, ``slower`` the rows in which something else is faster.
    """

    required_arguments = 1
    optional_arguments = 100
    has_content = True
    option_spec: ClassVar = {"table": directives.unchanged, "slower": directives.flag}

    def run(self) -> list[nodes.Node]:
        paths = [found(self.env, f"{name}.json") for name in self.arguments]
        files = [json.loads(path.read_text("utf-8")) for path in paths if path.exists()]
        if not files:
            return []
        slower = "slower" in self.options
        text = measured.slower(files) if slower else measured.text(files, self.options.get("table"))
        return [*self.parse_content_to_nodes(), *self.parse_text_to_nodes(text)]


def raw(html: str) -> nodes.raw:
    return nodes.raw("", html, format="html")


def setup(app: Sphinx) -> None:
    app.add_role("claim", ClaimRole())
    app.add_role("verdict", VerdictRole())
    app.add_role("register-number", RegisterNumber())
    app.add_directive("register-table", RegisterTable)
    app.add_directive("errata-table", ErrataTable)
    app.add_role("result", QuotedResult())
    app.add_directive("quoted-sentence", QuotedSentence)
    app.add_directive("at-a-glance", AtAGlance)
    app.add_directive("measured", Measured)
    app.connect("doctree-read", add_cards)
    app.connect("html-page-context", mark_words)
    # Pages are read in one process: of several Sphinx does not see that two pages declare the same name. To write them
    # in several is safe with all extensions of the book.
    app.is_parallel_allowed = lambda kind: kind == "write"
