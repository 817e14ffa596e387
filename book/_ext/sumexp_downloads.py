"""What a reader takes away of a page: the executed notebook, its source, the data behind its figures."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from shutil import copytree

from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.application import Sphinx
from sphinx.util.docutils import new_document, sphinx_domains

from claimbook.pipeline import notebook_export
from claimbook.register import read_json

UNPUBLISHED = (
    "the pages offer no Colab or Binder and no links to edit or report: "
    "set html_baseurl and html_context.repository in _config.yml where the book is published"
)
DATA = Path("book/_data")
CHAPTERS = "notebooks/"


def resolver(app: Sphinx, page: str, address: str) -> Callable[[str], str]:
    """What roles print on a page, from what Sphinx makes of them there: it warns of those that it does not know."""
    settings = app.env.get_doctree(app.config.root_doc).settings  # any page's; this one is small

    @cache
    def resolve(role: str) -> str:
        document = new_document(page, settings)
        app.env.prepare_settings(page)
        with sphinx_domains(app.env):
            MystParser().parse(role, document)
        app.env.resolve_references(document, page, app.builder)
        return markdown(document, address)

    return resolve


def markdown(node: nodes.Node, address: str) -> str:
    """The words, code and links of a node."""
    if isinstance(node, nodes.literal):
        return f"`{node.astext()}`"
    text = "".join(markdown(child, address) for child in node.children) or node.astext()
    if isinstance(node, nodes.reference):
        target = node.get("refuri") or f"#{node['refid']}"
        return f"[{text}]({notebook_export.link(address, target)})"
    return text


def write(app: Sphinx, error: Exception | None) -> None:
    """Copy the notebooks next to their pages, the chapters' sources to the others', the data of figures to a folder."""
    source, out = Path(app.srcdir), Path(app.outdir)
    if error or app.builder.format != "html":
        return
    root, repository = app.config.html_baseurl.rstrip("/"), app.config.html_context.get("repository", "")
    if not repository:
        print(UNPUBLISHED)
    verdicts = {entry.id: entry.verdict for entry in read_json(source / DATA / "register.json")}
    macros = app.config.mathjax3_config["tex"]["macros"]
    package = f"git+{repository}" if repository else ""
    for file in sorted((source / CHAPTERS).glob("*.ipynb")):
        page = f"{CHAPTERS}{file.stem}"
        address = f"{root}/{page}.html" if root else f"{file.stem}.html"
        resolve = resolver(app, page, address)
        book = notebook_export.Book(address, resolve, verdicts, macros, app.config.html_title, package)
        chapter = notebook_export.notebook(json.loads(file.read_text("utf-8")), book)
        text = json.dumps(chapter, indent=1, ensure_ascii=False)
        (out / CHAPTERS / file.name).write_text(f"{text}\n", "utf-8")
        (out / "_sources" / CHAPTERS / file.name).unlink(missing_ok=True)
    for folder, target in (("written", f"_sources/{CHAPTERS}"), ("figures", "_figures")):
        if (source / DATA / folder).exists():
            copytree(source / DATA / folder, out / target, dirs_exist_ok=True)


def setup(app: Sphinx) -> None:
    app.connect("build-finished", write)
