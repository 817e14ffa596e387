"""A chapter to take away: an executed notebook that Jupyter, Colab or an editor shows.

What only the book knows is filled in: numbers, references, citations and claims stand in the sentences, with links to
the pages. The rest is MyST as written, which Jupyter with its MyST extension renders and without it shows as text. The
code stays as it is and runs where the package is installed, which the first code cell sees to.
"""

import re
from ast import literal_eval
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

from claimbook import project
from claimbook.authoring.results import GLUE_PREFIX
from claimbook.pipeline.outputs import literal, noted
from claimbook.register.verdict import VERDICTS, Verdict

MARKS: Mapping[Verdict, str] = dict(zip(VERDICTS, "●◆✕▼■□○◌", strict=True))
"""The verdicts' marks as letters."""

_CODE = r"(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)"
_ROLE = re.compile(rf"\{{(?P<role>[a-z][a-z:_-]*)\}}`(?P<text>[^`]+)`|{_CODE}", re.DOTALL)
_LABEL = re.compile(r"^\([a-z0-9-]+\)=\n", re.MULTILINE)
_NUMBERED = re.compile(r"^\$\$ \((?P<label>[a-z0-9-]+)\)$", re.MULTILINE)
_LINK = re.compile(r"(?<=\]\()(?P<path>[^)\s:#]+)\.md(?P<anchor>#[^)]*)?(?=\))")


@dataclass(frozen=True)
class Book:
    """What a chapter needs to know of the book.

    The address is that of its page, such as ``https://.../notebooks/bias.html``, or ``bias.html`` where pages are
    published nowhere: then links work as long as the notebook is next to its page. ``resolve`` gives for a role of MyST
    what it prints, as Markdown; ``verdicts`` are those of the claims, ``macros`` the book's own commands for MathJax.
    ``package`` is what pip installs, such as ``git+https://...``; empty if it is published nowhere.
    """

    address: str
    resolve: Callable[[str], str]
    verdicts: Mapping[str, Verdict]
    macros: Mapping[str, str]
    title: str
    package: str = ""


def notebook(chapter: Mapping[str, Any], book: Book) -> dict[str, Any]:
    """A staged chapter with what only the book knows filled in."""
    values = glued(chapter)
    cells = [_cell(cell, values, book) for cell in chapter["cells"]]
    first = next((i for i, cell in enumerate(cells) if cell["cell_type"] == "code"), len(cells))
    origin = f"*From [{book.title}]({book.address}), where this chapter has its figures with their data.*"
    code: dict[str, Any] = {"outputs": [], "execution_count": None, "source": install(book.package)}
    cells[first:first] = [
        {"cell_type": "markdown", "metadata": {}, "source": origin},
        {"cell_type": "code", "metadata": {}, **code},
    ]
    return {**chapter, "cells": [{**cell, "id": f"cell-{number}"} for number, cell in enumerate(cells)]}


def install(package: str) -> str:
    """The first code cell: it installs the package where it is not installed."""
    name = project.declared("package")
    if not package:
        return f"# Needs the package {name} with its extra 'chapters'.\nimport {name}"
    return (
        "from importlib.util import find_spec\n\n"
        f'if find_spec("{name}") is None:\n    %pip install -q "{name}[chapters] @ {package}"'
    )


def glued(chapter: Mapping[str, Any]) -> dict[str, str]:
    """What the prose shows of the code's numbers and sentences, by name: numbers as printed, sentences in Markdown."""
    values = {}
    for cell in chapter["cells"]:
        for output in cell.get("outputs", ()):
            mark, data = noted(output), output.get("data", {})
            if "result" in mark:
                values[mark["result"]] = str(literal_eval("".join(data[f"{GLUE_PREFIX}text/plain"])))
            elif "sentence" in mark:
                values[mark["sentence"]] = mark["text"]
    return values


def link(address: str, target: str) -> str:
    """A link of a page as seen from the page's folder, or from anywhere if the page has an address."""
    if "://" in address:
        return urljoin(address, target)
    return f"{address}{target}" if target.startswith("#") else target


def text(source: str, values: Mapping[str, str], book: Book) -> str:
    """A cell's text with its roles, labels, commands and links to pages resolved."""

    def role(matched: re.Match[str]) -> str:
        match matched["role"], matched["text"]:
            case None, _:
                return matched[0]  # code
            case (("glue:text" | "glue:md"), name):
                return text(values.get(name.removesuffix(":myst"), "…"), values, book)
            case "claim", name:
                verdict, place = book.verdicts[name], link(book.address, f"../book/register.html#claim-{name}")
                return f"[{MARKS[verdict]} {name}: {verdict}]({place})"
            case _:
                return book.resolve(" ".join(matched[0].split()))

    def tag(matched: re.Match[str]) -> str:
        printed = re.search(r"\d[\d.]*", book.resolve(f"{{eq}}`{matched['label']}`"))
        return f"\\tag{{{printed[0]}}}\n$$" if printed else "$$"

    source = _NUMBERED.sub(tag, _LABEL.sub("", _ROLE.sub(role, source)))
    for command, meaning in book.macros.items():
        source = re.sub(rf"\\{command}(?![a-zA-Z])", meaning.replace("\\", r"\\"), source)
    return _LINK.sub(lambda matched: link(book.address, f"{matched['path']}.html{matched['anchor'] or ''}"), source)


def _cell(cell: Mapping[str, Any], values: Mapping[str, str], book: Book) -> dict[str, Any]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return {**cell, "source": text(source, values, book)}
    folded = {"jupyter": {"source_hidden": True}} if "hide-input" in cell["metadata"].get("tags", ()) else {}
    outputs = [shown for output in cell["outputs"] for shown in _outputs(output, values, book)]
    return {**cell, "source": source, "outputs": outputs, "metadata": {**cell["metadata"], **folded}}


def _outputs(output: Mapping[str, Any], values: Mapping[str, str], book: Book) -> Iterator[Mapping[str, Any]]:
    """An output as any reader of notebooks shows it: a figure on white paper, then its caption."""
    data, about = output.get("data", {}), noted(output)
    if "figure" in about:
        shown = {"output_type": "display_data", "metadata": {}}
        picture = "".join(data["image/svg+xml"]).replace("<svg ", '<svg style="color: #000; background: #fff" ', 1)
        yield {**shown, "data": {"image/svg+xml": picture, "text/plain": about["alt"]}}
        module, _, function = about["source"].partition(":")
        code = link(book.address, f"../_modules/{module.replace('.', '/')}.html#{function}")
        made = f"Drawn from [`{module}.{function}`]({code}) · {literal(about['provenance'])}"
        number = book.resolve(f"{{ref}}`fig-{about['figure']}`")
        caption = f"**{number}.** {text(about['caption'], values, book)}\n\n{made}"
        yield {**shown, "data": {"text/markdown": caption, "text/plain": caption}}
    elif "interactive" not in about and not any(kind.startswith(GLUE_PREFIX) for kind in data):
        yield output  # what a hand moves needs the book's scripts, and numbers for the prose are in it
