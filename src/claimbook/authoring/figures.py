"""The book's figures: one style, legible on white and on dark paper, the same bytes every time.

Importing this module sets matplotlib's defaults, and leaves showing figures to `show` (``%matplotlib inline`` undoes
that). Black is *ink*: `show` turns it into the colour of the surrounding text, which follows the reader's theme.
Everything else is drawn in `PALETTE`, whose colours stand out from white and from dark grey (contrast 3 or more) and
from one another for colour-blind readers.
"""

import io
import re
from collections.abc import Callable
from html import escape
from typing import Any

import matplotlib.pyplot as plt
from cycler import cycler
from IPython.display import display
from matplotlib.figure import Figure

from claimbook import BookError
from claimbook.authoring import narrow, series
from claimbook.authoring.results import check_name

PALETTE = {
    "blue": "#1f78b4",
    "vermilion": "#d55e00",
    "green": "#009e73",
    "purple": "#b86fa0",
    "ochre": "#a87b00",
    "grey": "#808080",
}
"""After Okabe and Ito, the pale ones darkened."""
NOISES = {
    "gumbel": {"color": PALETTE["blue"], "linestyle": "-", "marker": "s"},
    "gaussian": {"color": PALETTE["green"], "linestyle": "--", "marker": "o"},
    "logistic": {"color": PALETTE["purple"], "linestyle": "-.", "marker": "D"},
    "uniform": {"color": PALETTE["vermilion"], "linestyle": ":", "marker": "^"},
    "cauchy": {"color": PALETTE["ochre"], "linestyle": (0, (5, 1, 1, 1, 1, 1)), "marker": "v"},
}
"""How each noise is drawn in every chapter: ``ax.plot(x, y, **NOISES["gumbel"])``."""
WIDTH = 7.0
"""Inches: what the text column of a page holds at the size where a 12 pt letter is as large as the text around it."""
_STYLE: Any = {
    "figure.figsize": (WIDTH, 3.6),
    "figure.constrained_layout.use": True,
    "font.size": 12,
    "axes.titlesize": "medium",
    "axes.prop_cycle": cycler(color=list(PALETTE.values())),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "black",
    "grid.alpha": 0.15,
    "lines.linewidth": 2.0,
    "legend.frameon": False,
}
plt.rcParams.update(_STYLE)
plt.switch_backend("agg")

# Matplotlib's style sheet for ``*`` would reach the whole page; it leaves out a black fill, with which SVG begins.
_ROOT = 'stroke-linejoin="round" stroke-linecap="butt" fill="currentColor"'
_CHANGES = {
    r"^.*?(?=<svg)|<!--.*?-->|<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>": "",
    r'(?<=<g) id="[^"]*"|(?<= )id="image[^"]*" ': "",  # to which nothing refers
    r"\s*\n\s*": " ",
    r"> <": "><",
    r' ?\b([CLMQz]) (?=[-\d"CLMQ])': r"\1",  # of a path
}


def show(
    fig: Figure, name: str, *, caption: str, alt: str, source: Callable[..., object], columns: int | None = None
) -> None:
    """Show a figure, the numbers that it draws as CSV, and the same figure laid out for a phone; then close it.

    Args:
        fig: a matplotlib figure.
        name: used once in the book; prose refers to it by ``{ref}`fig-NAME```.
        caption: what is drawn and what to see in it, in Markdown; ``$...$`` is typeset.
        alt: what the picture shows, for those who cannot see it.
        source: the function of the package whose numbers are drawn; the page links to its source and to the cell.
        columns: panels side by side on a phone; half as many as on a desk, if not given.
    """
    check_name("figure", name, "bias-by-m")
    reference = f"{source.__module__}:{source.__qualname__}"  # as entry points name a function
    about = {"figure": name, "alt": alt.strip(), "caption": caption.strip(), "source": reference}
    if missing := [part for part, text in about.items() if not text]:
        raise BookError(f"figure {name!r} has no {missing[0]}: pass {missing[0]}='...'")
    numbers = series.table(fig)
    data = {"image/svg+xml": svg(fig, name, alt)} | ({"text/csv": numbers} if numbers else {})
    if fig.get_figwidth() > narrow.WIDTH:
        narrow.stack(fig, columns)
        about["narrow"] = svg(fig, f"{name}-narrow", alt)
    plt.close(fig)
    display(data, raw=True, metadata={"sumexp": about})  # type: ignore[no-untyped-call]


def svg(fig: Figure, name: str, alt: str) -> str:
    """A figure as an inline SVG with the same bytes every time: transparent, with ids that no other figure has."""
    file = io.StringIO()
    with plt.rc_context({"svg.hashsalt": name}):
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        fig.savefig(file, format="svg", transparent=True, metadata=nothing)
    text = file.getvalue().replace("#000000", "currentColor").replace("xlink:href", "href")
    for found, put in _CHANGES.items():
        text = re.sub(found, put, text, flags=re.DOTALL)
    text = re.sub(r"<g([^>]*)>((?:<use [^>]*/>)+)</g>", _with_style_once, text)
    text = re.sub(r"-?\d+\.\d+", lambda number: f"{float(number[0]):.4g}", text)
    text = re.sub(r'( id="|href="#|url\(#)', rf"\1{name}-", text)
    root = f'<svg role="img" aria-labelledby="{name}-title" {_ROOT}'
    return text.replace("<svg", root, 1).replace(">", f'><title id="{name}-title">{escape(alt)}</title>', 1)


def _with_style_once(marks: re.Match[str]) -> str:
    """A group of equal marks with their style on the group, unless it says how they show through one another."""
    style, *others = {*re.findall(r' style="[^"]*"', marks[2])} or {""}
    if others or " style=" in marks[1] or re.search("(?<!-)opacity", style):
        return marks[0]
    return f"<g{marks[1]}{style}>{marks[2].replace(style, '')}</g>" if style else marks[0]
