"""Outputs of notebooks as pages may show them: neither a script nor markup of their own, whoever executed them.

Each build puts all outputs through this, its own too: what `figures` and `interactive` write comes out as it was.
"""

import json
import re
from collections.abc import Callable, Mapping
from secrets import token_hex
from typing import Any

import nh3

RECORD = "application/papermill.record/"
"""What the kinds of values begin with that the prose shows."""
_TAGS = {
    "a", "br", "caption", "code", "div", "em", "label", "li", "option", "output", "p", "pre", "select", "input",
    "span", "strong", "sub", "sup", "table", "tbody", "td", "th", "thead", "tr", "ul", "circle", "clipPath", "defs",
    "g", "image", "path", "pattern", "rect", "svg", "text", "title", "use",
}  # fmt: skip
_ATTRIBUTES = {
    "aria-atomic", "aria-hidden", "aria-label", "aria-labelledby", "aria-live", "aria-valuetext", "class",
    "clip-path", "cx", "cy", "d", "fill", "fill-opacity", "for", "height", "hidden", "href", "id", "max", "min",
    "patternUnits", "r", "role", "selected", "step", "stroke", "stroke-dasharray", "stroke-linecap",
    "stroke-linejoin", "stroke-width", "style", "tabindex", "transform", "type", "value", "version", "viewBox",
    "width", "x", "xmlns", "y",
}  # fmt: skip
_ADDRESSES = {"use": ("#",), "image": ("data:image/png;",), "a": ("https://", "http://", "#")}
"""By tag what an address begins with; other tags have none."""
_SCRIPT = '<script type="application/json">'
_TABLE = re.compile(rf"{_SCRIPT}(.*?)</script>", re.DOTALL)
_OPENING = re.compile(r"<(?=[A-Za-z/!?])|`(?=``)|:(?=::)|~(?=~~)|\}(?=`)|\](?=[(\[:])|\{(?=\{)")
"""Where HTML, a directive, a role, a link or picture, or a substitution begins in MyST."""
_SIGN = re.compile(r"[\\`*_{}\[\]<>|$&~]")


def literal(text: str) -> str:
    """A text as MyST shows it, letter by letter."""
    return _SIGN.sub(r"\\\g<0>", text)


def prose(text: str) -> str:
    """Markdown that may have emphasis, code and formulas: a blank parts what would begin anything else."""
    return _OPENING.sub(r"\g<0> ", text)


def picture(html: str) -> str:
    """HTML or SVG without scripts, event handlers and what asks another host, but for links."""

    def kept(tag: str, name: str, value: str) -> str | None:
        if name == "href":
            return value if value.startswith(_ADDRESSES.get(tag, ())) else None
        return None if "url(" in value.replace("url(#", "") else value

    return nh3.clean(
        html,
        tags=_TAGS,
        attributes={"*": _ATTRIBUTES},
        attribute_filter=kept,
        url_schemes={"data", "http", "https"},
        link_rel=None,
    )


def page(html: str) -> str:
    """The same, with the table of numbers that an interactive figure is drawn from."""
    found = _TABLE.search(html)
    if found is None:
        return picture(html)
    table = json.dumps(json.loads(found[1]), separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    place = token_hex()
    return picture(html.replace(found[0], place)).replace(place, f"{_SCRIPT}{table}</script>")


def noted(output: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the code of a notebook notes of an output: the name of a figure or number, a sentence, a guard."""
    found: Mapping[str, Any] = output.get("metadata", {}).get("sumexp", {})
    return found


def clean(output: Mapping[str, Any]) -> dict[str, Any]:
    """An output as a page may show it: kinds of data and fields of ours that pages read, each checked.

    One that no notebook of the book can have raises ValueError, TypeError, LookupError or AttributeError.
    """
    if output["output_type"] == "stream":
        return {"output_type": "stream", "name": str(output["name"]), "text": "".join(output["text"])}
    data = {kind: _KINDS[kind]("".join(text)) for kind, text in output["data"].items() if kind in _KINDS}
    about = noted(output)
    mark = {field: check(about[field]) for field, check in _FIELDS.items() if field in about}
    metadata: dict[str, Any] = {"sumexp": mark} if mark else {}
    if glued := mark.get("result", mark.get("sentence")):
        metadata["scrapbook"] = {"name": glued, "mime_prefix": RECORD}
    return {"output_type": "display_data", "data": data, "metadata": metadata}


def _matching(pattern: str) -> Callable[[str], str]:
    def checked(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"{value!r} is not of the form {pattern}")
        return value

    return checked


_KINDS: Mapping[str, Callable[[str], str]] = {
    "image/svg+xml": picture,
    "text/html": page,
    "text/plain": str,
    "text/csv": str,
    f"{RECORD}text/plain": str,
    f"{RECORD}text/markdown": prose,
}
_FIELDS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("figure", "result", "sentence", "interactive"), _matching(r"[a-z][a-z0-9-]*")),
    **dict.fromkeys(("caption", "alt", "text"), prose),
    "source": _matching(r"sumexp(\.\w+)*:\w+(\.\w+)*"),
    "guard": str,
    "narrow": picture,
}
