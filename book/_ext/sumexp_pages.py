"""What pages need beyond Sphinx: proofs and solutions that unfold, theorems with letters, names for screen readers."""

import re
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from docutils import nodes
from pybtex.plugin import find_plugin, register_plugin
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment
from sphinx.writers.html5 import HTML5Translator
from sphinx_exercise.nodes import solution_node
from sphinx_proof.nodes import proof_node

_SIGNATURE = re.compile(r'<dt class="sig .*?</dt>', re.DOTALL)
_PAGES_BELOW = re.compile(r"(<a [^>]*>(.*?)</a><details[^>]*>)<summary>")
_EQUAL_IDS = re.compile(r'(<(?:div|section)\b[^>]*) id="(?:proof|(?:proof|exercise|solution)-content)"')
_PERMALINK = re.compile(r'(<a class="headerlink" href="[^"]*") title="([^"]*)"')
_TAGS = re.compile(r"<[^>]*>")


def accessible(html: str) -> str:
    """The theme's and Sphinx's HTML with what axe-core misses in it."""
    html = html.replace(' aria-label="Toggle hidden content"', "")  # its text names it, of each cell differently
    sidebar, search = '<div id="pst-primary-sidebar"', 'search-button__button pst-js-only" title="Search"'
    html = html.replace(sidebar, f'{sidebar} role="navigation" aria-label="Book"')
    html = html.replace(f'{search} aria-label="Search"', search)  # it is called what stands on it
    html = html.replace('<div role="list" class="citation-list">', '<div class="citation-list">')
    html = re.sub(r'(<div class="citation"[^>]*) role="doc-biblioentry"', r"\1", html)
    html = _EQUAL_IDS.sub(r"\1", html)  # which all proofs and exercises of a page have
    html = _PAGES_BELOW.sub(lambda m: f'{m[1]}<summary aria-label="Pages of {_TAGS.sub("", m[2])}">', html)
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


def setup(app: Sphinx) -> None:
    # Else it is looked for among all that is installed, at each citation.
    register_plugin("pybtex.backends", "plaintext", find_plugin("pybtex.backends", "plaintext"), force=True)
    app.connect("config-inited", refuse_unstaged)
    app.connect("builder-inited", lambda app: app.builder.templates.environment.filters.update(accessible=accessible))
    app.add_node(solution_node, override=True, html=(visit_solution, depart_folded))
    app.add_node(proof_node, override=True, html=(visit_proof, depart_folded))
    app.connect("env-check-consistency", letter_theorems)
