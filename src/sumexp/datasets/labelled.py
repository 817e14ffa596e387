r"""Pictures in classes: CIFAR-100 as published and reduced, and long-tailed subsets of it.

A subset is drawn from the pictures of a class in the order of their pixels, so that it is the same from the canonical
archive and from any copy of its pixels. Test pictures are never removed.
"""

import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sumexp.datasets._declarations import DataError
from sumexp.datasets.pictures import SEED, digits

Imbalance: TypeAlias = Literal["exp", "step"]

_CLASSES, _SIDE = 100, 32


@dataclass(frozen=True, eq=False)
class Labelled:
    """Pictures of C classes in two parts.

    Attributes:
        train: [N, side, side, channels], uint8.
        train_labels: [N], int64, 0..C-1.
        test: [M, side, side, channels], uint8.
        test_labels: [M].
        classes: C.
    """

    train: NDArray[np.uint8]
    train_labels: NDArray[np.int64]
    test: NDArray[np.uint8]
    test_labels: NDArray[np.int64]
    classes: int

    @property
    def counts(self) -> NDArray[np.int64]:
        """Training pictures of each class, [C]."""
        return np.bincount(self.train_labels, minlength=self.classes)


def imbalanced_counts(imbalance: Imbalance, classes: int, most: int, ratio: float) -> NDArray[np.int64]:
    r"""The number of pictures that each class keeps.

    ``exp``: :math:`\lfloor n\,r^{-i/(C-1)}\rfloor` for class i; ``step``: n for the first half, :math:`\lfloor n/r\rfloor`
    for the others. C is at least 2, ``most`` is n, and the ratio r of the first to the last class is at least 1.

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
    """A subset with ``counts`` [C] training pictures of each class, fixed by their pixels; subsets are nested.

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
    """Pictures [N, side, side, channels] of half the side, which is even: means of 2 x 2 pixels, halves rounded up."""
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
    """
    parts = []
    with tarfile.open(archive, "r:gz") as stream:
        for name in ("train", "test"):
            content = stream.extractfile(f"cifar-100-binary/{name}.bin")
            assert content is not None
            table = np.frombuffer(content.read(), np.uint8).reshape(-1, 2 + 3 * _SIDE * _SIDE)
            pictures = table[:, 2:].reshape(-1, 3, _SIDE, _SIDE).transpose(0, 2, 3, 1)
            parts.append((np.ascontiguousarray(pictures), table[:, 1].astype(np.int64)))
    (train, train_labels), (test, test_labels) = parts
    return Labelled(train, train_labels, test, test_labels, _CLASSES)


def read_arrays(train: Path, test: Path) -> Labelled:
    """Read pictures of 100 classes from two npz files, each with ``x`` [n, side, side, 3] and ``y`` [n], uint8.

    Test pictures of twice the side of the training pictures are halved.
    """
    with np.load(train) as first, np.load(test) as second:
        pictures, others = first["x"], second["x"]
        others = halved(others) if others.shape[1] == 2 * pictures.shape[1] else others
        return Labelled(pictures, first["y"].astype(np.int64), others, second["y"].astype(np.int64), _CLASSES)
