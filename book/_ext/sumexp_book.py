"""Roles and directives of the book: tables of the register, errata and measurements; figures; what pages quote."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from re import compile as pattern
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxDirective, SphinxRole, new_document

from claimbook.pipeline import measured
from claimbook.pipeline.notebook_export import glued
from claimbook.pipeline.outputs import noted
from claimbook.register import VERDICTS, Register, read_json
from claimbook.register import page as drawn
from claimbook.store.settings import choice

LINK = r'<a class="claim-link"[^>]*>(?:(?!</a>).)*</a>'
COMMA = pattern(r"(?<=</a>),\s+")
BRACKETS = pattern(rf"\s*\(({LINK}(?:,\s+{LINK})*)\)")
MARKED = 'class="claim-link"', 'class="claim-link claim-mark"'
JOINER = "\u2060"  # no line begins with a mark
DATA = "book/_data"
SVG = "image/svg+xml"
TITLE = pattern(r"(?:^|\n)# (.*)")


class ClaimRole(SphinxRole):
    """``{claim}`bias-thm-3-1``` links to the claim's entry in the register, with the mark of its verdict."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        entry = next((entry for entry in entries(self.env.app) if entry.id == self.text), None)
        if entry is None:
            raise ExtensionError(f"{self.env.docname} links to the claim {self.text!r}, which is not in the register")
        page = self.env.app.builder.get_relative_uri(self.env.docname, "book/register")
        self.env.temp_data.setdefault("sumexp_cards", {})[self.text] = drawn.macros.card(entry, page)
        return [raw(drawn.macros.link(entry, page))], []


def add_cards(app: Sphinx, doctree: nodes.document) -> None:
    """End a page that links to claims with the cards that its links open."""
    if any('class="math' in node.astext() for node in doctree.findall(nodes.raw)):  # the register's formulas
        app.env.get_domain("math").data["has_equations"][app.env.docname] = True
    if cards := app.env.temp_data.get("sumexp_cards", {}).values():
        doctree += raw(f'{drawn.macros.symbols()}<div class="claim-cards">{"".join(cards)}</div>')


