"""What pages need beyond Sphinx: proofs that unfold, theorems with letters, names for screen readers, docstrings."""

import re
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from docutils import nodes
from numpy.typing import ArrayLike
from pybtex.plugin import find_plugin, register_plugin
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment
from sphinx.ext.napoleon import GoogleDocstring
from sphinx.util.typing import stringify_annotation
from sphinx.writers.html5 import HTML5Translator
from sphinx_exercise.nodes import solution_node
from sphinx_proof.nodes import proof_node

_SIGNATURE = re.compile(r'<dt class="sig .*?</dt>', re.DOTALL)
_PAGES_BELOW = re.compile(r"(<a [^>]*>(.*?)</a><details[^>]*>)<summary>")
_EQUAL_IDS = re.compile(r'(<(?:div|section)\b[^>]*) id="(?:proof|(?:proof|exercise|solution)-content)"')
_PERMALINK = re.compile(r'(<a class="headerlink" href="[^"]*") title="([^"]*)"')
_FORMULA_ENDS = re.compile(r'(<span class="math notranslate nohighlight">[^<]*</span>)([,.;:)?!’”]+)')
_TAGS = re.compile(r"<[^>]*>")
_ARRAY_LIKE = stringify_annotation(ArrayLike, "fully-qualified")
_PRIVATE = re.compile(r"(?<=sumexp\.)((?:[a-z]\w*\.)*)_\w+\.")
_ARRAY = re.compile(
    r"numpy\.ndarray\[tuple\[(?:typing\.)?Any, \.\.\.\], numpy\.dtype\[([\w.]+)\]\]|(?<![\w.])NDArray\[([\w.]+)\]"
)


def accessible(html: str) -> str:
    """The theme's and Sphinx's HTML with what axe-core and readers miss in it."""
    html = html.replace(' aria-label="Toggle hidden content"', "")  # its text names it, of each cell differently
    sidebar, search = '<div id="pst-primary-sidebar"', 'search-button__button pst-js-only" title="Search"'
    html = html.replace(sidebar, f'{sidebar} role="navigation" aria-label="Book"')
    html = html.replace(f'{search} aria-label="Search"', search)  # it is called what stands on it
    html = html.replace('<div role="list" class="citation-list">', '<div class="citation-list">')
    html = re.sub(r'(<div class="citation"[^>]*) role="doc-biblioentry"', r"\1", html)
    html = _EQUAL_IDS.sub(r"\1", html)  # which all proofs and exercises of a page have
    html = _PAGES_BELOW.sub(lambda m: f'{m[1]}<summary aria-label="Pages of {_TAGS.sub("", m[2])}">', html)
    html = _FORMULA_ENDS.sub(r'<span class="keep">\1\2</span>', html)  # a browser may break the line before a comma
    html = _PERMALINK.sub(r'\1 aria-label="\2" title="\2"', html)
    return _SIGNATURE.sub(lambda m: _spread(m[0]), html)


def _spread(signature: str) -> str:
    """A signature whose parameters stand in lines, without a list inside the term of a list."""
    opened = signature.replace("<dl>", '<span class="sig-lines">').replace("<dd>", "<span>")
    return re.sub("</d[ld]>", "</span>", opened)


def letter_theorems(app: Sphinx, env: BuildEnvironment) -> None:
    """Theorem 3.A, not 3.1: no reader takes it for the Theorem 3.1 of the paper."""
    for numbers in env.toc_fignumbers.values():
        theorems: dict[str, Any] = numbers.get("theorem", {})
        for label, (*chapter, number) in theorems.items():
            if isinstance(number, int):
                theorems[label] = (*chapter, ascii_uppercase[number - 1])


def visit_solution(self: HTML5Translator, solution: nodes.Element) -> None:
    title = solution.pop(0)
    self.body.append(f"{self.starttag(solution, 'details')}<summary>{title.astext()}</summary>")


def visit_proof(self: HTML5Translator, proof: nodes.Element) -> None:
    begin = next(proof.findall(nodes.Text))
    begin.parent.replace(begin, nodes.Text(begin.removeprefix("Proof. ")))
    self.body.append(f"{self.starttag(proof, 'details', CLASS='folded-proof')}<summary>Proof</summary>")


def depart_folded(self: HTML5Translator, _: nodes.Element) -> None:
    self.body.append("</details>\n")


def refuse_unstaged(app: Sphinx, config: Config) -> None:
    """Say what to type where the outputs of notebooks and the register are missing: `jupyter-book build .` has none."""
    if not Path(app.srcdir, "book/_data").is_dir():
        raise SystemExit("error: these are the sources of the book, without outputs; build it by: make book")


# A colon in the text on a value makes no type of what stands before it.
GoogleDocstring._consume_inline_attribute = lambda docstring: ("", docstring._consume_to_end())


def forget_missing(app: Sphinx, env: BuildEnvironment) -> None:
    """Keep modules without code, such as builtins, out of viewcode's index, which would link to their pages."""
    modules: dict[str, Any] = getattr(env, "_viewcode_modules", {})
    vars(env)["_viewcode_modules"] = {name: entry for name, entry in modules.items() if entry}


def leave_out_fields(app: Sphinx, what: str, name: str, obj: object, skip: bool, options: object) -> bool | None:
    """Skip the fields of named tuples, which are listed among the variables."""
    return True if str(getattr(obj, "__doc__", "")).startswith("Alias for field number") else None


def name_types(*event: Any) -> tuple[str | None, ...]:
    """Types in a signature and of its value, the last of what Sphinx hands over, by their public names."""
    return tuple(types and array_types(types) for types in event[-2:])


def array_types(text: str) -> str:
    """Types by the names that a user knows: arrays, generators, and what private modules define."""
    named = _ARRAY.sub(r"numpy.typing.NDArray[\1\2]", text).replace("torch._C.Generator", "torch.Generator")
    return _PRIVATE.sub(r"\1", named.replace(_ARRAY_LIKE, "numpy.typing.ArrayLike"))


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
        doctree.next_node(nodes.section).insert(1, nodes.table("", group, classes=["summary"]))


def row_of(signature: nodes.Element, content: nodes.Element) -> nodes.row:
    """A name, which leads to its entry, and the first paragraph there."""
    name = nodes.literal("", signature["fullname"])
    link = nodes.reference("", "", name, refid=signature["ids"][0], internal=True)
    first = next(iter(content.findall(nodes.paragraph)), nodes.paragraph())
    return nodes.row("", nodes.entry("", nodes.paragraph("", "", link)), nodes.entry("", first.deepcopy()))


def setup(app: Sphinx) -> None:
    # Else it is looked for among all that is installed, at each citation.
    register_plugin("pybtex.backends", "plaintext", find_plugin("pybtex.backends", "plaintext"), force=True)
    app.connect("config-inited", refuse_unstaged)
    app.connect("builder-inited", lambda app: app.builder.templates.environment.filters.update(accessible=accessible))
    app.add_node(solution_node, override=True, html=(visit_solution, depart_folded))
    app.add_node(proof_node, override=True, html=(visit_proof, depart_folded))
    app.connect("env-check-consistency", letter_theorems)
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("env-updated", forget_missing)
    app.connect("autodoc-process-signature", name_types)
    app.connect("autodoc-process-docstring", name_fields, priority=600)  # after Napoleon
    app.connect("doctree-read", fields_first)
    app.connect("doctree-read", summarise)
    app.connect("autodoc-skip-member", leave_out_fields)
