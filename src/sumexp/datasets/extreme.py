r"""Sparse multi-label data in the text format of the extreme-classification repository, read as a stream.

The first line has three numbers: examples N, features F, labels L. Each other line is an example,
``3,17 0:0.5 9:1.25``: its labels, a blank, and its features with their values, all counted from 0. A line that begins
with a blank has no label.

A file of another form raises `DataError` with the line. `blocks` holds a fixed number of lines at a time;
`read_extreme` keeps 8 bytes per non-zero feature and 4 per label.

Source: K. Bhatia et al., The extreme classification repository: multi-label datasets and code, 2016.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sumexp.datasets._declarations import DataError
from sumexp.datasets.mulan import MultiLabel

LINES = 10_000
"""Lines per block."""

_LINE = re.compile(rb"((?:\d+(?:,\d+)*)?)((?: +\d+:[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)*)[ \r]*\n?")
_HEADER = re.compile(rb"(\d+) +(\d+) +(\d+)[ \r]*\n")
_FORM = "labels and features such as '3,17 0:0.5 9:1.25'"


@dataclass(frozen=True, eq=False)
class Part:
    """Examples with sparse features and several labels each.

    Attributes:
        features: [N, F], float32, CSR.
        labels: which labels each example has [N, L], bool, CSR.
    """

    features: csr_array
    labels: csr_array


@dataclass(frozen=True, eq=False)
class Extreme:
    """A sparse multi-label data set in two parts."""

    train: Part
    test: Part

    @property
    def counts(self) -> NDArray[np.int64]:
        """Training examples of each label, [L]."""
        return np.bincount(self.train.labels.indices, minlength=self.train.labels.shape[1]).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive examples.

    Attributes:
        labels: of all examples, concatenated.
        label_counts: number of each example [n].
        features: non-zero features of all examples, concatenated.
        values: of these features, float32.
        feature_counts: number of each example [n].
    """

    labels: NDArray[np.int32]
    label_counts: NDArray[np.int64]
    features: NDArray[np.int32]
    values: NDArray[np.float32]
    feature_counts: NDArray[np.int64]


def read_extreme(train: Path, test: Path) -> Extreme:
    """Read a data set of two such files.

    Raises:
        DataError: if a file is not of this form, or their numbers of features or labels differ.
    """
    first, second = read_part(train), read_part(test)
    for what in ("features", "labels"):
        wanted, actual = (getattr(part, what).shape[1] for part in (first, second))
        if actual != wanted:
            raise DataError(f"{test} has {actual:,} {what} where {train} has {wanted:,}")
    return Extreme(first, second)


def read_part(path: Path) -> Part:
    """Read one such file.

    Raises:
        DataError: if it is not of this form.
    """
    examples, features, labels = header(path)
    parts = list(blocks(path))

    def joined(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(block, name) for block in parts])

    def rows(values: NDArray[Any], columns: str, columns_of_row: str, size: int) -> csr_array:
        starts = np.concatenate([[0], joined(columns_of_row).cumsum()])
        return csr_array((values, joined(columns), starts), shape=(examples, size))

    marks = np.ones(sum(len(block.labels) for block in parts), dtype=bool)
    return Part(
        rows(joined("values"), "features", "feature_counts", features), rows(marks, "labels", "label_counts", labels)
    )


def of_dense(data: MultiLabel) -> Extreme:
    """A dense data set as a sparse one."""
    return Extreme(
        Part(csr_array(data.train), csr_array(data.train_labels)),
        Part(csr_array(data.test), csr_array(data.test_labels)),
    )


def header(path: Path) -> tuple[int, int, int]:
    """The numbers of examples, features and labels in the first line of a file.

    Raises:
        DataError: if it is not of this form.
    """
    with _opened(path) as stream:
        return _header(path, stream)


