"""Multi-label data in Mulan's form: sparse ARFF files, and an XML file that names the labels."""

import re
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from sumexp.datasets._declarations import DataError

LARGEST = float(np.finfo(np.float32).max)
"""A value above would be read as inf."""


@dataclass(frozen=True)
class MultiLabel:
    """A data set whose examples have several labels each, in two parts.

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
    """Read a multi-label data set in Mulan's form: sparse ARFF files, and an XML file that names the labels.

    All attributes are 0 or 1, or numeric; the last ones are the labels. A row lists what is not 0: ``{3 1,17 1}``.

    Raises:
        DataError: if a file is not of this form, or the two parts do not have the same attributes.
    """
    names = _label_names(labels)
    parts = {path: _sparse_arff(path) for path in (train, test)}
    if parts[train][0] != parts[test][0]:
        raise DataError(f"{test} does not have the attributes of {train}")
    for path, (attributes, table) in parts.items():
        if tuple(attributes[-len(names) :]) != names:
            raise DataError(f"the last {len(names)} attributes of {path} are not the labels that {labels} names")
        if not np.isin(table[:, -len(names) :], (0, 1)).all():
            raise DataError(f"{path} has a label that is neither 0 nor 1")
    (_, first), (_, second) = parts.values()
    cut = first.shape[1] - len(names)
    return MultiLabel(first[:, :cut], first[:, cut:] > 0, second[:, :cut], second[:, cut:] > 0, names)


def _label_names(path: Path) -> tuple[str, ...]:
    """The names in an XML file of ``<labels><label name="..."/>...</labels>``, in its order."""
    try:
        names = tuple(element.get("name", "") for element in ElementTree.parse(path).getroot())
    except ElementTree.ParseError as error:
        raise DataError(f"{path} is not XML: {error}") from error
    if not names or "" in names:
        raise DataError(f"{path} names no labels; expected <labels><label name='...'/>...</labels>")
    return names


def _sparse_arff(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    """The names of the attributes [A] and the rows [N, A] of a sparse ARFF file."""
    header, separator, body = path.read_text("latin-1").partition("@data")
    attributes = [line.split()[1] for line in header.splitlines() if re.match(r"@attribute\s+\S+\s", line, re.I)]
    if not separator or not attributes:
        raise DataError(f"{path} is not an ARFF file: it lacks @attribute lines or @data")
    rows = [(i, line) for i, line in enumerate(body.splitlines(), header.count("\n") + 1) if line.strip()]
    table = np.zeros((len(rows), len(attributes)), dtype=np.float32)
    for place, (number, line) in enumerate(rows):
        if not re.fullmatch(r"\{[^{}]*\}", line.strip()):
            raise DataError(f"{path}, line {number}: expected a sparse row such as {{3 1,17 1}}, got {line[:40]!r}")
        for entry in filter(None, line.strip()[1:-1].split(",")):
            try:
                column, value = entry.split()
                if not 0 <= int(column) < len(attributes) or not abs(float(value)) <= LARGEST:
                    raise ValueError
            except ValueError:
                raise DataError(
                    f"{path}, line {number}: {entry!r} is not one of the {len(attributes)} attributes and its value"
                ) from None
            table[place, int(column)] = float(value)
    return attributes, table
