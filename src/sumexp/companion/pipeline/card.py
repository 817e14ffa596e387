"""The picture that a link to a page is shown with elsewhere: the bars of the book's first figure, under its title."""

import csv
from io import BytesIO
from pathlib import Path

from sumexp.companion import CompanionError

NAME = "card.png"
SIZE = (1200, 630)
"""Pixels, as those who show such pictures ask for."""
FIGURE = "one-step.csv"
"""In the folder of the figures' data."""


def bars(data: str) -> tuple[list[list[tuple[float, float]]], list[float]]:
    """The pieces of each bar from left to right, as their ends, and where each bar's black line stands.

    Args:
        data: a figure's series as CSV, see `sumexp.companion.authoring.series`.

    Raises:
        CompanionError: if it has not a bar and a line in each row.
    """
    rows = list(csv.DictReader(data.splitlines()))
    found: dict[float, list[tuple[float, float]]] = {}
    for row in rows:
        if row["kind"] == "bar":
            found.setdefault(float(row["y"]), []).append((float(row["base"]), float(row["x"])))
    marks = [float(row["x"]) for row in rows if row["kind"] == "line"][::2]
    if not found or len(marks) != len(found):
        raise CompanionError(f"the figure of the card has {len(found)} bars and {len(marks)} lines; expected as many")
    return [found[place] for place in sorted(found)], marks


def draw(data: str, title: str, subtitle: str) -> bytes:
    """The card as PNG, the same bytes for the same data.

    Args:
        data: as of `bars`.
        title: of the book.
        subtitle: of the book.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from sumexp.companion.authoring.figures import PALETTE

    named = [PALETTE[name] for name in ("vermilion", "blue", "green", "purple", "ochre")]
    colors = [*named, "#6a8caf", "#b5b5b5"]
    pieces, marks = bars(data)
    with rc_context({"figure.constrained_layout.use": False}):
        figure = Figure(figsize=(SIZE[0] / 100, SIZE[1] / 100), dpi=100, facecolor="white")
    figure.text(0.06, 0.83, title, fontsize=46, fontweight="bold", va="center")
    figure.text(0.06, 0.70, subtitle, fontsize=26, va="center", color="#444444")
    ax = figure.add_axes((0.06, 0.06, 0.88, 0.54))
    for place, (row, mark) in enumerate(zip(pieces, marks, strict=True)):
        for (low, high), color in zip(row, colors, strict=False):
            ax.barh(place, high - low, left=low, color=color, height=0.66)
        ax.plot([mark, mark], [place - 0.44, place + 0.44], color="black", lw=3)
    ax.set(xlim=(0, 1), ylim=(len(pieces) - 0.5, -0.5))
    ax.axis("off")
    held = BytesIO()
    figure.savefig(held, format="png", metadata={"Software": None})
    return held.getvalue()


def made(figures: Path, title: str, subtitle: str) -> bytes | None:
    """The card, from the folder of the figures' data; None if the figure is not there, as its chapter was not run."""
    file = figures / FIGURE
    return draw(file.read_text("utf-8"), title, subtitle) if file.exists() else None
