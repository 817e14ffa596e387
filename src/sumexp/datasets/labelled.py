r"""Pictures in classes: CIFAR-100 as published and reduced, and long-tailed subsets of it.

A subset is drawn from the pictures of a class in the order of their pixels, so that it is the same from the canonical
archive and from any copy of its pixels. Test pictures are never removed.
"""

import tarfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sumexp.datasets._declarations import DataError, arrays
from sumexp.datasets.pictures import SEED, digits

Imbalance: TypeAlias = Literal["exp", "step"]

_CLASSES, _SIDE = 100, 32
_RECORD = 2 + 3 * _SIDE * _SIDE  # coarse label, fine label, red, green, blue
_PARTS = {"cifar-100-binary/train.bin": 50_000, "cifar-100-binary/test.bin": 10_000}


@dataclass(frozen=True, eq=False)
class Labelled:
    """Pictures of C classes in two parts.

    Attributes:
        train: [N, side, side, channels], uint8.
        train_labels: [N], int64, 0..C-1.
        test: [M, side, side, channels], uint8.
        test_labels: [M].
        classes: C.

    Raises:
        DataError: if a part is empty, the sizes of the pictures differ, or a label is out of range.
    """

    train: NDArray[np.uint8]
    train_labels: NDArray[np.int64]
    test: NDArray[np.uint8]
    test_labels: NDArray[np.int64]
    classes: int

    def __post_init__(self) -> None:
        if not len(self.train) or not len(self.test) or self.train.shape[1:] != self.test.shape[1:]:
            raise DataError(
                f"the parts have shapes {self.train.shape} and {self.test.shape}; both need pictures, of one size"
            )
        for name, labels in (("train", self.train_labels), ("test", self.test_labels)):
            if labels.min() < 0 or labels.max() >= self.classes:
                raise DataError(
                    f"the {name} labels go from {labels.min()} to {labels.max()}; {self.classes} classes are "
                    f"0 to {self.classes - 1}"
                )

    @property
    def counts(self) -> NDArray[np.int64]:
        """Training pictures of each class, [C]."""
        return np.bincount(self.train_labels, minlength=self.classes)


