"""Docstrings on the pages: types as a user names them, parameters first, a table of names."""

from collections.abc import Iterator
from re import compile as pattern
from typing import Any

from docutils import nodes
from numpy.typing import ArrayLike
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.ext.autodoc import ALL, Documenter, ModuleDocumenter
from sphinx.util.typing import stringify_annotation

ARRAY_LIKE = stringify_annotation(ArrayLike, "fully-qualified")
PRIVATE = pattern(r"(?<=sumexp\.)((?:[a-z]\w*\.)*)_\w+\.")
FIELD = pattern(r":(?:param|returns|rtype|raises|type|yields)\b")
ARRAY = pattern(r"numpy\.ndarray\[tuple\[(?:typing\.)?Any, \.\.\.\], numpy\.dtype\[([\w.]+)\]\]")


class Listed(ModuleDocumenter):
    """A module whose members, where a page lists them, stand in the order of the list: that of use."""

    def sort_members(self, documenters: list[tuple[Documenter, bool]], order: str) -> list[tuple[Documenter, bool]]:
        return super().sort_members(documenters, order) if self.options.members is ALL else documenters


def forget_missing(app: Sphinx, env: BuildEnvironment) -> None:
    """Keep modules without code, such as builtins, out of viewcode's index, which would link to their pages."""
    modules: dict[str, Any] = getattr(env, "_viewcode_modules", {})
    for name in [name for name, entry in modules.items() if not entry]:
        del modules[name]


def leave_out_fields(app: Sphinx, what: str, name: str, obj: object, skip: bool, options: object) -> bool | None:
    """Skip the fields of named tuples, which are listed among the variables."""
    return True if str(getattr(obj, "__doc__", "")).startswith("Alias for field number") else None


def name_types(
    app: Sphinx, what: str, name: str, obj: object, options: object, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Types in signatures by their public names."""
    return signature and array_types(signature), returned and array_types(returned)


def array_types(text: str) -> str:
    """Types by the names that a user knows: arrays, generators, and what private modules define."""
    named = ARRAY.sub(r"numpy.typing.NDArray[\1]", text).replace("torch._C.Generator", "torch.Generator")
    return PRIVATE.sub(r"\1", named.replace(ARRAY_LIKE, "numpy.typing.ArrayLike"))


def mend_docstring(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Undo Napoleon reading "text:" at the start of an attribute's docstring as its type."""
    lines[:] = [array_types(line) for line in lines]
    at = next((place for place, line in enumerate(lines) if line.startswith(":type: ")), None)
    if what in ("attribute", "data", "property") and at is not None:
        start = lines.pop(at).removeprefix(":type: ")
        lines[0] = f"{start}: {lines[0]}"
    lines[:] = fields_first(lines)


def fields_first(lines: list[str]) -> list[str]:
    """Parameters, results and errors right after the first sentence and its formula; the rest goes on as notes."""
    start = next((place for place, line in enumerate(lines) if FIELD.match(line)), len(lines))
    end = start
    while end < len(lines) and (FIELD.match(lines[end]) or not lines[end] or lines[end][0] == " "):
        end += 1
    blocks = [f"{block}\n" for block in "\n".join(lines[:start]).strip("\n").split("\n\n")]
    defined = 2 if blocks[1:] and blocks[1].startswith(".. math::") else 1
    while blocks[defined:] and blocks[defined][0] == " ":  # the formula goes on
        defined += 1
    if start == end or not blocks[defined:]:
        return lines
    head, notes = ("\n".join(part).split("\n") for part in (blocks[:defined], blocks[defined:]))
    return [*head, *lines[start:end], "", ".. rubric:: Notes", "", *notes, *lines[end:]]


def summarise(app: Sphinx, doctree: nodes.document) -> None:
    """A page of the API opens with a table of its names in the order of the page, which is that of use."""
    entries = [row for entry in doctree.findall(addnodes.desc) for row in row_of(entry)]
    if not app.env.docname.startswith("book/api/") or not entries:
        return
    body = nodes.tbody("", *entries)
    group = nodes.tgroup("", nodes.colspec(colwidth=30), nodes.colspec(colwidth=70), body, cols=2)
    doctree[0].insert(1, nodes.table("", group, classes=["summary"]))


def row_of(entry: addnodes.desc) -> Iterator[nodes.row]:
    """The name of a function or class, which leads to it, and its first sentence; none for a method or a field."""
    signature, content = entry[0], entry[-1]
    if entry.get("domain") != "py" or "." in signature["fullname"] or not signature["ids"]:
        return
    name = nodes.literal("", signature["fullname"])
    link = nodes.reference("", "", name, refid=signature["ids"][0], internal=True)
    first = next(iter(content.findall(nodes.paragraph)), nodes.paragraph())
    said = nodes.paragraph()
    for part in first.children:
        text, stop, _ = part.astext().partition(". ") if isinstance(part, nodes.Text) else ("", "", "")
        said += nodes.Text(f"{text}.") if stop else part.deepcopy()
        if stop:
            break
    yield nodes.row("", nodes.entry("", nodes.paragraph("", "", link)), nodes.entry("", said))


def plain_types(app: Sphinx, doctree: nodes.document) -> None:
    """Types that pass by the events of autodoc: of properties; and those that a name stands for, with code's quotes."""
    for annotation in doctree.findall(addnodes.desc_annotation):
        if (shown := array_types(annotation.astext())) != annotation.astext():
            annotation[:] = [nodes.Text(shown)]
    for paragraph in doctree.findall(nodes.paragraph):
        if paragraph.astext().startswith("alias of "):
            for text in list(paragraph.findall(nodes.Text)):
                text.parent.replace(text, nodes.Text(text.replace("‘", "'").replace("’", "'")))


def setup(app: Sphinx) -> None:
    app.setup_extension("sphinx.ext.autodoc")
    app.add_autodocumenter(Listed, override=True)
    app.connect("env-updated", forget_missing)
    app.connect("autodoc-process-signature", name_types)
    app.connect("autodoc-process-docstring", mend_docstring, priority=600)  # after Napoleon
    app.connect("doctree-read", plain_types)
    app.connect("doctree-read", summarise)
    app.connect("autodoc-skip-member", leave_out_fields)