def mark_words(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Turn links to claims that stand alone in brackets into marks at the word before."""
    if body := context.get("body"):
        context["body"] = BRACKETS.sub(lambda match: JOINER + COMMA.sub(JOINER, match[1]).replace(*MARKED), body)


@cache
def parsed(app: Sphinx, name: str) -> Any:
    """What a staged JSON file holds, such as a chapter; None if it is missing."""
    file = Path(app.srcdir, name)
    return json.loads(file.read_text("utf-8")) if file.exists() else None


@cache
def entries(app: Sphinx) -> Register:
    """The entries of the register with their verdicts."""
    return read_json(Path(app.srcdir, DATA, "register.json"))


def explained(env: BuildEnvironment) -> dict[str, drawn.Erratum]:
    """The errata that pages explain, by label, with addresses relative to the page being read."""
    pages = sorted(name for name in env.found_docs if name.startswith("book/errata/"))
    texts = ((name, Path(env.doc2path(name)).read_text("utf-8")) for name in pages)
    errata = (drawn.read_errata(text, env.app.builder.get_relative_uri(env.docname, name)) for name, text in texts)
    return {label: erratum for page in errata for label, erratum in page.items()}


class RegisterNumber(SphinxRole):
    """``{register-number}`open``` counts the papers' statements with a verdict, ``papers`` all, ``ours`` the book's."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        choice(f"{{register-number}} in {self.env.docname}", self.text, (*VERDICTS, "papers", "ours"))
        number = sum(self.text in (("ours",) if e.is_ours else ("papers", e.verdict)) for e in entries(self.env.app))
        return [nodes.Text(str(number))], []


class RegisterTable(SphinxDirective):
    """A part of the register; ``claims`` and ``glance`` have a section for each chapter."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        register = entries(self.env.app)
        match self.arguments[0]:
            case "counts":
                return [raw(drawn.counts(register))]
            case "claims":
                repository = self.config.html_context.get("repository", "")
                shown = drawn.claims(register, explained(self.env), repository)
                return [raw('<div id="register-filters"></div>'), *self.sections("claims", shown)]
            case "glance":
                page = self.env.app.builder.get_relative_uri(self.env.docname, "book/register")
                return [*self.sections("glance", drawn.glance(register, explained(self.env), page))]
            case "marks" | "truth" | "rules" | "kinds" as name:
                return [raw(getattr(drawn, name)())]
            case name:
                raise self.error(f"{name!r} is none of counts, claims, glance, marks, truth, rules, kinds")

    def sections(self, name: str, tables: Mapping[str, str]) -> Iterator[nodes.section]:
        """For each chapter a section under its title, or under its name if it is not in the book."""
        for chapter, table in tables.items():
            notebook = parsed(self.env.app, f"notebooks/{chapter}.ipynb")
            titled = TITLE.search("".join(notebook["cells"][0]["source"])) if notebook else None
            is_there = f"notebooks/{chapter}" in self.env.found_docs
            decided = f"Decided in the chapter {{doc}}`/notebooks/{chapter}`." if is_there and name == "claims" else ""
            parts = nodes.title("", titled[1] if titled else chapter), *self.parse_text_to_nodes(decided), raw(table)
            yield nodes.section("", *parts, ids=[f"{name}-{chapter}"], names=[])


class ErrataTable(SphinxDirective):
    """The errata of all pages by weight, the heaviest first."""

    def run(self) -> list[nodes.Node]:
        known = sorted(explained(self.env).values(), key=lambda e: (e.label[0], int(e.label[1:])))
        lines: list[str] = []
        for weight in drawn.WEIGHTS:
            alike = (e for e in known if e.weight == weight)
            listed = [f"- {{ref}}`{e.label} <erratum-{e.label.lower()}>`: {e.title}" for e in alike]
            lines += [f"**{weight.capitalize()}** ({len(listed)})", "", *listed, ""] if listed else []
        return self.parse_text_to_nodes("\n".join(lines))


def staged(env: BuildEnvironment, chapter: str) -> Mapping[str, Any]:
    """A chapter that a page quotes."""
    if (notebook := parsed(env.app, f"notebooks/{chapter}.ipynb")) is None:
        raise ExtensionError(f"{env.docname} quotes the chapter {chapter!r}, which is not in the book")
    return notebook


class Quoted(SphinxRole):
    """``{result}`negatives/fault``` is a number or a sentence that a chapter has recorded; dots if it has not."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        chapter, _, name = self.text.partition("/")
        text = glued(staged(self.env, chapter)).get(name, "…").replace(" × ", measured.TIMES)
        return read(text, self.env.docname, self.inliner.document.settings)[0].children, []


def read(text: str, page: str, settings: Any) -> nodes.document:
    """Markdown as on the page."""
    document = new_document(page, settings)
    MystParser().parse(text, document)
    return document


class Figures(SphinxTransform):
    """Puts a figure, labelled ``fig-NAME``, in the place of each picture that `figures.show` has shown."""

    default_priority = 210  # before Sphinx collects pictures and sets quotes

    def apply(self, **_: Any) -> None:
        page, number = self.env.docname, 0
        notebook = parsed(self.app, f"{page}.ipynb") or {"cells": ()}
        shown = (out for cell in notebook["cells"] for out in cell.get("outputs", ()) if SVG in out.get("data", {}))
        cells = [node for node in self.document.findall(nodes.container) if node.get("nb_element") == "cell_code"]
        places = [(cell, box) for cell in cells for box in cell.findall(nodes.container) if box.get("mime_type") == SVG]
        for (cell, place), output in zip(places, shown, strict=True):
            if name := (about := noted(output)).get("figure"):
                number += 1
                if f"fig-{name}" in self.env.get_domain("std").anonlabels:
                    raise ExtensionError(f"{page} shows a second figure named {name!r}: give it another name")
                caption = read(about["caption"], page, self.document.settings)
                caption[-1] += raw(f' <a class="headerlink" href="#fig-{name}" title="Link to this figure">#</a>')
                place[:] = figure(output, caption.children, name)
                self.env.metadata[page]["provenance"] = about["provenance"]  # at the page's foot
                cell["ids"].append(f"cell-{name}")
                self.env.get_domain("std").note_hyperlink_target(f"fig-{name}", page, f"fig-{name}", f"Figure {number}")


class QuotedFigure(SphinxDirective):
    """A chapter's figure with another caption, or that caption alone until it is drawn: ``synthesis one-step``."""

    required_arguments = 2
    has_content = True

    def run(self) -> list[nodes.Node]:
        chapter, name = self.arguments
        outputs = (output for cell in staged(self.env, chapter)["cells"] for output in cell.get("outputs", ()))
        output = next((output for output in outputs if noted(output).get("figure") == name), None)
        caption = self.parse_content_to_nodes()
        return caption if output is None else figure(output, caption)


def figure(output: Mapping[str, Any], caption: Sequence[nodes.Node], name: str = "") -> list[nodes.Node]:
    """The pictures for a desk and a phone over the caption; with a name also a target of links and its source."""
    identity, below = (f' id="fig-{name}"', source(noted(output))) if name else ("", "")
    narrow = noted(output).get("narrow", "").replace("<svg ", '<svg class="narrow" ', 1)
    held = f'<div class="figure-picture" tabindex="0">{"".join(output["data"][SVG])}{narrow}</div>'
    begin = raw(f'<figure{identity} class="sumexp-figure">\n{held}\n<figcaption>')
    return [begin, *caption, raw(f"{below}</figcaption>\n</figure>")]


def source(about: Mapping[str, str]) -> str:
    """The line below a caption: the cell, the function and the numbers."""
    name, (module, _, function) = about["figure"], about["source"].partition(":")
    code = f"../_modules/{module.replace('.', '/')}.html#{function}"
    public = ".".join(part for part in module.split(".") if not part.startswith("_"))
    return (
        f'<p class="figure-source">Drawn <span class="in-cell">in <a href="#cell-{name}">this cell</a> </span>from '
        f'<a href="{code}"><code>{public}.{function}</code></a>. '
        f'<a href="../_figures/{name}.csv" download>Data (CSV).</a></p>'
    )


class Measured(SphinxDirective):
    """``{measured} NAME ...`` shows its content and the tables of these measurements, if there are any.

    Option ``table`` picks a table by its title, ``slower`` the rows in which an alternative is faster.
    """

    required_arguments = 1
    optional_arguments = 100
    has_content = True
    option_spec: ClassVar = {"table": directives.unchanged, "slower": directives.flag}

    def run(self) -> list[nodes.Node]:
        files = [file for name in self.arguments if (file := parsed(self.env.app, f"{DATA}/{name}.json"))]
        if files and (table := self.options.get("table")) and not any(table in file["tables"] for file in files):
            raise self.error(f"no table {table!r}; there are {', '.join(t for file in files for t in file['tables'])}")
        text = measured.slower(files) if "slower" in self.options else measured.text(files, self.options.get("table"))
        return [*self.parse_content_to_nodes(), *self.parse_text_to_nodes(text)] if files else []


def raw(html: str) -> nodes.raw:
    return nodes.raw("", html, format="html")


def setup(app: Sphinx) -> None:
    app.add_role("claim", ClaimRole())
    app.add_role("register-number", RegisterNumber())
    app.add_role("result", Quoted())
    app.add_directive("register-table", RegisterTable)
    app.add_directive("errata-table", ErrataTable)
    app.add_directive("quoted-figure", QuotedFigure)
    app.add_directive("measured", Measured)
    app.add_transform(Figures)
    app.connect("doctree-read", add_cards)
    app.connect("html-page-context", mark_words)
    # Read in one process: of several, Sphinx does not see that two pages declare the same label. Writing is safe.
    app.is_parallel_allowed = lambda kind: kind == "write"
