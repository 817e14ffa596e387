"""Where the search box leads: the words by which readers know a thing, and the order of what is found."""

import posixpath
import re
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.config import Config

INTRODUCTION = "book/intro"
"""The page that says, under ``HEAD``, which words stand for which chapter."""
HEAD = "| you may know it as | here |"
SCORER = Path(__file__).with_name("scorer.js")

_CHAPTER = re.compile(r"\{doc\}`([^`]+)`")


def words(text: str) -> dict[str, list[str]]:
    """The words that lead to each page, by the introduction's table: those of a row to the first page of the row."""
    if HEAD not in text:
        raise ValueError(f"{INTRODUCTION} has no table {HEAD!r}, by which words are found")
    rows = text.partition(HEAD)[2].strip().partition("\n\n")[0].splitlines()[1:]  # without the line under the head
    found: dict[str, list[str]] = {}
    for row in rows:
        _, known, here, _ = row.split("|")
        if (chapter := _CHAPTER.search(here)) is None:
            raise ValueError(f"a row of {HEAD!r} names no chapter: {row}")
        page = posixpath.normpath(posixpath.join(posixpath.dirname(INTRODUCTION), chapter[1]))
        found.setdefault(page, []).extend(word.strip() for word in known.split(","))
    return found


def lead(app: Sphinx, document: nodes.document) -> None:
    """Put the words that lead to this page into the index, which the search looks into first."""
    introduction = app.env.doc2path(INTRODUCTION)
    app.env.note_dependency(introduction)
    found = words(Path(introduction).read_text("utf-8")).get(app.env.docname, [])
    if found:
        entries = [("single", word, "", "main", None) for word in found]
        document.insert(0, addnodes.index(entries=entries, inline=False))


def order(app: Sphinx, config: Config) -> None:
    """Sphinx opens the scorer from where it runs, which is not the book's folder."""
    config.html_search_scorer = str(SCORER)


def setup(app: Sphinx) -> None:
    app.connect("config-inited", order)
    app.connect("doctree-read", lead)
