"""A chapter as a notebook that reads well anywhere: Jupyter, Colab, an editor, a page that shows notebooks.

Nothing of the book's markup is left in it: numbers stand in the sentences, references and citations are titles with
links, claims have their verdict, boxes and theorems are quotations under a bold title. The code stays as it is and runs
where the package is installed, which the first code cell sees to.
"""

import re
from ast import literal_eval
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sumexp.companion import CompanionError
from sumexp.companion.register.verdict import Verdict

MARKS: Mapping[Verdict, str] = {
    "holds": "●",
    "holds with correction": "◆",
    "refuted": "✕",
    "not reproduced": "▼",
    "failing": "■",
    "convention": "□",
    "open": "○",
}
"""The verdicts' marks as letters."""
BRANCH = "notebooks"
"""The branch of the repository where the notebooks lie as they are given away, in the folder ``ipynb``."""
RECORD = "application/papermill.record/"

_CODE = re.compile(r"(?P<code>(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`))", re.DOTALL)
_ROLE = re.compile(r"\{(?P<role>[a-z][a-z:_-]*)\}`(?P<text>[^`]+)`|" + _CODE.pattern, re.DOTALL)
_CLAIM = r"\{claim\}`[^`]+`"
_BARE = re.compile(rf"\(({_CLAIM}(?:,\s*{_CLAIM})*)\)")
_TARGET = re.compile(r"^(?P<title>.*\S)\s*<(?P<target>[^<>]+)>$", re.DOTALL)
_LINK = re.compile(r"(?<=\]\()(?P<path>[^)\s:#]+)\.md(?=[)#])")
_OPENS = re.compile(r"^(?P<indent> *)(?P<fence>:{3,}|`{3,})\{(?P<name>[a-z:_-]+)\} *(?P<title>.*)$")
_CLOSES = re.compile(r"^ *(?P<fence>:{3,}|`{3,}) *$")
_OPTION = re.compile(r"^:(?P<name>[a-z-]+): *(?P<value>.*)$")
_LABEL = re.compile(r"^\([a-z0-9-]+\)=$")
_NUMBERED = re.compile(r"^\$\$ \((?P<label>[a-z0-9-]+)\)$")
_FIGURE = re.compile(r'<figcaption><p>(?P<caption>.*?)(?: <a class="headerlink"[^>]*>#</a>)?</p>', re.DOTALL)
_PROVENANCE = re.compile(r'<span class="figure-provenance">(?P<text>.*?)</span>')
_SOURCE = re.compile(r'<a href="\.\./(?P<page>_modules/[^"]*)"><code>(?P<name>.*?)</code>')
_SPAN = re.compile(r'<span class="math[^"]*">\\\((.*?)\\\)</span>')
_DENIED = re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\]\([^()]*\))*)\]\{\.denied\}")
"""A coloured cell of a table of a paper."""
_LEFT = re.compile(r"(?P<left>\]\{\.|\{[a-z][a-z:_-]*\}`|^[> ]*:{3,})|" + _CODE.pattern, re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Place:
    """Somewhere in the book.

    Attributes:
        title: what a reference to it says, such as ``Theorem 7.2``.
        page: its page, such as ``notebooks/ranking``.
        anchor: its id on that page; empty for the page.
    """

    title: str
    page: str
    anchor: str = ""


@dataclass(frozen=True)
class Names:
    """What a chapter may refer to.

    Attributes:
        places: sections, theorems, exercises, figures and formulas by label.
        pages: the title of each page.
        cited: for each key of the bibliography its authors and its year, and where it stands.
        verdicts: of the register's claims.
        macros: what MathJax is told of the book's own commands, by their names.
        root: the address of the published pages with a slash at its end, or ``../`` where there is none: then links
            work as long as the notebook lies beside its page.
        package: what pip installs the package from, such as ``git+https://...``; empty if it is published nowhere.
    """

    places: Mapping[str, Place] = field(default_factory=dict)
    pages: Mapping[str, str] = field(default_factory=dict)
    cited: Mapping[str, tuple[str, str, Place]] = field(default_factory=dict)
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    macros: Mapping[str, str] = field(default_factory=dict)
    root: str = "../"
    package: str = ""

    def address(self, page: str, anchor: str = "") -> str:
        """The address of a place."""
        return f"{self.root}{page}.html{f'#{anchor}' if anchor else ''}"


def notebook(name: str, chapter: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """A staged chapter without the book's markup.

    Args:
        name: of the chapter, such as ``ranking``.
        chapter: the notebook as Sphinx reads it.
        names: what it may refer to.

    Raises:
        CompanionError: if the chapter has a role or directive that is not known here, or refers to nothing.
    """
    page = f"notebooks/{name}"
    text = Text(name, glued(chapter), names)
    cells = [_cell(dict(cell), text) for cell in chapter["cells"]]
    first = next((i for i, cell in enumerate(cells) if cell["cell_type"] == "code"), len(cells))
    origin = f"*From [The Sum of Exponentials]({names.address(page)}), where this chapter has its exercises, hover "
    cells[first:first] = [_markdown(f"{origin}cards and figures with their data.*"), _code(install(names.package))]
    cells = [{**cell, "id": f"cell-{number}"} for number, cell in enumerate(cells)]
    return {**chapter, "cells": cells}


def install(package: str) -> str:
    """The first code cell: it installs the package where it is not installed."""
    if not package:
        return "# Needs the package: `pip install '.[chapters]'` in a copy of the book's sources.\nimport sumexp"
    return (
        "from importlib.util import find_spec\n\n"
        f'if find_spec("sumexp") is None:\n    %pip install -q "sumexp[chapters] @ {package}"'
    )


def runnable(code: str) -> str:
    """A cell's code where nothing sets its parameters: the device is what the machine has."""
    found = 'import torch\n\ndevice = "cuda" if torch.cuda.is_available() else "cpu"'
    return re.sub(r'(?m)^device = "auto"$', found, code)


def glued(chapter: Mapping[str, Any]) -> dict[str, str]:
    """What the prose shows of the code's numbers and sentences, by name: numbers as printed, sentences in Markdown."""
    found = {}
    for cell in chapter["cells"]:
        for output in cell.get("outputs", ()):
            mark, data = output.get("metadata", {}).get("sumexp", {}), output.get("data", {})
            if "result" in mark:
                found[mark["result"]] = str(literal_eval("".join(data[f"{RECORD}text/plain"])))
            elif "sentence" in mark:
                found[mark["sentence"]] = mark["text"]
    return found


class Text:
    """The text of one chapter, turned from MyST into Markdown that has nothing of the book in it."""

    def __init__(self, name: str, values: Mapping[str, str], names: Names) -> None:
        self.name, self.values, self.names = name, values, names
        self.roles: Mapping[str, Callable[[str], str]] = {
            "claim": lambda claim: self._claim(claim, "{mark} {claim} ({verdict})"),
            "claim-mark": lambda claim: self._claim(claim, "{mark} {verdict}"),
            "cite:p": lambda keys: f"({'; '.join(self._cited(key, '{}, {}') for key in keys.split(','))})",
            "cite:t": lambda keys: "; ".join(self._cited(key, "{} ({})") for key in keys.split(",")),
            "doc": self._doc,
            "eq": lambda label: self._place(label, "({})"),
            "func": lambda name: f"`{name.lstrip('~')}`",
            "glue:md": lambda key: self.inline(self._value(key.removesuffix(":myst"))),
            "glue:text": self._value,
            "mod": lambda name: f"`{name.lstrip('~')}`",
            "prf:ref": self._place,
            "ref": self._place,
        }

    def __call__(self, source: str) -> str:
        """A cell's text.

        Raises:
            CompanionError: if it has a role or directive that is not known here, or refers to nothing.
        """
        return "\n".join(self._blocks(source.split("\n"))).strip("\n")

    def inline(self, text: str) -> str:
        """Text without directives: its roles, links and commands resolved."""
        text = _BARE.sub(lambda found: found[0].replace("{claim}", "{claim-mark}"), text)
        text = _ROLE.sub(self._role, text)
        for command, meaning in self.names.macros.items():
            text = re.sub(rf"\\{command}(?![a-zA-Z])", meaning.replace("\\", r"\\"), text)
        return _LINK.sub(lambda found: self.names.address(self._page(found["path"])), text)

    def _role(self, found: re.Match[str]) -> str:
        if found["code"]:
            return found[0]
        if found["role"] not in self.roles:
            raise self._fault(f"the role {{{found['role']}}}", "no meaning outside the book: give it one here")
        return self.roles[found["role"]](" ".join(found["text"].split()))

    def _fault(self, what: str, lacks: str) -> CompanionError:
        return CompanionError(f"notebooks/{self.name}.md: {what} has {lacks}")

    def _value(self, name: str) -> str:
        """What the code recorded under a name; where the chapter is not executed yet nothing is there."""
        return self.values.get(name, "…")

    def _place(self, text: str, shape: str = "{}") -> str:
        """A link to a section, theorem, exercise, figure or formula."""
        titled = _TARGET.match(text)
        label = titled["target"] if titled else text
        if label not in self.names.places:
            raise self._fault(f"the reference to {label!r}", "no target")
        place = self.names.places[label]
        title = titled["title"] if titled else shape.format(place.title)
        return f"[{title}]({self.names.address(place.page, place.anchor)})"

    def _page(self, path: str) -> str:
        """A page of the book by its path as seen from a notebook."""
        return path.removeprefix("../") if path.startswith("../") else f"notebooks/{path}"

    def _doc(self, text: str) -> str:
        titled = _TARGET.match(text)
        page = self._page((titled["target"] if titled else text).removeprefix("/"))
        if page not in self.names.pages:
            raise self._fault(f"the link to the page {page!r}", "no target")
        return f"[{titled['title'] if titled else self.names.pages[page]}]({self.names.address(page)})"

    def _cited(self, key: str, shape: str) -> str:
        if key.strip() not in self.names.cited:
            raise self._fault(f"the citation {key.strip()!r}", "no entry in the bibliography")
        authors, year, place = self.names.cited[key.strip()]
        return f"[{shape.format(authors, year)}]({self.names.address(place.page, place.anchor)})"

    def _claim(self, claim: str, shape: str) -> str:
        if claim not in self.names.verdicts:
            raise self._fault(f"the claim {claim!r}", "no entry in the register")
        verdict = self.names.verdicts[claim]
        address = self.names.address("book/register", f"claim-{claim}")
        return f"[{shape.format(mark=MARKS[verdict], claim=claim, verdict=verdict)}]({address})"

    def _blocks(self, lines: list[str]) -> Iterator[str]:
        """The lines of a text with its directives resolved."""
        plain: list[str] = []
        rest = iter(lines)
        for line in rest:
            opens, closes = _OPENS.match(line), _CLOSES.match(line)
            if opens or line.lstrip().startswith("```"):
                yield from self._plain(plain)
                plain = []
                inside = list(_until_closed(rest, line.lstrip()[0], line))
                yield from self._directive(opens, inside) if opens else (line, *inside, _fence(line))
            elif not closes and not _LABEL.match(line):
                plain.append(line)
        yield from self._plain(plain)

    def _plain(self, lines: list[str]) -> Iterator[str]:
        """Lines outside of directives; the number of a formula becomes part of it."""
        for line in _DENIED.sub(r"✗ \1", self.inline("\n".join(lines))).split("\n") if lines else ():
            numbered = _NUMBERED.match(line)
            yield f"\\tag{{{self.names.places[numbered['label']].title}}}\n$$" if numbered else line

    def _directive(self, opens: re.Match[str], inside: list[str]) -> Iterator[str]:
        name, argument = opens["name"], self.inline(opens["title"])
        options = {}
        while inside and (option := _OPTION.match(inside[0])):
            options[option["name"]] = option["value"]
            inside = inside[1:]
        content = list(self._blocks(inside))
        label = options.get("label", "")
        kind, _, theorem = name.partition(":")
        if name in ("admonition", "note", "warning", "tip"):
            lines = _quoted(argument or name.title(), content)
        elif name == "exercise" or (kind == "prf" and theorem != "proof"):
            known = self.names.places.get(label)
            title = known.title if known else (theorem or name).title()
            lines = _quoted(f"{title} ({argument})" if argument else title, content)
        elif name == "table":
            lines = [f"*{argument}*", "", *content]
        elif name == "prf:proof":
            lines = ["*Proof.*", *content]
        elif name in ("solution", "solution-start"):
            lines = [
                f"**Solution of {self.names.places[argument].title}**" if argument else "**Solution**",
                "",
                *content,
            ]
        elif name == "solution-end":
            lines = []
        else:
            raise self._fault(f"the directive {{{name}}}", "no meaning outside the book: give it one here")
        yield from (f"{opens['indent']}{line}" for line in lines)


def _until_closed(rest: Iterator[str], sign: str, opening: str) -> Iterator[str]:
    """The lines up to the one that closes a fence, which is used up."""
    for line in rest:
        closes = _CLOSES.match(line)
        if closes and closes["fence"][0] == sign and len(closes["fence"]) >= len(_fence(opening).strip()):
            return
        yield line


def _fence(line: str) -> str:
    found = re.match(r" *(:{3,}|`{3,})", line)
    assert found
    return found[0]


def _quoted(title: str, content: list[str]) -> list[str]:
    """A quotation under a bold title."""
    while content and not content[-1]:
        content = content[:-1]
    return [f"> **{title}**", ">", *(f"> {line}".rstrip() for text in content for line in text.split("\n"))]


def leftovers(page: Mapping[str, Any]) -> list[str]:
    """The book's markup that is left in a notebook's text: roles and fences of colons outside of code."""
    return [
        found["left"]
        for cell in page["cells"]
        if cell["cell_type"] == "markdown"
        for found in _LEFT.finditer("".join(cell["source"]))
        if found["left"]
    ]


def _markdown(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": text}


def _code(text: str) -> dict[str, Any]:
    return {"cell_type": "code", "metadata": {}, "source": text, "outputs": [], "execution_count": None}


def _cell(cell: dict[str, Any], text: Text) -> dict[str, Any]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return {**cell, "source": text(source)}
    source = runnable(source)
    folded = {"jupyter": {"source_hidden": True}} if "hide-input" in cell["metadata"].get("tags", ()) else {}
    outputs = [shown for output in cell["outputs"] for shown in _outputs(output, text)]
    return {**cell, "source": source, "outputs": outputs, "metadata": {**cell["metadata"], **folded}}


def _outputs(output: Mapping[str, Any], text: Text) -> Iterator[Mapping[str, Any]]:
    """An output as any reader of notebooks shows it: numbers for the prose are in the prose, a figure is a picture."""
    data = output.get("data", {})
    mark = output.get("metadata", {}).get("sumexp", {})
    if "figure" in mark:
        yield from _figure(mark["figure"], mark["alt"], "".join(data["text/html"]), text)
    elif "interactive" not in mark and not any(kind.startswith(RECORD) for kind in data):
        yield output  # what a hand moves needs the book's scripts


def _figure(name: str, alt: str, page: str, text: Text) -> Iterator[Mapping[str, Any]]:
    """The picture on white paper, and its caption."""
    picture = page[page.index("<svg") : page.index("</svg>") + len("</svg>")]
    picture = picture.replace("<svg ", '<svg style="color: #000; background: #fff" ', 1)
    shown = {"output_type": "display_data", "metadata": {}}
    yield {**shown, "data": {"image/svg+xml": picture, "text/plain": alt}}
    caption, source, made = _FIGURE.search(page), _SOURCE.search(page), _PROVENANCE.search(page)
    if caption:
        words = _unescaped(re.sub(r"<[^>]*>", "", _SPAN.sub(r"$\1$", caption["caption"])))
        known = text.names.places.get(f"fig-{name}")
        drawn = f" Drawn from [`{source['name']}`]({text.names.root}{source['page']})" if source else ""
        about = f"\n\n{drawn.strip()} · {made['text']}" if drawn and made else ""
        said = f"**{known.title if known else 'Figure'}.** {text.inline(words)}{about}"
        yield {**shown, "data": {"text/markdown": said, "text/plain": said}}


def _unescaped(text: str) -> str:
    from html import unescape

    return unescape(text)
