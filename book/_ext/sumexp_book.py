"""What the book needs of Sphinx beyond its settings: pages that stand on their own, figures that can be linked to."""

from importlib.metadata import distribution
from pathlib import Path
from re import compile as pattern
from shutil import copyfile, copytree

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole
from sphinx.writers.html5 import HTML5Translator
from sphinx_exercise.nodes import solution_node

logger = logging.getLogger(__name__)

# SVG output carries its glyphs: web fonts are refused on file:// by some browsers.
MATHJAX = "tex-svg.js"
MATHJAX_EXTENSIONS = "input/tex/extensions"
PUNCTUATION = pattern(r"[.,;:!?)’”]+")
FIGURE = pattern(r'<figure id="fig-([a-z0-9-]+)"')


def set_mathjax_path(app: Sphinx, config: Config) -> None:
    config.mathjax_path = f"mathjax/{MATHJAX}"


def copy_mathjax(app: Sphinx, error: Exception | None) -> None:
    """Lay MathJax beside the pages once they are written: scripts that lie there earlier are loaded by every page."""
    if error or app.builder.format != "html":
        return
    source = Path(str(distribution("sphinx-mathjax-offline").locate_file("sphinx-mathjax-offline/static/mathjax")))
    target = Path(app.outdir) / "_static" / "mathjax"
    target.mkdir(parents=True, exist_ok=True)
    copyfile(source / MATHJAX, target / MATHJAX)
    copytree(source / MATHJAX_EXTENSIONS, target / MATHJAX_EXTENSIONS, dirs_exist_ok=True)


def name_figures(app: Sphinx, doctree: nodes.document) -> None:
    """Let ``{ref}`fig-NAME``` find figure NAME, and ``#cell-NAME`` the cell that draws it; a name serves once."""
    labels = app.env.get_domain("std")
    number = 0
    for cell in doctree.findall(lambda node: isinstance(node, nodes.container) and "cell" in node["classes"]):
        for raw in cell.findall(nodes.raw):
            for name in FIGURE.findall(raw.astext()):
                label = f"fig-{name}"
                if label in labels.labels:
                    where = app.env.doc2path(labels.labels[label][0])
                    logger.warning("figure %r: %s has one of this name, take another", name, where, location=cell)
                number += 1
                labels.note_hyperlink_target(label, app.env.docname, label, f"Figure {number}")
                cell["ids"].append(f"cell-{name}")


def keep_punctuation(app: Sphinx, doctree: nodes.document) -> None:
    """Keep a formula and the punctuation after it on one line, where a browser would break between the two."""
    for formula in list(doctree.findall(nodes.math)):
        parent, after = formula.parent, formula.next_node(descend=False, siblings=True)
        mark = PUNCTUATION.match(after.astext()) if isinstance(after, nodes.Text) else None
        if mark:
            parent.replace(after, nodes.Text(after.astext()[mark.end() :]))
            together = nodes.inline("", classes=["nobreak"])
            parent.replace(formula, together)
            together += [formula, nodes.Text(mark[0])]


def free_contents(app: Sphinx, doctree: nodes.document) -> None:
    """Make what an exercise or a solution holds a plain block: as sections they would all bear one id."""
    for section in list(doctree.findall(nodes.section)):
        if section["ids"] in (["exercise-content"], ["solution-content"]):
            section.parent.replace(section, nodes.container("", *section.children))


class FoldSolutions(SphinxPostTransform):
    """A solution's title is what opens it; sphinx-exercise puts titles in at priority 21."""

    default_priority = 30
    formats = ("html",)

    def run(self, **_: object) -> None:
        for solution in self.document.findall(solution_node):
            solution[0] = nodes.raw("", f"<summary>{solution[0].astext()}</summary>", format="html")


def visit_solution(self: HTML5Translator, node: solution_node) -> None:
    self.body.append(self.starttag(node, "details"))


def depart_solution(self: HTML5Translator, _: solution_node) -> None:
    self.body.append("</details>\n")


class ClaimRole(SphinxRole):
    """``{claim}`bias-thm-3-1``` is a link to the claim's entry in the register."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        page = self.env.app.builder.get_relative_uri(self.env.docname, "book/register")
        link = nodes.reference("", "", internal=True, refuri=f"{page}#claim-{self.text}")
        link += nodes.literal(self.text, self.text)
        return [link], []


def setup(app: Sphinx) -> dict[str, object]:
    app.add_role("claim", ClaimRole())
    app.add_node(solution_node, override=True, html=(visit_solution, depart_solution))
    app.add_post_transform(FoldSolutions)
    app.connect("config-inited", set_mathjax_path)
    app.connect("doctree-read", free_contents)
    app.connect("doctree-read", name_figures)
    app.connect("doctree-read", keep_punctuation)
    app.connect("build-finished", copy_mathjax)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
