"""What the errata pages say of each erratum: where it stands, and how much hangs on it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_TARGET = re.compile(r"(?m)^\(erratum-([a-z]\d+)\)=\n")
_HEAD = re.compile(r"## (?:[A-Z]\d+\. )?(.*)\n\n\*\*Weight:\*\* (.*)\.\n")

WEIGHTS = ("fault that changes a result", "gap that can be filled", "misprint", "lost in our text", "remark")
"""How much can hang on an erratum, the most first; the page of errata defines them. The last two are no fault of the
paper's: the copy that was read lacks something, or nothing that is printed is wrong."""

LINES = ("Printed", "Lost in our text", "Reading")
"""What each erratum says first, in paragraphs that begin so: what the paper has, what our copy of it has lost at that
place, and under which reading the erratum stands."""


@dataclass(frozen=True)
class Erratum:
    """One erratum: its label, such as ``B5``, its heading in Markdown, one of `WEIGHTS`, and the page that explains it.

    The page's address is as seen from the page that links there.
    """

    label: str
    title: str
    weight: str
    page: str

    @property
    def order(self) -> tuple[str, int]:
        """By which errata are listed: ``B5`` before ``B12``, and all of a letter together."""
        return self.label[0], int(self.label[1:])

    @property
    def target(self) -> str:
        """Its place on the page."""
        return f"erratum-{self.label.lower()}"


def read(text: str, page: str) -> dict[str, Erratum]:
    """The errata of a page in Markdown, by label.

    Raises ValueError if one has no weight of `WEIGHTS`, or not each of `LINES` once and in this order.
    """
    _, *parts = _TARGET.split(text)
    errata: dict[str, Erratum] = {}
    for label, body in zip(map(str.upper, parts[::2]), parts[1::2], strict=True):
        head = _HEAD.match(body)
        if head is None:
            raise ValueError(f"erratum {label} does not begin with a heading and a line '**Weight:** ... .'")
        title, weight = head.groups()
        if weight not in WEIGHTS:
            raise ValueError(f"the weight of erratum {label} is {weight!r}; expected one of {', '.join(WEIGHTS)}")
        said = tuple(line for line in re.findall(r"(?m)^\*\*(.*)\.\*\*\n\S", body) if line in LINES)
        if said != LINES:
            raise ValueError(f"erratum {label} has the paragraphs {said}; expected {LINES}, each once")
        errata[label] = Erratum(label, title, weight, page)
    return errata


def heaviest(errata: Iterable[Erratum]) -> str:
    """The greatest weight of some errata; empty if there are none."""
    return min((erratum.weight for erratum in errata), key=WEIGHTS.index, default="")