def blocks(path: Path, lines: int = LINES) -> Iterator[Block]:
    """The examples of a file, so many lines at a time; at least one block, which may be empty.

    Args:
        path: the file.
        lines: lines per block.

    Raises:
        DataError: if a line is not of this form, a label or feature is out of range or repeated in a line, a value is
            not finite, or the number of lines differs from the first line; the message names file and line.
    """
    with _opened(path) as stream:
        examples, features, labels = _header(path, stream)
        read = 0
        while (taken := list(islice(stream, lines))) or not read:
            yield _parsed(path, taken, read + 2, features, labels)
            read += len(taken)
            if len(taken) < lines:
                break
        if read != examples:
            raise DataError(
                f"{path} has {read:,} examples where its first line announces {examples:,} (is it truncated?)"
            )


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}; name the file to read") from error


def _header(path: Path, stream: BinaryIO) -> tuple[int, int, int]:
    line = stream.readline(1000)
    if (match := _HEADER.fullmatch(line)) is None:
        raise DataError(
            f"{path}, line 1: expected three numbers (examples, features, labels), got {line[:40].decode('latin-1')!r}"
        )
    examples, features, labels = (int(number) for number in match.groups())
    if max(features, labels) >= 1 << 31:
        raise DataError(f"{path}, line 1: {max(features, labels):,} features or labels; at most 2^31 - 1 can be read")
    return examples, features, labels


def _parsed(path: Path, lines: list[bytes], first: int, features: int, labels: int) -> Block:
    label_texts, feature_texts = [], []
    for number, line in enumerate(lines, first):
        if (match := _LINE.fullmatch(line)) is None:
            raise DataError(f"{path}, line {number}: expected {_FORM}, got {line[:60].decode('latin-1')!r}")
        label_texts.append(match[1])
        feature_texts.append(match[2])
    pairs = _numbers(b" ".join(feature_texts).replace(b":", b" "))
    tags, ids = _numbers(b" ".join(label_texts).replace(b",", b" ")), pairs[::2]
    tag_counts = np.array([text.count(b",") + 1 if text else 0 for text in label_texts], dtype=np.int64)
    counts = np.array([text.count(b":") for text in feature_texts], dtype=np.int64)

    def fault(per_line: NDArray[np.int64], place: int, what: str) -> DataError:
        line = first + int(np.searchsorted(per_line.cumsum(), place, side="right"))
        return DataError(f"{path}, line {line}: {what}")

    with np.errstate(over="ignore"):
        values = pairs[1::2].astype(np.float32)
    for what, found_ids, per_line, most in (("label", tags, tag_counts, labels), ("feature", ids, counts, features)):
        if len(found_ids) and found_ids.max() >= most:
            wrong = f"{what} {found_ids.max():.0f} is out of range; expected {f'0 to {most - 1:,}' if most else 'none'}"
            raise fault(per_line, int(found_ids.argmax()), wrong)
        if (twice := _twice(found_ids, per_line)) is not None:
            raise fault(per_line, twice, f"{what} {found_ids[twice]:.0f} is there twice; name it once")
    for worst in np.flatnonzero(~np.isfinite(values))[:1]:
        raise fault(counts, int(worst), f"the value {pairs[1::2][worst]} is no finite number of 32 bits")
    return Block(tags.astype(np.int32), tag_counts, ids.astype(np.int32), values, counts)


def _numbers(text: bytes) -> NDArray[np.float64]:
    """Numbers separated by blanks; ids below 2^31 are exact."""
    return np.array(text.split(), dtype=np.float64) if text.strip() else np.zeros(0)


def _twice(ids: NDArray[np.float64], counts: NDArray[np.int64]) -> int | None:
    """The place of an id that its row has already, if there is one: it could make a precision of 2."""
    keys = (np.repeat(np.arange(len(counts)), counts) << 31) + ids.astype(np.int64)
    order = np.argsort(keys, kind="stable")  # merge sort: linear time if ids are sorted
    same = np.diff(keys[order]) == 0
    return int(order[1:][same].min()) if same.any() else None
