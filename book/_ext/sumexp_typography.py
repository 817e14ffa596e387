"""Formulas without LaTeX's escapes; solutions that unfold."""

from re import compile as pattern

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.writers.html5 import HTML5Translator
from sphinx_exercise.nodes import solution_node

IN_TEXT = pattern(r"\\(?:text|textrm|mbox)\{[^{}]*\}")


def free_contents(app: Sphinx, doctree: nodes.document) -> None:
    """Make what an exercise or a solution holds a plain block: as sections they would all bear one id."""
    for section in list(doctree.findall(nodes.section)):
        if section["ids"] in (["exercise-content"], ["solution-content"]):
            section.parent.replace(section, nodes.container("", *section.children))


def plain_texts(app: Sphinx, doctree: nodes.document) -> None:
    """Words within a formula: LaTeX wants their underscores escaped, MathJax would show the backslash."""
    for formula in (*doctree.findall(nodes.math), *doctree.findall(nodes.math_block)):
        if "\\_" in (text := formula.astext()):
            formula[:] = [nodes.Text(IN_TEXT.sub(lambda found: found[0].replace("\\_", "_"), text))]


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


def setup(app: Sphinx) -> None:
    app.add_node(solution_node, override=True, html=(visit_solution, depart_solution))
    app.add_post_transform(FoldSolutions)
    app.connect("doctree-read", free_contents)
    app.connect("doctree-read", plain_texts)
