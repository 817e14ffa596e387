"""What stands around the text of a page: landmarks and names that a screen reader needs, what a page says of itself."""

import re
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from pybtex.plugin import find_plugin, register_plugin
from sphinx.application import Sphinx
from sphinx.config import Config

_SIGNATURE = re.compile(r'<dt class="sig .*?</dt>', re.DOTALL)
_PAGES_BELOW = re.compile(r"(<a [^>]*>(.*?)</a><details[^>]*>)<summary>")
_COUNTED = re.compile(
    r'<div class="(?:proof (?P<kind>[a-z]+)|exercise) admonition" id="(?P<id>[a-z0-9-]+)">\s*'
    r'<p class="admonition-title">.*?(?=</p>)',
    re.DOTALL,
)
_PROOF = re.compile(r'(<(?:div|section)\b[^>]*) id="proof(?:-content)?"')  # of every proof of a page, by sphinx-proof
_PERMALINK = re.compile(r'(<a class="headerlink" href="[^"]*") title="([^"]*)"')
_TAGS = re.compile(r"<[^>]*>")
CARD = "_static/card.png"
"""The picture that a link to a page is shown with elsewhere: the bars of the book's first figure, under its title."""
LENGTH = 200
"""How much of a page's first paragraph its description has."""


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
    html = _COUNTED.sub(lambda m: m[0] + permalink(m["id"], m["kind"] or "exercise"), html)
    html = _PERMALINK.sub(r'\1 aria-label="\2" title="\2"', html)
    return _SIGNATURE.sub(lambda m: _spread(m[0]), html)


def permalink(target: str, kind: str) -> str:
    """What headings have: a link to a theorem or an exercise, which is seen where a reader points."""
    return f'<a class="headerlink" href="#{target}" title="Link to this {kind}">#</a>'


def _spread(signature: str) -> str:
    """A signature whose parameters stand in lines, without a list inside the term of a list."""
    opened = signature.replace("<dl>", '<span class="sig-lines">').replace("<dd>", "<span>")
    return re.sub("</d[ld]>", "</span>", opened)


def describe(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Give the template what the page says of itself where it is quoted: a description, how to cite it."""
    title = _TAGS.sub("", context.get("title", ""))
    first = next(iter(doctree.findall(nodes.paragraph)), None) if doctree else None
    text = " ".join(first.astext().split()) if first else ""
    context["author"] = app.config.author
    context["description"] = text if len(text) <= LENGTH else f"{text[:LENGTH].rsplit(' ', 1)[0]} …"
    address = context.get("pageurl") or ""
    context["bibtex"] = bibtex(page, title, app.config.author, app.config.copyright, address) if doctree else ""
    root = app.config.html_baseurl.rstrip("/")
    context["card"] = f"{root}/{CARD}" if root else ""  # empty where the pages have no address


def bibtex(page: str, title: str, author: str, year: str, address: str = "") -> str:
    """An entry for a list of references, with the address of the page if it is published."""
    key = f"sumexp-{page.rpartition('/')[2]}"
    fields = {"title": title, "author": f"{{{author}}}", "booktitle": "The Sum of Exponentials", "year": year}
    fields |= {"url": address} if address else {}
    lines = "".join(f"  {name} = {{{value}}},\n" for name, value in fields.items())
    return escape(f"@incollection{{{key},\n{lines}}}", quote=False)


def setup(app: Sphinx) -> None:
    # Else it is looked for among all that is installed, at each citation.
    register_plugin("pybtex.backends", "plaintext", find_plugin("pybtex.backends", "plaintext"), force=True)
    app.connect("config-inited", refuse_unstaged)
    app.connect("builder-inited", add_filter)
    app.connect("html-page-context", describe)


def refuse_unstaged(app: Sphinx, config: Config) -> None:
    """Say what to type where the outputs of notebooks and the register are missing: `jupyter-book build .` has none."""
    if not Path(app.srcdir, "book/_data").is_dir():
        raise SystemExit("error: these are the sources of the book, without outputs; build it by: make book")


def add_filter(app: Sphinx) -> None:
    templates = getattr(app.builder, "templates", None)
    if templates is not None:
        templates.environment.filters["accessible"] = accessible