def imbalanced_counts(imbalance: Imbalance, classes: int, most: int, ratio: float) -> NDArray[np.int64]:
    r"""The number of pictures that each class keeps.

    ``exp``: :math:`\lfloor n\,r^{-i/(C-1)}\rfloor` for class i; ``step``: n for the first half, :math:`\lfloor n/r\rfloor`
    for the others.

    Args:
        imbalance: ``exp`` or ``step``.
        classes: C, at least 2.
        most: n, of the first class.
        ratio: r, the imbalance of the first to the last class, at least 1.

    Raises:
        ValueError: if the imbalance is unknown, a number is out of range, or a class would keep nothing.

    Source: Cui et al. (2019); Cao et al. (2019).
    """  # noqa: E501
    if classes < 2 or most < 1 or not ratio >= 1:
        raise ValueError(f"classes is {classes}, most {most}, ratio {ratio}; they must be at least 2, 1 and 1")
    if imbalance == "exp":
        # int(), which truncates, and this order of operations: the published counts depend on both.
        kept = [int(most * (1 / ratio) ** (i / (classes - 1))) for i in range(classes)]
    elif imbalance == "step":
        kept = [most if i < classes // 2 else int(most * (1 / ratio)) for i in range(classes)]
    else:
        raise ValueError(f"imbalance is {imbalance!r}; there are 'exp' and 'step'")
    if min(kept) < 1:
        raise ValueError(f"a class would keep none of its pictures: {most} at most and ratio {ratio}; lower the ratio")
    return np.array(kept, dtype=np.int64)


def cut(data: Labelled, counts: Sequence[int] | NDArray[np.int64]) -> Labelled:
    """A subset with so many training pictures of each class, fixed by their pixels; subsets are nested.

    Args:
        data: the whole set.
        counts: number of pictures of each class [C].

    Raises:
        DataError: if a class has fewer pictures.
    """
    generator = np.random.default_rng(SEED)
    kept = []
    for label, count in enumerate(counts):
        members = np.flatnonzero(data.train_labels == label)
        if len(members) < count:
            raise DataError(f"class {label} has {len(members)} training pictures where {count} are to be kept")
        texts = [data.train[i].tobytes() for i in members]
        members = members[sorted(range(len(members)), key=texts.__getitem__)]
        kept.append(generator.permutation(members)[:count])
    rows = np.concatenate(kept)
    return replace(data, train=data.train[rows], train_labels=data.train_labels[rows])


def halved(pictures: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Pictures of half the side: the mean of each block of 2 x 2 pixels, halves rounded up.

    Args:
        pictures: [N, side, side, channels], side even.
    """
    n, side, _, channels = pictures.shape
    blocks = pictures.reshape(n, side // 2, 2, side // 2, 2, channels)
    means: NDArray[np.uint8] = ((blocks.sum((2, 4), dtype=np.uint16) + 2) // 4).astype(np.uint8)
    return means


def tailed_digits() -> Labelled:
    """Scikit-learn's digits of 8 x 8 pixels: the first 60 of each class for testing, at least 114 for training."""
    data = digits()
    pictures = np.rint(data.images * 16).astype(np.uint8).reshape(-1, 8, 8, 1) * 15  # 0..16 becomes 0..240
    place = np.zeros(len(pictures), dtype=np.int64)
    for label in range(10):
        members = data.labels == label
        place[members] = np.arange(members.sum())
    test = place < 60
    return Labelled(pictures[~test], data.labels[~test], pictures[test], data.labels[test], 10)


def read_cifar(archive: Path) -> Labelled:
    """Read CIFAR-100 from the canonical archive of its binary version; nothing is extracted.

    Each picture is 3,074 bytes: its coarse and its fine label, then 32 x 32 reds, greens and blues. The class is the
    fine label.

    Raises:
        DataError: if the archive is truncated or not of this form.
    """
    parts = {}
    try:
        with tarfile.open(archive, "r:gz") as stream:
            for member in stream:
                if member.name in _PARTS and (content := stream.extractfile(member)) is not None:
                    parts[member.name] = _records(archive, member.name, content.read())
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise DataError(f"{archive} is not a whole tar archive packed by gzip: {error}") from error
    if missing := [name for name in _PARTS if name not in parts]:
        raise DataError(f"{archive} lacks {missing[0]}; expected {' and '.join(_PARTS)}")
    (train, train_labels), (test, test_labels) = (parts[name] for name in _PARTS)
    return Labelled(train, train_labels, test, test_labels, _CLASSES)


def _records(archive: Path, name: str, content: bytes) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    number = _PARTS[name]
    if len(content) != number * _RECORD:
        raise DataError(
            f"{archive}: {name} has {len(content):,} bytes; expected {number:,} records of {_RECORD:,} bytes"
        )
    table = np.frombuffer(content, np.uint8).reshape(number, _RECORD)
    if (worst := int(table[:, 1].argmax())) >= 0 and table[worst, 1] >= _CLASSES:
        raise DataError(f"{archive}: {name}, record {worst + 1}: fine label {table[worst, 1]}; expected 0 to 99")
    pictures = table[:, 2:].reshape(number, 3, _SIDE, _SIDE).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(pictures), table[:, 1].astype(np.int64)


def read_arrays(train: Path, test: Path) -> Labelled:
    """Read pictures of 100 classes from two npz files, each with ``x`` [n, side, side, 3] and ``y`` [n], uint8.

    A part with twice the side of the other is halved.

    Raises:
        DataError: if a file is not of this form.
    """
    (first, first_labels), (second, second_labels) = _arrays(train), _arrays(test)
    if first.shape[1] == 2 * second.shape[1]:
        first = halved(first)
    elif second.shape[1] == 2 * first.shape[1]:
        second = halved(second)
    return Labelled(first, first_labels, second, second_labels, _CLASSES)


def _arrays(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    pictures, labels = arrays(path, "x", "y")
    side = pictures.shape[1] if pictures.ndim == 4 else 0
    if pictures.dtype != np.uint8 or pictures.shape[1:] != (side, side, 3) or side % 2:
        raise DataError(
            f"{path}: 'x' has shape {pictures.shape} and type {pictures.dtype}; expected uint8 [n, side, side, 3], even"
        )
    if labels.dtype != np.uint8 or labels.shape != pictures.shape[:1]:
        raise DataError(
            f"{path}: 'y' has shape {labels.shape} and type {labels.dtype}; expected uint8 [{len(pictures)}]"
        )
    return pictures, labels.astype(np.int64)
