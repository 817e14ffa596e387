"""What the pages load: of MathJax and of the theme's icons what the book uses, as both come with far more."""

import re
from base64 import b64encode
from importlib.metadata import distribution
from io import BytesIO
from pathlib import Path
from shutil import copy2, copytree, ignore_patterns
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

# SVG output carries its glyphs: web fonts are refused on file:// by some browsers.
MATHJAX = ("startup.js", "core.js", "input/tex.js", "output/svg.js", "a11y/assistive-mml.js")
EXTENSIONS = "input/tex/extensions"
GLYPHS = "output/svg/fonts/tex.js"
UNUSED_STYLES = (
    *("frakturBold", "fraktur", "monospace", "sansSerifBoldItalic", "sansSerifBold", "sansSerifItalic", "sansSerif"),
    *("texCalligraphicBold", "texMathit", "texOldstyleBold", "texOldstyle"),
)
"""Alphabets that no formula of the book uses; MathJax writes their letters in a font of the browser."""
UNUSED_LETTERS = (
    *((0x1D468, 0x1D49B), (0x1D4D0, 0x1D537), (0x1D56C, 0x1D6A7), (0x1D71C, 0x1D7CD), (0x1D7D8, 0x1D7FF)),
    (0x2600, 0x27BF),
)
"""The same alphabets where Unicode has them: bold italic, bold script, Fraktur, sans serif, monospace; and dingbats."""
BOLD = 0x2000
"""In bold there are letters only: no operators, which begin here."""
ICONS = (
    *("angle-left", "angle-right", "arrow-up", "bars", "chevron-down", "circle-half-stroke", "download", "file"),
    *("file-pdf", "list", "magnifying-glass", "moon", "rocket", "sun", "xmark"),
)
"""Icons that the theme's pages name by class; those that its style sheets draw are found in these."""

BY_HAND = '<div id="by-hand-'
"""How an interactive figure begins."""

_TEST = re.compile(r"\s*(?:async )?def (test_\w+)")
_PATH = re.compile(r'(\d+):"[^"]*",?')
_STYLE = re.compile(r"AddPaths\)\(\w+\.(\w+),\{(.*?)\}", re.DOTALL)
_ICON = re.compile(r"([^{}]*\.fa-[a-z0-9-]+:{1,2}before[^{}]*)\{[^{}]*\}")
_CONTENT = re.compile(r'content:"\\([0-9a-f]{4})"')


def trimmed(glyphs: str) -> str:
    """MathJax's font without the shapes that no formula of the book uses."""

    def is_used(style: str, code: int) -> bool:
        unused = style in UNUSED_STYLES or (style == "bold" and code >= BOLD)
        return not (unused or any(a <= code <= b for a, b in UNUSED_LETTERS))

    def style(found: re.Match[str]) -> str:
        name, paths = found.groups()
        return found[0].replace(paths, _PATH.sub(lambda path: path[0] * is_used(name, int(path[1])), paths))

    return _STYLE.sub(style, glyphs)


def icon_codes(css: str) -> set[int]:
    """The icons that a style sheet draws."""
    escaped = {int(code, 16) for code in _CONTENT.findall(css)}
    return escaped | {ord(letter) for letter in css if 0xE000 <= ord(letter) < 0xF900}


def without_icons(css: str) -> str:
    """A style sheet without the rules that say which letter each icon is, but for those of `ICONS`."""
    named = {f".fa-{name}:{end}" for name in ICONS for end in ("before", ":before")}
    return _ICON.sub(lambda rule: rule[0] if named & set(rule[1].split(",")) else "", css)


def icons(static: Path) -> str:
    """A style sheet that holds the icons in use: data, as fonts in files are refused on file:// by some browsers."""
    from fontTools import subset

    css = "".join(file.read_text("utf-8") for file in sorted((static / "styles").glob("*.css")))
    options = subset.Options(flavor="woff", recalc_timestamp=False, layout_features=[])
    font = subset.load_font(str(static / "vendor/fontawesome/webfonts/fa-solid-900.ttf"), options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=icon_codes(css))
    subsetter.subset(font)
    held = BytesIO()
    subset.save_font(font, held, options)
    data = b64encode(held.getvalue()).decode()
    face = 'font-family: "Font Awesome 6 Free"; font-weight: 900'
    return f"@font-face {{ {face}; src: url(data:font/woff;base64,{data}); }}\n"


def with_anchors(source: str) -> str:
    """A test module as HTML; each test can be linked to."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    code = highlight(source, PythonLexer(stripnl=False), HtmlFormatter(nowrap=True)).split("\n")
    tests = (_TEST.match(line) for line in source.split("\n"))
    lines = (f'<a id="{test[1]}"></a>{line}' if test else line for test, line in zip(tests, code, strict=False))
    return "\n".join(lines)


def copy_assets(app: Sphinx, error: Exception | None) -> None:
    """Copy them next to the pages once these are written: every page loads scripts that are there earlier."""
    if error or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    source = Path(str(distribution("sphinx-mathjax-offline").locate_file("sphinx-mathjax-offline/static/mathjax")))
    for name in (*MATHJAX, GLYPHS):
        target = static / "mathjax" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        copy2(source / name, target)
    # Without \href, by which a formula could lead to a script.
    unused = ignore_patterns("html.js", "require.js", "texhtml.js")
    copytree(source / EXTENSIONS, static / "mathjax" / EXTENSIONS, ignore=unused, dirs_exist_ok=True)
    (static / "mathjax" / GLYPHS).write_text(trimmed((source / GLYPHS).read_text("utf-8")), "utf-8")
    theme = static / "styles" / "pydata-sphinx-theme.css"
    theme.write_text(without_icons(theme.read_text("utf-8")), "utf-8")
    (static / "icons.css").write_text(icons(static), "utf-8")
    deciding = Path(app.srcdir, "book/_data/tests")
    for file in sorted(deciding.rglob("*.py")):
        name = file.relative_to(deciding)
        target = Path(app.outdir, "_tests", name).with_suffix(".html")
        target.parent.mkdir(parents=True, exist_ok=True)
        code = with_anchors(file.read_text("utf-8"))
        context = {"name": name.as_posix(), "code": code, "up": "../" * len(name.parts)}
        target.write_text(app.builder.templates.render("test-source.html", context), "utf-8")


def load_by_hand(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Only pages with an interactive figure load its scripts and styles."""
    if doctree and any(BY_HAND in part.astext() for part in doctree.findall(nodes.raw)):
        for style in ("uplot/uPlot.min.css", "interactive.css"):
            app.add_css_file(style)
        for script in ("uplot/uPlot.iife.min.js", "interactive.js"):
            app.add_js_file(script, loading_method="defer")


def setup(app: Sphinx) -> None:
    app.connect("html-page-context", load_by_hand)
    app.connect("build-finished", copy_assets)
