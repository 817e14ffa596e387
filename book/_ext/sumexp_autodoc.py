"""Docstrings on the pages: types as a user names them, parameters first, a table of names."""

from re import compile as pattern
from typing import Any

from docutils import nodes
from numpy.typing import ArrayLike
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.ext.autodoc import ALL, Documenter, ModuleDocumenter
from sphinx.ext.napoleon import GoogleDocstring
from sphinx.util.typing import stringify_annotation

ARRAY_LIKE = stringify_annotation(ArrayLike, "fully-qualified")
PRIVATE = pattern(r"(?<=sumexp\.)((?:[a-z]\w*\.)*)_\w+\.")
ARRAY = pattern(r"numpy\.ndarray\[tuple\[(?:typing\.)?Any, \.\.\.\], numpy\.dtype\[([\w.]+)\]\]")

# A colon in the text on a value makes no type of what stands before it.
GoogleDocstring._consume_inline_attribute = lambda docstring: ("", docstring._consume_to_end())


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


def name_fields(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Types in docstrings by their public names."""
    lines[:] = [array_types(line) for line in lines]


def fields_first(app: Sphinx, doctree: nodes.document) -> None:
    """Parameters, results and errors right after the first sentence and its formula; the rest goes on as notes."""
    for content in doctree.findall(addnodes.desc_content):
        defined = 2 if len(content) > 1 and isinstance(content[1], nodes.math_block) else 1
        fields = content.first_child_matching_class(nodes.field_list)
        if fields is not None and fields > defined:
            content.insert(defined, [content.pop(fields), nodes.rubric("", "Notes")])


def summarise(app: Sphinx, doctree: nodes.document) -> None:
    """A page of the API opens with a table of its names in the order of the page, which is that of use."""
    described = [entry for entry in doctree.findall(addnodes.desc) if entry.get("domain") == "py" and entry[0]["ids"]]
    rows = [row_of(entry[0], entry[-1]) for entry in described if "." not in entry[0]["fullname"]]
    if app.env.docname.startswith("book/api/") and rows:
        columns = nodes.colspec(colwidth=30), nodes.colspec(colwidth=70)
        group = nodes.tgroup("", *columns, nodes.tbody("", *rows), cols=2)
        doctree[0].insert(1, nodes.table("", group, classes=["summary"]))


def row_of(signature: nodes.Element, content: nodes.Element) -> nodes.row:
    """A name, which leads to its entry, and the first paragraph there."""
    name = nodes.literal("", signature["fullname"])
    link = nodes.reference("", "", name, refid=signature["ids"][0], internal=True)
    first = next(iter(content.findall(nodes.paragraph)), nodes.paragraph())
    return nodes.row("", nodes.entry("", nodes.paragraph("", "", link)), nodes.entry("", first.deepcopy()))


def setup(app: Sphinx) -> None:
    app.setup_extension("sphinx.ext.autodoc")
    app.add_autodocumenter(Listed, override=True)
    app.connect("env-updated", forget_missing)
    app.connect("autodoc-process-signature", name_types)
    app.connect("autodoc-process-docstring", name_fields, priority=600)  # after Napoleon
    app.connect("doctree-read", fields_first)
    app.connect("doctree-read", summarise)
    app.connect("autodoc-skip-member", leave_out_fields)
