"""The dependency graph of one chapter: a layered layout, which ``templates/register.html`` draws as SVG.

What a claim rests on stands above it. A layer with more claims than fit in a row is folded into several rows,
so that the picture keeps the width of the page and its letters their size.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from math import ceil
from statistics import fmean
from typing import TypeAlias

from claimbook.register.verdict import Entry

WIDTH, ROW = 760, 62
"""Width of the drawing and height of a row, in pixels."""
MARK, LABEL, _LETTER, _GAP = 9, 22, 6.6, 18
"""Half the size of a mark, how far below it its label stands, the width of a letter, the gap between two labels."""

Edges: TypeAlias = Mapping[str, Sequence[str]]
"""The claims that each claim rests on, within one drawing."""


@dataclass(frozen=True)
class Place:
    """Centre of a claim's mark, in pixels, and the row it is in."""

    x: float
    y: float
    row: int


def _layers(edges: Edges) -> list[list[str]]:
    """Claims by the length of the longest chain below them; those without any edge come last, on their own."""
    used = {other for others in edges.values() for other in others}
    depth: dict[str, int] = {}
    for node in TopologicalSorter(edges).static_order():
        below = max((depth[other] for other in edges[node]), default=-1)
        depth[node] = 1 + below if edges[node] or node in used else len(edges)
    return [[node for node in edges if depth[node] == level] for level in sorted(set(depth.values()))]


def width(label: str) -> float:
    """About how wide a label is drawn."""
    return _LETTER * len(label)


def layout(edges: Edges, labels: Mapping[str, str]) -> dict[str, Place]:
    """Place every claim: layers from above to below, each sorted by where its neighbours stand.

    ``edges`` are for each claim, in a fixed order, the claims it rests on, which are keys as well; ``labels`` stand
    below the claims' marks.
    """
    layers = _layers(edges)
    users = {node: [user for user, others in edges.items() if node in others] for node in edges}
    places = _stack(layers, labels)
    for _ in range(4):  # sweeps down and up; more change nothing that a reader sees
        for order, neighbours in ((layers, edges), (layers[::-1], users)):
            for layer in order:
                mean_x = {node: fmean(places[other].x for other in neighbours[node] or [node]) for node in layer}
                layer.sort(key=mean_x.__getitem__)  # stable: equal means keep the order of the register
                places = _stack(layers, labels)
    return places


def _stack(layers: Iterable[Sequence[str]], labels: Mapping[str, str]) -> dict[str, Place]:
    """Place layers below one another, from left to right, the claims of each taking turns among the rows it needs.

    No two claims of a layer stand above one another, so that a line to the one does not run through the other.
    """
    places: dict[str, Place] = {}
    first = 0
    for layer in layers:
        widest = _GAP + max(width(labels[node]) for node in layer)
        step = min(WIDTH / len(layer), (WIDTH - widest) / max(1, len(layer) - 1))
        rows = min(ceil(widest / step), len(layer)) if len(layer) > 1 else 1
        left = (WIDTH - step * (len(layer) - 1)) / 2
        for index, node in enumerate(layer):
            row = first + index % rows
            places[node] = Place(round(left + step * index, 1), (row + 0.5) * ROW, row)
        first += rows
    return places


def curve(above: Place, below: Place) -> str:
    """The line from below the label of a claim to above the mark of what rests on it."""
    top, bottom = above.y + LABEL + 6, below.y - MARK - 3
    bend = max(18.0, (bottom - top) / 2)
    return f"M{above.x:g} {top:g}C{above.x:g} {top + bend:g} {below.x:g} {bottom - bend:g} {below.x:g} {bottom:g}"


def drawing(entries: Iterable[Entry], by_id: Mapping[str, Entry]) -> dict[str, object]:
    """What the template draws: a chapter's claims and what they rest on, also in other chapters, each in its place."""
    home = {entry.id: entry.depends_on for entry in entries}
    guests = dict.fromkeys(other for others in home.values() for other in others if other not in home)
    edges: dict[str, Sequence[str]] = {**dict.fromkeys(guests, ()), **home}
    labels = {node: node.removeprefix(f"{by_id[node].paper}-") if node in home else node for node in edges}
    places = layout(edges, labels)
    return {
        "height": (1 + max(place.row for place in places.values())) * ROW,
        "entries": by_id,
        "home": home,
        "edges": edges,
        "used": Counter(other for others in edges.values() for other in others),
        "labels": labels,
        "places": dict(sorted(places.items(), key=lambda item: (item[1].row, item[1].x))),  # in which they are read
    }
