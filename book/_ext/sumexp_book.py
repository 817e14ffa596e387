"""What the book needs of Sphinx beyond its settings: pages that stand on their own, figures that can be linked to."""

from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path
from re import compile as pattern
from shutil import copyfile, copytree

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole
from sphinx.writers.html5 import HTML5Translator
from sphinx_exercise.nodes import solution_node
from sphinx_proof.domain import ProofDomain

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
    """Let ``{ref}`fig-NAME``` find figure NAME, and ``#cell-NAME`` the cell that draws it."""
    labels = app.env.get_domain("std")
    names = []
    for cell in doctree.findall(lambda node: isinstance(node, nodes.container) and "cell" in node["classes"]):
        for raw in cell.findall(nodes.raw):
            for name in FIGURE.findall(raw.astext()):
                names.append(f"fig-{name}")
                labels.note_hyperlink_target(names[-1], app.env.docname, names[-1], f"Figure {len(names)}")
                cell["ids"].append(f"cell-{name}")
    declared(app.env)[app.env.docname] = names


def note_names(app: Sphinx, _: nodes.document) -> None:
    """Keep the labels and the labels of formulas that a page declares, beside its figures."""
    domains = app.env.get_domain("std").anonlabels, app.env.get_domain("math").equations
    page = app.env.docname
    found = [name for names in domains for name, (where, _) in names.items() if where == page]
    declared(app.env)[page] += [name for name in found if not name.startswith("fig-")]


def declared(env: BuildEnvironment) -> dict[str, list[str]]:
    """For each page the names it declares, kept with what was read."""
    if not hasattr(env, "sumexp_names"):
        env.sumexp_names = {}
    names: dict[str, list[str]] = env.sumexp_names
    return names


def forget_names(app: Sphinx, env: BuildEnvironment, page: str) -> None:
    declared(env).pop(page, None)


def merge_names(app: Sphinx, env: BuildEnvironment, pages: list[str], other: BuildEnvironment) -> None:
    declared(env).update({page: names for page, names in declared(other).items() if page in pages})


def check_names(app: Sphinx, env: BuildEnvironment) -> None:
    """A name serves once in the book; Sphinx looks no further than what one process has read."""
    pages: dict[str, list[str]] = {}
    for page, names in sorted(declared(env).items()):
        for name in names:
            pages.setdefault(name, []).append(page)
    for name, places in pages.items():
        if len(places) > 1:
            logger.warning("%r is declared in %s; take another name", name, " and in ".join(places))


def import_once(app: Sphinx, env: BuildEnvironment, pages: list[str]) -> None:
    """What describing the package imports is imported before the processes part."""
    if app.parallel > 1 and any(page.startswith("book/api/") for page in pages):
        import_module("torch")


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


class Proofs(ProofDomain):
    """Theorems as sphinx-proof has them; it keeps them elsewhere, so that of several processes nothing is to merge."""

    def merge_domaindata(self, docnames: list[str], otherdata: dict[str, object]) -> None:
        pass


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
    if "sphinx_proof" in app.extensions:
        app.add_domain(Proofs, override=True)
    app.connect("config-inited", set_mathjax_path)
    app.connect("doctree-read", free_contents)
    app.connect("doctree-read", name_figures)
    app.connect("doctree-read", note_names, priority=900)
    app.connect("env-purge-doc", forget_names)
    app.connect("env-merge-info", merge_names)
    app.connect("env-check-consistency", check_names)
    app.connect("env-before-read-docs", import_once)
    app.connect("doctree-read", keep_punctuation)
    app.connect("build-finished", copy_mathjax)
    # It numbers sections once everything is read, in the main process, and does not say so.
    if numbering := app.extensions.get("sphinx_multitoc_numbering"):
        numbering.parallel_read_safe = True
    return {"version": "2", "parallel_read_safe": True, "parallel_write_safe": True}
