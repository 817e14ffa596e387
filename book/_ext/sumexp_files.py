"""What lies next to the pages: of MathJax and the icons what they load; downloads; the index of the search box."""

import json
import posixpath
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Callable
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any, ClassVar

import sphinx.search
from docutils import nodes
from fontTools import subset
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.docutils import sphinx_domains
from sumexp_book import DATA, entries, parsed, read

from claimbook.pipeline import notebook_export

CHAPTERS = "notebooks/"
GLYPHS = "output/svg/fonts/tex.js"  # SVG carries its glyphs: some browsers refuse web fonts on file://
# Without \href, by which a formula could lead to a script.
UNUSED = ignore_patterns("*html.js", "require.js", "sre*", "mml*", "*chtml*", "tex-*", "ui", "node*", "ascii*")
STYLES = re.compile(
    r"(?s)\(0,\w+\.AddPaths\)\(\w+\.(?:fraktur|monospace|sansSerif|texCalligraphicBold|texMathit|texOldstyle)\w*,"
    r"\{.*?\},\{.*?\}\)"
)
ALPHABETS = (0x1D468, 0x1D49C), (0x1D4D0, 0x1D538), (0x1D56C, 0x1D6A8), (0x1D71C, 0x1D7CE), (0x1D7D8, 0x1D800)
LETTERS = {letter for alphabet in ALPHABETS for letter in range(*alphabet)}
"""Those that no formula of the book uses: half of the font. MathJax writes them in the browser's."""
ICONS = (
    "f002,f00d,f010,f03a,f042,f057,f058,f05a,f062,f064,f06a,f071,f078,f0c9,f0eb,f0f3,f104,f105,f107,f185,f186,f303,f35d"
)
"""What the theme's pages and style sheets draw; its whole font is 200 kB."""
PATH = re.compile(r'(\d+):"[^"]*",?')
WORDS = "book/words"  # the page with a table of words and the pages that they stand for
ROW = re.compile(r"(?m)^\| (.+) \| \{doc\}`([^`]+)`")


def trimmed(glyphs: str) -> str:
    """MathJax's font without the shapes that no formula of the book uses."""
    return PATH.sub(lambda path: "" if int(path[1]) in LETTERS else path[0], STYLES.sub("0", glyphs))


def copy_assets(app: Sphinx) -> None:
    """Copy scripts and icons: only now, as every page loads the scripts that are there before it is written."""
    static = Path(app.outdir) / "_static"
    source = Path(str(distribution("sphinx-mathjax-offline").locate_file("sphinx-mathjax-offline/static/mathjax")))
    copytree(source, static / "mathjax", ignore=UNUSED, dirs_exist_ok=True)
    (static / "mathjax" / GLYPHS).write_text(trimmed((source / GLYPHS).read_text("utf-8")), "utf-8")
    font, kept = static / "vendor/fontawesome/webfonts/fa-solid-900.ttf", static / "icons.woff"
    options = "--flavor=woff", "--layout-features=", "--no-recalc-timestamp"
    subset.main([str(font), f"--unicodes={ICONS}", f"--output-file={kept}", *options])
    # As data: some browsers refuse fonts in files on file://.
    data = b64encode(kept.read_bytes()).decode()
    face = f'font-family: "Font Awesome 6 Free"; font-weight: 900; src: url(data:font/woff;base64,{data})'
    (static / "icons.css").write_text(f"@font-face {{ {face}; }}\n", "utf-8")


def resolver(app: Sphinx, page: str, address: str) -> Callable[[str], str]:
    """What roles print on a page, from what Sphinx makes of them there: it warns of those that it does not know."""
    settings = app.env.get_doctree(app.config.root_doc).settings  # any page's; this one is small

    @cache
    def resolve(role: str) -> str:
        app.env.prepare_settings(page)
        with sphinx_domains(app.env):
            document = read(role, page, settings)
        app.env.resolve_references(document, page, app.builder)
        return markdown(document, address)

    return resolve


def markdown(node: nodes.Node, address: str) -> str:
    """The words, code and links of a node."""
    if isinstance(node, nodes.literal):
        return f"`{node.astext()}`"
    text = "".join(markdown(child, address) for child in node.children) or node.astext()
    if isinstance(node, nodes.reference):
        target = node.get("refuri") or f"#{node['refid']}"
        return f"[{text}]({notebook_export.link(address, target)})"
    return text


def copy_downloads(app: Sphinx) -> None:
    """Copy the notebooks next to their pages, the chapters' sources to the others', the data of figures to a folder."""
    source, out = Path(app.srcdir), Path(app.outdir)
    root, repository = app.config.html_baseurl.rstrip("/"), app.config.html_context.get("repository", "")
    verdicts = {entry.id: entry.verdict for entry in entries(app)}
    macros = app.config.mathjax3_config["tex"]["macros"]
    package = f"git+{repository}" if repository else ""
    for file in sorted((source / CHAPTERS).glob("*.ipynb")):
        page = f"{CHAPTERS}{file.stem}"
        address = f"{root}/{page}.html" if root else f"{file.stem}.html"
        resolve = resolver(app, page, address)
        book = notebook_export.Book(address, resolve, verdicts, macros, app.config.html_title, package)
        chapter = notebook_export.notebook(parsed(app, f"{page}.ipynb"), book)
        text = json.dumps(chapter, indent=1, ensure_ascii=False)
        (out / CHAPTERS / file.name).write_text(f"{text}\n", "utf-8")
        (out / "_sources" / CHAPTERS / file.name).unlink(missing_ok=True)
    for folder, target in (("written", f"_sources/{CHAPTERS}"), ("figures", "_figures")):
        if Path(source, DATA, folder).exists():
            copytree(Path(source, DATA, folder), out / target, dirs_exist_ok=True)


def finish(app: Sphinx, error: Exception | None) -> None:
    if not error and app.builder.format == "html":
        copy_assets(app)
        copy_downloads(app)


def words(text: str) -> dict[str, list[str]]:
    """The words that lead to each page, by the table of `WORDS`: those of a row to the first page of the row."""
    leading: dict[str, list[str]] = {}
    for known, page in ROW.findall(text):
        leading.setdefault(posixpath.normpath(f"book/{page}"), []).extend(known.split(", "))
    return leading


def lead(app: Sphinx, document: nodes.document) -> None:
    """Put the words that lead to this page into the index, which the search looks into first."""
    if leading := words(Path(app.env.doc2path(WORDS)).read_text("utf-8")).get(app.env.docname):
        document.insert(0, addnodes.index(entries=[("single", word, "", "main", None) for word in leading]))


class Counting(sphinx.search.IndexBuilder):
    """Sphinx's index with the number of times that each page has each word, by which searching.js ranks pages."""

    counts: ClassVar[dict[str, Counter[str]]] = {}

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
    app.connect("build-finished", finish)
