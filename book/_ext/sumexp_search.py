"""Where the search box leads: the words by which readers know a thing, and how often each page has a word."""

import posixpath
import re
from collections import Counter
from pathlib import Path
from typing import Any

import sphinx.search
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

WORDS = "book/words"
"""The page with a table of words and the pages that they stand for."""
_ROW = re.compile(r"(?m)^\| (.+) \| \{doc\}`([^`]+)`")


def words(text: str) -> dict[str, list[str]]:
    """The words that lead to each page, by the table of `WORDS`: those of a row to the first page of the row."""
    found: dict[str, list[str]] = {}
    for known, page in _ROW.findall(text):
        found.setdefault(posixpath.normpath(f"book/{page}"), []).extend(known.split(", "))
    return found


def lead(app: Sphinx, document: nodes.document) -> None:
    """Put the words that lead to this page into the index, which the search looks into first."""
    if found := words(Path(app.env.doc2path(WORDS)).read_text("utf-8")).get(app.env.docname):
        entries = [("single", word, "", "main", None) for word in found]
        document.insert(0, addnodes.index(entries=entries, inline=False))


class Counting(sphinx.search.IndexBuilder):
    """Sphinx's index with the number of times that each page has each word, by which searching.js ranks pages."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.counts: dict[str, Counter[str]] = {}

    def feed(self, docname: str, filename: str, title: str, doctree: nodes.document) -> None:
        super().feed(docname, filename, title, doctree)
        collected = self._word_collector(doctree)
        stems = (self.lang.stem(word).lower() for word in (*collected.words, *collected.title_words))
        self.counts[docname] = Counter(filter(self.lang.word_filter, stems))

    def freeze(self) -> dict[str, Any]:
        """With ``counts``: for each word page, number, page, number, ... in the place of Sphinx's lists of pages."""
        frozen = super().freeze()
        counts: dict[str, list[int]] = {}
        for place, docname in enumerate(frozen["docnames"]):
            for word, number in sorted(self.counts.get(docname, {}).items()):
                counts.setdefault(word, []).extend((place, number))
        return frozen | {"counts": dict(sorted(counts.items())), "terms": {}, "titleterms": {}}


def setup(app: Sphinx) -> None:
    sphinx.search.IndexBuilder = Counting  # type: ignore[misc]  # Sphinx has no setting for it
    app.connect("doctree-read", lead)
