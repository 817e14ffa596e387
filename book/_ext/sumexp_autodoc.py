"""Docstrings on the pages: types as a user names them, and what autodoc and viewcode leave behind as it should be."""

from re import compile as pattern
from typing import Any

from docutils import nodes
from numpy.typing import ArrayLike
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.typing import stringify_annotation

ARRAY_LIKE = stringify_annotation(ArrayLike, "fully-qualified")
ARRAY = pattern(r"numpy\.ndarray\[tuple\[(?:typing\.)?Any, \.\.\.\], numpy\.dtype\[([\w.]+)\]\]")


def forget_unused(app: Sphinx, env: BuildEnvironment) -> None:
    """Leave the same pages of code however many pages were read.

    Those that no page links to appear where all is read at once, and vanish where one page is read again.
    """
    modules: dict[str, Any] = getattr(env, "_viewcode_modules", {})
    for name in [name for name, entry in modules.items() if not entry or not entry[2]]:
        del modules[name]


def leave_out_fields(app: Sphinx, what: str, name: str, obj: object, skip: bool, options: object) -> bool | None:
    """The fields of a named tuple stand among its variables: no entry of their own says that one is its third."""
    return True if str(getattr(obj, "__doc__", "")).startswith("Alias for field number") else None


def name_types(
    app: Sphinx, what: str, name: str, obj: object, options: object, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """NumPy's types by the names that code gives them: what they stand for takes half a page in a signature."""
    return signature and array_types(signature), returned and array_types(returned)


def array_types(text: str) -> str:
    """Array types and generators by the names that a user knows."""
    named = ARRAY.sub(r"numpy.typing.NDArray[\1]", text).replace("torch._C.Generator", "torch.Generator")
    return named.replace(ARRAY_LIKE, "numpy.typing.ArrayLike")


def mend_docstring(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """What stands before a colon in the text on a value is no type, for which Napoleon takes it: types are in code."""
    lines[:] = [array_types(line) for line in lines]
    at = next((place for place, line in enumerate(lines) if line.startswith(":type: ")), None)
    if what in ("attribute", "data", "property") and at is not None:
        start = lines.pop(at).removeprefix(":type: ")
        lines[0] = f"{start}: {lines[0]}"


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
    app.connect("env-updated", forget_unused)
    app.connect("autodoc-process-signature", name_types)
    app.connect("autodoc-process-docstring", mend_docstring, priority=600)  # after Napoleon
    app.connect("doctree-read", plain_types)
    app.connect("autodoc-skip-member", leave_out_fields)
