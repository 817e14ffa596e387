"""What the errata pages say of each erratum: where it stands, and how much hangs on it."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_HEAD = re.compile(r"(?m)^\(erratum-([a-z]\d+)\)=\n(?:## (?:[A-Z]\d+\. )?(.*)\n\n\*\*Weight:\*\* (.*)\.\n)?")

WEIGHTS = ("fault that changes a result", "gap that can be filled", "misprint", "lost in our text", "remark")
"""How much can hang on an erratum, the most first; the page of errata defines them. The last two are no fault of the
paper's: the copy that was read lacks something, or nothing that is printed is wrong."""


@dataclass(frozen=True)
class Erratum:
    """Label, such as ``B5``, heading in Markdown, one of `WEIGHTS`, relative address of the page that explains it."""

    label: str
    title: str
    weight: str
    page: str

    @property
    def order(self) -> tuple[str, int]:
        """Sort key: ``B5`` before ``B12``, and all of a letter together."""
        return self.label[0], int(self.label[1:])

    @property
    def target(self) -> str:
        """HTML anchor."""
        return f"erratum-{self.label.lower()}"


def read(text: str, page: str) -> dict[str, Erratum]:
    """The errata of a page in Markdown, by label; each must have a weight of `WEIGHTS`."""
    errata = [Erratum(label.upper(), title, weight, page) for label, title, weight in _HEAD.findall(text)]
    if wrong := [erratum for erratum in errata if erratum.weight not in WEIGHTS]:
        raise ValueError(
            f"the weight of erratum {wrong[0].label} is {wrong[0].weight!r}; expected a heading, and a line "
            f"'**Weight:** ... .' with one of {', '.join(WEIGHTS)}"
        )
    return {erratum.label: erratum for erratum in errata}


def heaviest(labels: Iterable[str], explained: Mapping[str, Erratum]) -> str:
    """The greatest weight of those errata that a page explains; empty if it explains none."""
    return min((explained[label].weight for label in labels if label in explained), key=WEIGHTS.index, default="")
