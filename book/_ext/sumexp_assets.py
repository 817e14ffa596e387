"""What the pages load beside their text: MathJax, the theme's icons, what a figure that a hand can move is drawn by."""

import re
from base64 import b64encode
from importlib.metadata import distribution
from pathlib import Path
from shutil import copy2, copytree
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config

# SVG output carries its glyphs: web fonts are refused on file:// by some browsers.
MATHJAX = ("startup.js", "core.js", "input/tex.js", "output/svg.js", "output/svg/fonts/tex.js", "a11y/assistive-mml.js")
EXTENSIONS = "input/tex/extensions"
ICONS = "vendor/fontawesome/webfonts/fa-solid-900.woff2"

BY_HAND = '<div id="by-hand-'
"""How a figure that a hand can move begins."""

_TEST = re.compile(r"\s*(?:async )?def (test_\w+)")


def icons(font: bytes) -> str:
    """A style sheet that holds the theme's icons: data, as fonts in files are refused on file:// by some browsers."""
    return (
        '@font-face { font-family: "Font Awesome 6 Free"; font-weight: 900; '
        f"src: url(data:font/woff2;base64,{b64encode(font).decode()}); }}\n"
    )


def source_page(name: str, source: str) -> str:
    """A page that shows a test module; each test can be linked to."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    up = "../" * (1 + name.count("/"))
    code = highlight(source, PythonLexer(stripnl=False), HtmlFormatter(nowrap=True)).split("\n")
    tests = (_TEST.match(line) for line in source.split("\n"))
    lines = (f'<a id="{test[1]}"></a>{line}' if test else line for test, line in zip(tests, code, strict=False))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>'
        f'{name}</title>\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<script>document.documentElement.dataset.theme = localStorage.getItem('theme') || "
        "(matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');</script>\n"
        f'<link rel="stylesheet" href="{up}_static/pygments.css">\n'
        f'<link rel="stylesheet" href="{up}_static/source.css"></head>\n<body><main><h1>{name}</h1>\n'
        f'<p>These tests decide claims of <a href="{up}book/register.html">the register</a>.</p>\n'
        '<div class="highlight" tabindex="0" role="region" aria-label="Source"><pre>'
        + "\n".join(lines)
        + "</pre></div></main></body></html>\n"
    )


def set_mathjax(app: Sphinx, config: Config) -> None:
    config.mathjax_path = f"mathjax/{MATHJAX[0]}"


def copy_assets(app: Sphinx, error: Exception | None) -> None:
    """Lay them beside the pages once they are written: scripts that lie there earlier are loaded by every page."""
    if error or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    source = Path(str(distribution("sphinx-mathjax-offline").locate_file("sphinx-mathjax-offline/static/mathjax")))
    for name in MATHJAX:
        target = static / "mathjax" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        copy2(source / name, target)
    copytree(source / EXTENSIONS, static / "mathjax" / EXTENSIONS, dirs_exist_ok=True)
    (static / "icons.css").write_text(icons((static / ICONS).read_bytes()), "utf-8")
    deciding = Path(app.srcdir, "book/_data/tests")
    for file in sorted(deciding.rglob("*.py")):
        name = file.relative_to(deciding)
        target = Path(app.outdir, "_tests", name).with_suffix(".html")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(source_page(str(name), file.read_text("utf-8")), "utf-8")


def load_by_hand(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """A page with a figure that a hand can move loads what draws it; the others do not."""
    if doctree and any(BY_HAND in part.astext() for part in doctree.findall(nodes.raw)):
        for style in ("uplot/uPlot.min.css", "interactive.css"):
            app.add_css_file(style)
        for script in ("uplot/uPlot.iife.min.js", "interactive.js"):
            app.add_js_file(script, loading_method="defer")


def setup(app: Sphinx) -> dict[str, object]:
    app.connect("config-inited", set_mathjax)
    app.connect("html-page-context", load_by_hand)
    app.connect("build-finished", copy_assets)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
