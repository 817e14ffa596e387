"""Landmarks and names that a screen reader needs around the text of a page; how citations are found."""

import re
from pathlib import Path

from pybtex.plugin import find_plugin, register_plugin
from sphinx.application import Sphinx
from sphinx.config import Config

_SIGNATURE = re.compile(r'<dt class="sig .*?</dt>', re.DOTALL)
_PAGES_BELOW = re.compile(r"(<a [^>]*>(.*?)</a><details[^>]*>)<summary>")
_PROOF = re.compile(r'(<(?:div|section)\b[^>]*) id="proof(?:-content)?"')  # of every proof of a page, by sphinx-proof
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
    html = _PROOF.sub(r"\1", html)
    html = _PAGES_BELOW.sub(lambda m: f'{m[1]}<summary aria-label="Pages of {_TAGS.sub("", m[2])}">', html)
    html = _PERMALINK.sub(r'\1 aria-label="\2" title="\2"', html)
    return _SIGNATURE.sub(lambda m: _spread(m[0]), html)


def _spread(signature: str) -> str:
    """A signature whose parameters stand in lines, without a list inside the term of a list."""
    opened = signature.replace("<dl>", '<span class="sig-lines">').replace("<dd>", "<span>")
    return re.sub("</d[ld]>", "</span>", opened)


def setup(app: Sphinx) -> None:
    # Else it is looked for among all that is installed, at each citation.
    register_plugin("pybtex.backends", "plaintext", find_plugin("pybtex.backends", "plaintext"), force=True)
    app.connect("config-inited", refuse_unstaged)
    app.connect("builder-inited", add_filter)


def refuse_unstaged(app: Sphinx, config: Config) -> None:
    """Say what to type where the outputs of notebooks and the register are missing: `jupyter-book build .` has none."""
    if not Path(app.srcdir, "book/_data").is_dir():
        raise SystemExit("error: these are the sources of the book, without outputs; build it by: make book")


def add_filter(app: Sphinx) -> None:
    templates = getattr(app.builder, "templates", None)
    if templates is not None:
        templates.environment.filters["accessible"] = accessible
