"""What the errata pages say of each erratum: where it stands, and how much hangs on it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_SECTION = re.compile(r"(?m)^\(erratum-([a-z]\d+)\)=\n## (.*)\n\n\*\*Weight:\*\* (.*)\.$")

WEIGHTS = ("fault that changes a result", "gap that can be filled", "slip", "misprint", "lost in our text")
"""How much can hang on an erratum, the most first; the last are faults of the copy that was read."""


@dataclass(frozen=True)
class Erratum:
    """One erratum.

    Attributes:
        label: such as ``B5``.
        title: its heading, in Markdown, without the label.
        weight: one of `WEIGHTS`.
        page: where it is explained, as seen from the page that links there.
    """

    label: str
    title: str
    weight: str
    page: str

    @property
    def target(self) -> str:
        """Its place on the page."""
        return f"erratum-{self.label.lower()}"


def read(text: str, page: str) -> dict[str, Erratum]:
    """The errata of a page in Markdown, by label.

    Raises:
        ValueError: if one has a weight that is not of `WEIGHTS`.
    """
    found: dict[str, Erratum] = {}
    for target, heading, said in _SECTION.findall(text):
        label = target.upper()
        weight = said.partition(",")[0]
        if weight not in WEIGHTS:
            raise ValueError(f"the weight of erratum {label} is {weight!r}; expected one of {', '.join(WEIGHTS)}")
        found[label] = Erratum(label, heading.removeprefix(f"{label}. "), weight, page)
    return found


def heaviest(errata: Iterable[Erratum]) -> str:
    """The greatest weight of some errata; empty if there are none."""
    return min((erratum.weight for erratum in errata), key=WEIGHTS.index, default="")
