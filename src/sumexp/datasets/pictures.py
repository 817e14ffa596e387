"""Images for generative models: the published formats, read and split into training, validation and test.

Every image is a row of float32 pixels in [0, 1], row after row of the picture, and ink (or cloth) is 1.
"""

import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SEED = 775
"""The seed of every random split: that of the published runs of the categorical VAE."""

OMNIGLOT_VALIDATION = 1_345
"""Validation images in Omniglot's training set, as in the published code (Burda et al., 2016)."""

_DRAWINGS, _SIDE, _SMALL_SIDE, _TEST_DRAWINGS = 20, 105, 28, 5
_CHUNK = 1_000


@dataclass(frozen=True)
class ImageData:
    """Images of P pixels in [0, 1] in three disjoint parts, each [n, P], float32."""

    train: NDArray[np.float32]
    validation: NDArray[np.float32]
    test: NDArray[np.float32]


@dataclass(frozen=True)
class Digits:
    """Handwritten digits: ``images`` [N, 64] with pixels in [0, 1] and ``labels`` [N] in 0..9."""

    images: NDArray[np.float64]
    labels: NDArray[np.int64]


def digits() -> Digits:
    """The 1,797 digits that come with scikit-learn; needs no download."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return Digits(images=bunch.data / 16.0, labels=bunch.target.astype(np.int64))


def split_digits() -> ImageData:
    """The digits in a fixed random order: 1,200 for training, 297 for validation, 300 for testing."""
    rest, test = _drawn(digits().images.astype(np.float32), 300)
    return ImageData(*_drawn(rest, 297), test)


def read_mnist(train: Path, test: Path, *labels: Path) -> ImageData:
    """Read MNIST or Fashion-MNIST: the first 50,000 training images, and the last 10,000 for validation.

    The files of the labels are not read.
    """
    first, last = (np.divide(read_idx(path).reshape(-1, 784), 255, dtype=np.float32) for path in (train, test))
    return ImageData(first[:50_000], first[50_000:], last)


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read an array of bytes in MNIST's IDX form, gzipped.

    Two zero bytes, 8 (for unsigned bytes), the number of axes, their lengths as big-endian 32-bit integers, the values.
    """
    with gzip.open(path) as stream:
        data = stream.read()
    start = 4 + 4 * data[3]
    return np.frombuffer(data, np.uint8, offset=start).reshape(np.frombuffer(data[4:start], ">u4"))


def read_omniglot(*archives: Path, validation: int = OMNIGLOT_VALIDATION) -> ImageData:
    """Read Omniglot's drawings, reduce them to 28 x 28, and split them by drawing.

    5 of the 20 drawings of each character, chosen once, are test images. The sizes of the literature's split suggest
    the same: 24,345 training images are 15 x 1,623, and 8,070 test images 45 fewer than 5 x 1,623; which drawings they
    are is not published. The split by alphabets, background against evaluation, tests on unseen characters.

    The archives are npz files with ``images`` [characters, 20, 105, 105], bool, false where there is ink. So many
    training images as ``validation`` says are held out.
    """
    images = np.concatenate([_characters(archive) for archive in archives])
    generator = np.random.default_rng(SEED)
    order = generator.permuted(np.tile(np.arange(_DRAWINGS), (len(images), 1)), axis=1)[..., None]
    test, train = (
        np.take_along_axis(images, part, axis=1).reshape(-1, images.shape[2])
        for part in (order[:, :_TEST_DRAWINGS], order[:, _TEST_DRAWINGS:])
    )
    return ImageData(*_drawn(train, validation), test)


def reduced(ink: NDArray[np.bool_], side: int) -> NDArray[np.float32]:
    r"""Images [n, S, S] of black and white as [n, side * side] grey levels: the share of each new pixel that is ink.

    With :math:`O_{ij}` the overlap of new pixel i and old pixel j along one axis the result is :math:`O X O^\top`; in
    units of 1/(S side) along either axis all sums are whole numbers, at most S², which float32 holds exactly (up to
    S = 4,096), so that one division is all the rounding there is.
    """
    old = ink.shape[1]
    new, before = np.arange(side)[:, None] * old, np.arange(old) * side
    overlap = np.clip(np.minimum(new + old, before + side) - np.maximum(new, before), 0, None).astype(np.float32)
    result = np.empty((len(ink), side, side), np.float32)
    for start in range(0, len(ink), _CHUNK):  # as float32 all of them would be four times as large
        result[start : start + _CHUNK] = overlap @ (ink[start : start + _CHUNK].astype(np.float32) @ overlap.T)
    result /= old * old
    return result.reshape(len(ink), -1)


def _characters(archive: Path) -> NDArray[np.float32]:
    """The drawings of one archive, reduced: [characters, 20, 784]."""
    with np.load(archive) as file:
        ink = np.logical_not(file["images"])
    return reduced(ink.reshape(-1, _SIDE, _SIDE), _SMALL_SIDE).reshape(-1, _DRAWINGS, _SMALL_SIDE**2)


def _drawn(images: NDArray[np.float32], held: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The images in a fixed random order: all but the last ``held``, and those."""
    order = np.random.default_rng(SEED).permutation(len(images))
    return images[order[: len(order) - held]], images[order[len(order) - held :]]
