"""The book's figures: one style, legible on white and on dark paper, the same bytes every time.

Importing this module sets matplotlib's defaults, and leaves showing figures to `show` (``%matplotlib inline`` undoes
that). `show` turns black into the colour of the text, which follows the reader's theme. The colours of `PALETTE` stand
out from white and from dark grey (contrast 3 or more) and from one another for colour-blind readers.
"""

import io
import math
import re
import textwrap
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import matplotlib.pyplot as plt
from cycler import cycler
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.legend import Legend
from matplotlib.text import Text

from claimbook import BookError
from claimbook.authoring import series
from claimbook.authoring.results import check_name, typeset

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
PHONE = 3.7
"""The same of a phone of 390 pixels."""
_TALLEST = 2.9  # inches of a panel on a phone, unless it has more rows of names than fit there
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
plt.style.use(["default", _STYLE])  # whatever the user's matplotlibrc says
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
    place = f"{source.__module__}:{getattr(source, '__qualname__', '<partial>')}"  # as entry points name a function
    alt, caption = typeset(alt.strip()), typeset(caption.strip())
    about = {"figure": name, "alt": alt, "caption": caption, "source": "" if "<" in place else place}
    if missing := [part for part, text in about.items() if not text]:
        raise BookError(f"figure {name!r} has no {missing[0]}: pass a text, or as source a function of a module")
    numbers = series.table(fig)
    data = {"image/svg+xml": svg(fig, name, alt)} | ({"text/csv": numbers} if numbers else {})
    if fig.get_figwidth() > PHONE:
        stack(fig, columns)
        about["narrow"] = svg(fig, f"{name}-narrow", alt)
    plt.close(fig)
    display(data, raw=True, metadata={"sumexp": about})  # type: ignore[no-untyped-call]


def svg(fig: Figure, name: str, alt: str) -> str:
    """A figure as an inline SVG with the same bytes every time: transparent, with ids that no other figure has."""
    file = io.StringIO()
    with plt.rc_context({"svg.hashsalt": name}):
        fig.savefig(file, format="svg", transparent=True)
    text = file.getvalue().replace("#000000", "currentColor").replace("xlink:href", "href")
    for pattern, replacement in _CHANGES.items():
        text = re.sub(pattern, replacement, text, flags=re.DOTALL)
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


def stack(fig: Figure, columns: int | None = None) -> None:
    """Lay a grid of panels out for a phone, in place; by default half as many stand side by side."""
    places = {ax: spec for ax in fig.axes if (spec := ax.get_subplotspec()) is not None}
    panels: list[Any] = sorted(places, key=lambda ax: places[ax].num1)
    grid: Any = places[panels[0]].get_gridspec()
    height = fig.get_figheight() / grid.nrows
    columns = min(grid.ncols, columns or max(1, grid.ncols // 2))
    if columns < grid.ncols:
        _show_hidden_labels(panels, columns)
        grid = GridSpec(math.ceil(len(panels) / columns), columns, figure=fig)
        for number, ax in enumerate(panels):
            ax.set_subplotspec(grid[divmod(number, columns)])
    tall = [0.0] * grid.nrows
    for ax in panels:
        row = ax.get_subplotspec().rowspan.start
        tall[row] = max(tall[row], _fit_texts(fig, ax, PHONE / columns, height))
    grid.set_height_ratios(tall)
    fig.set_size_inches(PHONE, sum(tall))
    extra = sum(_place_above(fig, fig, legend, PHONE) for legend in list(fig.legends))
    for ax in panels:
        if legend := ax.get_legend():
            extra += _place_above(fig, fig if len(panels) == 1 else ax, legend, PHONE / columns)
    fig.set_size_inches(PHONE, sum(tall) + extra)


def _show_hidden_labels(panels: Sequence[Any], columns: int) -> None:
    """Give each panel the labels that it shared: those of the leftmost in its row and the lowest in its column."""
    places = [(ax.get_subplotspec().rowspan.start, ax.get_subplotspec().colspan.start, ax) for ax in panels]
    for number, (row, column, ax) in enumerate(places):
        left = next(panel for its_row, _, panel in places if its_row == row)
        in_column = [panel for _, its_column, panel in places if its_column == column]
        if len(ax.get_shared_y_axes().get_siblings(ax)) > 1 and number % columns == 0:
            ax.yaxis.set_tick_params(labelleft=True)
            ax.set_ylabel(ax.get_ylabel() or left.get_ylabel())
        ax.xaxis.set_tick_params(labelbottom=True)
        ax.set_xlabel(ax.get_xlabel() or in_column[-1].get_xlabel())
        ax.set_title(ax.get_title() or in_column[0].get_title())


def _fit_texts(fig: Figure, ax: Axes, width: float, height: float) -> float:
    """Wrap a panel's texts; returns its height in inches."""
    left, height = 1.0, min(_TALLEST, height)
    if names := [label for label in ax.get_yticklabels() if re.match(r"[^$]*[A-Za-z“]{2}", label.get_text())]:
        for name in names:
            _wrap(fig, name, width / 2)
        ax.set_yticks(ax.get_yticks(), [name.get_text() for name in names])
        left = max(name.get_window_extent().width for name in names) / fig.dpi + 0.4
        most = 1 + max(name.get_text().count("\n") for name in names)
        height = max(height, 0.8 + len(names) * (0.12 + 0.22 * most))
    _wrap(fig, ax.title, width - left)
    _wrap(fig, ax.xaxis.label, width - left)
    _wrap(fig, ax.yaxis.label, height - 0.8, upright=True)
    return height


def _wrap(fig: Figure, text: Text, room: float, upright: bool = False) -> None:
    """Wrap a text that is wider than the room, in inches; formulas stay whole."""
    side, room = "height" if upright else "width", fig.dpi * max(room, 0.1)
    whole = re.sub(r"\$[^$]*\$", lambda formula: formula[0].replace(" ", "\xa0"), text.get_text())
    most = max(map(len, whole.split("\n")))
    canvas: Any = fig.canvas  # measures the text anew: the last drawing was an SVG, of 72 dots an inch
    while (length := getattr(text.get_window_extent(canvas.get_renderer()), side)) > room and most > 1:
        most = min(most - 1, max(1, int(most * room / length)))
        lines = textwrap.fill(whole, most, break_long_words=False, break_on_hyphens=False)
        text.set_text(lines.replace("\xa0", " "))


def _place_above(fig: Figure, owner: Any, legend: Legend, room: float) -> float:
    """Redraw a legend above its panels, in as many columns as fit; returns its height in inches."""
    texts = [text.get_text() for text in legend.get_texts()]
    known = {label: handle for ax in fig.axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    handles = [known.get(text, handle) for text, handle in zip(texts, legend.legend_handles, strict=True)]
    style: dict[str, Any] = {"loc": "outside upper center", "fontsize": legend.get_texts()[0].get_fontsize()}
    if isinstance(owner, Axes):
        style |= {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0)}
    for count in range(len(texts), 0, -1):
        legend.remove()
        legend = owner.legend(handles, texts, ncols=count, **style)
        if legend.get_window_extent().width <= room * fig.dpi:
            break
    for text in legend.get_texts():
        _wrap(fig, text, room - 0.6)
    height = float(legend.get_window_extent().height / fig.dpi)
    if isinstance(owner, Axes) and owner.get_title():
        owner.set_title(owner.get_title(), pad=72 * height + 10)
    return height
