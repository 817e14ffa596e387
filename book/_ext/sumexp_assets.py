"""What the pages load: of MathJax and of the theme's icons what the book uses, as files next to the pages."""

import re
from base64 import b64encode
from importlib.metadata import distribution
from pathlib import Path
from shutil import copy2, copytree, ignore_patterns

from fontTools import subset
from sphinx.application import Sphinx

# SVG output carries its glyphs: some browsers refuse web fonts on file://.
MATHJAX = ("startup.js", "core.js", "input/tex.js", "output/svg.js", "a11y/assistive-mml.js")
EXTENSIONS = "input/tex/extensions"
GLYPHS = "output/svg/fonts/tex.js"
STYLES = re.compile(
    r"\(0,\w+\.AddPaths\)\(\w+\.(?:fraktur|monospace|sansSerif|texCalligraphicBold|texMathit|texOldstyle)\w*,"
    r"\{.*?\},\{.*?\}\)",
    re.DOTALL,
)
LETTERS = (0x1D468, 0x1D49B), (0x1D4D0, 0x1D537), (0x1D56C, 0x1D6A7), (0x1D71C, 0x1D7CD), (0x1D7D8, 0x1D7FF)
"""Alphabets that no formula of the book uses: half of the font. MathJax writes their letters in the browser's."""
ICONS = (
    "f002,f00d,f010,f03a,f042,f057,f058,f05a,f062,f064,f06a,f071,f078,f0c9,f0eb,f0f3,f104,f105,f107,f185,f186,f303,f35d"
)
"""What the theme's pages and style sheets draw; its whole font is 200 kB."""
PATH = re.compile(r'(\d+):"[^"]*",?')


def trimmed(glyphs: str) -> str:
    """MathJax's font without the shapes that no formula of the book uses."""

    def if_used(path: re.Match[str]) -> str:
        return path[0] * (not any(first <= int(path[1]) <= last for first, last in LETTERS))

    return PATH.sub(if_used, STYLES.sub("0", glyphs))


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
    font, kept = static / "vendor/fontawesome/webfonts/fa-solid-900.ttf", static / "icons.woff"
    options = "--flavor=woff", "--layout-features=", "--no-recalc-timestamp"
    subset.main([str(font), f"--unicodes={ICONS}", f"--output-file={kept}", *options])
    # As data: some browsers refuse fonts in files on file://.
    data = b64encode(kept.read_bytes()).decode()
    face = f'font-family: "Font Awesome 6 Free"; font-weight: 900; src: url(data:font/woff;base64,{data})'
    (static / "icons.css").write_text(f"@font-face {{ {face}; }}\n", "utf-8")


def setup(app: Sphinx) -> None:
    app.connect("build-finished", copy_assets)
