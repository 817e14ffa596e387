"""Solutions and proofs that unfold; theorems with letters."""

from string import ascii_uppercase
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.writers.html5 import HTML5Translator
from sphinx_exercise.nodes import solution_node
from sphinx_proof.nodes import proof_node


def free_contents(app: Sphinx, doctree: nodes.document) -> None:
    """Make what an exercise or a solution holds a plain block: as sections they would all bear one id."""
    for section in list(doctree.findall(nodes.section)):
        if section["ids"] in (["exercise-content"], ["solution-content"]):
            section.parent.replace(section, nodes.container("", *section.children))


def letter_theorems(app: Sphinx, env: BuildEnvironment) -> None:
    """Theorem 3.A, not 3.1: no reader takes it for the Theorem 3.1 of the paper."""
    for numbers in env.toc_fignumbers.values():
        theorems: dict[str, Any] = numbers.get("theorem", {})
        for label, (*chapter, number) in theorems.items():
            if isinstance(number, int):
                theorems[label] = (*chapter, ascii_uppercase[number - 1])


class FoldParts(SphinxPostTransform):
    """Titles that open a solution or a proof; sphinx-exercise puts titles in at priority 21."""

    default_priority = 30
    formats = ("html",)

    def run(self, **_: object) -> None:
        for solution in self.document.findall(solution_node):
            solution[0] = nodes.raw("", f"<summary>{solution[0].astext()}</summary>", format="html")
        for proof in self.document.findall(proof_node):
            begin = next(proof.findall(nodes.Text))
            begin.parent.replace(begin, nodes.Text(begin.removeprefix("Proof. ")))
            proof.insert(0, nodes.raw("", "<summary>Proof</summary>", format="html"))


def visit_folded(self: HTML5Translator, node: nodes.Element) -> None:
    self.body.append(self.starttag(node, "details", CLASS="folded-proof" if isinstance(node, proof_node) else ""))


def depart_folded(self: HTML5Translator, _: nodes.Element) -> None:
    self.body.append("</details>\n")


def setup(app: Sphinx) -> None:
    for node in (solution_node, proof_node):
        app.add_node(node, override=True, html=(visit_folded, depart_folded))
    app.add_post_transform(FoldParts)
    app.connect("doctree-read", free_contents)
    app.connect("env-check-consistency", letter_theorems)
