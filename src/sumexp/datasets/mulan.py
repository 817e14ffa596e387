"""Multi-label data in Mulan's form: sparse ARFF files, and an XML file that names the labels."""

import re
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class MultiLabel:
    """Examples with several labels each, in two parts.

    Attributes:
        train: features [N, F], float32.
        train_labels: which labels each example has [N, L], bool.
        test: features [M, F], float32.
        test_labels: [M, L], bool.
        labels: the labels' names [L].
    """

    train: NDArray[np.float32]
    train_labels: NDArray[np.bool_]
    test: NDArray[np.float32]
    test_labels: NDArray[np.bool_]
    labels: tuple[str, ...]


def read_mulan(train: Path, test: Path, labels: Path) -> MultiLabel:
    """Read two ARFF files whose last attributes are the labels, and the XML file that names these.

    All attributes are numbers. A row lists those that are not 0: ``{3 1,17 1}``.
    """
    names = tuple(element.get("name", "") for element in ElementTree.parse(labels).getroot())
    (first, marks), (second, other_marks) = (np.split(_rows(path), [-len(names)], axis=1) for path in (train, test))
    return MultiLabel(first, marks > 0, second, other_marks > 0, names)


def _rows(path: Path) -> NDArray[np.float32]:
    """The rows [N, attributes] of an ARFF file."""
    head, body = re.split(r"(?im)^@data\s*", path.read_text("latin-1"), maxsplit=1)
    rows = body.splitlines()
    table = np.zeros((len(rows), len(re.findall("(?im)^@attribute", head))), dtype=np.float32)
    for values, row in zip(table, rows, strict=True):
        for entry in filter(None, row.strip("{}").split(",")):
            column, value = entry.split()
            values[int(column)] = float(value)
    return table
