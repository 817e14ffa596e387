"""Where lines break and where they must not; formulas without LaTeX's escapes; solutions that unfold."""

from re import compile as pattern

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.writers.html5 import HTML5Translator
from sphinx_exercise.nodes import solution_node

WORD_JOINER = "\u2060"  # stands before the mark of a verdict, with which no line begins
SHORT = 28  # letters of code that a line of a phone has room for, even in a list
PUNCTUATION = pattern(r"[.,;:!?)’”]+")
OPENING = pattern(r"[(\[‘“]+$")
IN_TEXT = pattern(r"\\(?:text|textrm|mbox)\{[^{}]*\}")


def keep_punctuation(app: Sphinx, doctree: nodes.document) -> None:
    """Keep a formula, a bracket before it, and marks of verdicts and punctuation after it on one line.

    A browser would break the line at each of them.
    """
    for formula in list(doctree.findall(nodes.math)):
        parent = formula.parent
        start = parent.index(formula)
        end = start + 1
        if parent[end:] and parent[end].astext() == WORD_JOINER:
            while parent[end:] and (isinstance(parent[end], nodes.raw) or parent[end].astext() == WORD_JOINER):
                end += 1
        before, after = parent[:start][-1:], parent[end : end + 1]
        bracket = OPENING.search(before[0]) if before and isinstance(before[0], nodes.Text) else None
        mark = PUNCTUATION.match(after[0]) if after and isinstance(after[0], nodes.Text) else None
        if mark or bracket or end > start + 1:
            if bracket:
                parent[start - 1] = nodes.Text(bracket.string[: bracket.start()])
            if mark:
                parent[end] = nodes.Text(mark.string[mark.end() :])
            texts = [nodes.Text(found[0]) if found else None for found in (bracket, mark)]
            kept = [texts[0], *parent[start:end], texts[1]]
            parent[start:end] = [nodes.inline("", "", *filter(None, kept), classes=["nobreak"])]


def free_contents(app: Sphinx, doctree: nodes.document) -> None:
    """Make what an exercise or a solution holds a plain block: as sections they would all bear one id."""
    for section in list(doctree.findall(nodes.section)):
        if section["ids"] in (["exercise-content"], ["solution-content"]):
            section.parent.replace(section, nodes.container("", *section.children))


def keep_names(app: Sphinx, doctree: nodes.document) -> None:
    """Let no line end within a short name of code: ``--`` alone is no option."""
    for literal in doctree.findall(nodes.literal):
        words = literal.astext().split()
        if words and max(map(len, words)) <= SHORT:
            literal["classes"].append("whole")


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
    app.connect("doctree-read", keep_punctuation, priority=600)  # after claims have become marks
    app.connect("doctree-read", plain_texts)
    app.connect("doctree-read", keep_names)
