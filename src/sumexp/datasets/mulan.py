"""Multi-label data in Mulan's form: ARFF files, and an XML file that names the labels."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from sumexp.datasets._declarations import DataError

LARGEST = float(np.finfo(np.float32).max)
"""Larger values would become inf."""

_ATTRIBUTE = re.compile(r"""@attribute\s+('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s'"]\S*)\s""", re.IGNORECASE)
_SPARSE = re.compile(r"\{[^{}]*\}")


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
    """Read a multi-label data set in Mulan's form: ARFF files, and an XML file that names the labels.

    All attributes are 0 or 1, or numeric; the last ones are the labels. A row lists what is not 0, as ``{3 1,17 1}``,
    or a value for each attribute.

    Raises:
        DataError: if a file is not of this form, or the two parts do not have the same attributes.
    """
    names = _label_names(labels)
    (attributes, first), (same, second) = _arff(train), _arff(test)
    if attributes != same:
        raise DataError(f"{test} does not have the attributes of {train}")
    for path, table in ((train, first), (test, second)):
        if tuple(attributes[-len(names) :]) != names:
            raise DataError(f"the last {len(names)} attributes of {path} are not the labels that {labels} names")
        if not np.isin(table[:, -len(names) :], (0, 1)).all():
            raise DataError(f"{path} has a label that is neither 0 nor 1")
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


def _arff(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    """The names of the attributes [A] and the rows [N, A] of an ARFF file.

    Keywords are case-insensitive; lines that are empty or begin with % are skipped; names and values may be quoted; a
    row is sparse, ``{3 1,17 1}``, or has a value for each attribute.
    """
    attributes: list[str] = []
    rows: list[tuple[int, str]] = []
    data = False
    for number, line in enumerate(path.read_text("latin-1").splitlines(), 1):
        text = line.strip()
        if data and text and not text.startswith("%"):
            rows.append((number, text))
        elif match := _ATTRIBUTE.match(text):
            attributes.append(_unquoted(match[1]))
        data = data or text.lower() == "@data"
    if not data or not attributes:
        raise DataError(f"{path} is not an ARFF file: it lacks @attribute lines or @data")
    table = np.zeros((len(rows), len(attributes)), dtype=np.float32)
    for place, (number, text) in enumerate(rows):
        columns = set()
        for column, value in _entries(path, number, text, len(attributes)):
            try:
                index, real = int(column), float(_unquoted(value))
                if index in columns or not 0 <= index < len(attributes) or not abs(real) <= LARGEST:
                    raise ValueError
            except ValueError:
                raise DataError(
                    f"{path}, line {number}: '{column} {value}' is not one of the {len(attributes)} attributes and its "
                    "value, once and a number"
                ) from None
            columns.add(index)
            table[place, index] = real
    return attributes, table


def _entries(path: Path, number: int, text: str, attributes: int) -> Iterable[tuple[str, str]]:
    """The attributes' numbers and values in a row."""
    if not text.startswith("{"):
        values = [value.strip() for value in text.split(",")]
        if len(values) != attributes:
            raise DataError(
                f"{path}, line {number}: expected {attributes} values, or a sparse row such as {{3 1,17 1}}, "
                f"got {text[:40]!r}"
            )
        return ((str(column), value) for column, value in enumerate(values))
    if not _SPARSE.fullmatch(text):
        raise DataError(f"{path}, line {number}: expected a sparse row such as {{3 1,17 1}}, got {text[:40]!r}")
    pairs = (entry.split(maxsplit=1) for entry in text[1:-1].split(",") if entry.strip())
    return ((pair[0], pair[1].strip() if len(pair) > 1 else "") for pair in pairs)


def _unquoted(text: str) -> str:
    """A name or value without quotes and their backslashes."""
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if quoted else text
