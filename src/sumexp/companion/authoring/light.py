"""An SVG of matplotlib's without what the eye cannot see: a third to a half of its bytes.

A point is 1.33 pixels. Numbers keep the digits that move something, a curve the points that bend it, and what many
elements share is said once.
"""

import re
from itertools import groupby
from xml.etree.ElementTree import Element

import numpy as np

TOLERANCE = 0.05
"""Points by which a curve without a point may leave that with it."""
_SHARED = {"style", "clip-path"}
"""What an element may take from the group that it is in."""
_PLACES = {"x", "y", "width", "height"}
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
_TRANSLATE = re.compile(r"translate\(([^)]*)\)")
_COMMAND = re.compile(r"\s*([A-Za-z])\s*")
_LINES = re.compile(r"M[^A-Za-z]*(?:L[^A-Za-z]*)+z?\s*")


def lighten(root: Element) -> None:
    """Take away, in place, what the eye cannot see of a drawing without namespace, in which every id is referred to."""
    small = {path for defs in root.iter("defs") for path in defs.iter("path")}
    for element in root.iter():
        element.tail = None
        if element.tag != "title":
            element.text = None
        if element is not root:
            _round(element, 2 if element in small else 1)
    _regroup(root)


def _round(element: Element, digits: int) -> None:
    """Round what places an element and its curve; a letter is placed by two numbers instead of a transform."""
    for name in _PLACES & set(element.attrib):
        element.set(name, _short(element.attrib[name], digits))
    if "d" in element.attrib:
        curve = _LINES.sub(lambda line: _without_needless_points(line[0]), element.attrib["d"])
        element.set("d", _COMMAND.sub(r"\1", _short(curve, digits)).strip())
    if "transform" in element.attrib:
        moved = _TRANSLATE.sub(lambda move: f"translate({_short(move[1], digits)})", element.attrib["transform"])
        element.set("transform", moved)
        move = _TRANSLATE.fullmatch(moved)
        if element.tag == "use" and move:
            del element.attrib["transform"]
            element.attrib |= {name: by for name, by in zip("xy", move[1].split(), strict=True) if by != "0"}


def _short(numbers: str, digits: int) -> str:
    """Numbers in a text with no more digits than these behind the point."""
    return _NUMBER.sub(lambda number: f"{round(float(number[0]), digits) + 0:.12g}", numbers)


def _without_needless_points(line: str) -> str:
    """A line through points (``M 0 0 L 1 1 L 2 2``) without those that lie on it (Douglas and Peucker)."""
    points = np.array([float(number) for number in _NUMBER.findall(line)]).reshape(-1, 2)
    kept, parts = {0, len(points) - 1}, [(0, len(points) - 1)]
    while parts:
        first, last = parts.pop()
        if last - first < 2:
            continue
        between, along = points[first + 1 : last] - points[first], points[last] - points[first]
        share = np.clip(between @ along / max(along @ along, 1e-12), 0, 1)
        away = np.hypot(*(between - share[:, None] * along).T)
        farthest = first + 1 + int(away.argmax())
        if away.max() > TOLERANCE:
            kept.add(farthest)
            parts += [(first, farthest), (farthest, last)]
    text = "L".join(f"{x:.6f} {y:.6f}" for x, y in points[sorted(kept)])
    return f"M{text}{'z' if 'z' in line else ''}"


def _regroup(parent: Element) -> None:
    """Dissolve groups that say nothing, join neighbours that say the same, and say once what neighbours share."""
    for child in parent:
        _regroup(child)
    children = [each for child in parent for each in _dissolved(child)]
    parent[:] = [each for key, run in groupby(children, _what_is_shared) for each in _joined(dict(key), list(run))]


def _dissolved(element: Element) -> list[Element]:
    """What is to stand for an element: itself, what it holds, or nothing."""
    if element.tag in ("g", "defs") and not len(element):
        return []
    return list(element) if element.tag == "g" and not element.attrib else [element]


def _what_is_shared(element: Element) -> tuple[tuple[str, str], ...]:
    """What an element may have in common with its neighbours: of a group all, of a drawn thing its style."""
    shared = element.attrib if element.tag == "g" else {k: v for k, v in element.attrib.items() if k in _SHARED}
    if element.tag not in ("g", "use", "path") or re.search(r"(?<!-)opacity", shared.get("style", "")):
        return ()  # a group is transparent as a whole, so what overlaps in it would look different
    return tuple(sorted(shared.items()))


def _joined(shared: dict[str, str], run: list[Element]) -> list[Element]:
    """Neighbours in one group, if they share something."""
    if not shared or len(run) < 2:
        return run
    group = Element("g", shared)
    for element in run:
        if element.tag == "g":
            group.extend(element)
        else:
            for name in shared:
                del element.attrib[name]
            group.append(element)
    _regroup(group)
    return [group]
