"""Images: the published formats on small files, and the data sets themselves."""

import gzip
import math
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sumexp import datasets
from sumexp.datasets import ImageData

P = np.array([[1, 1, 0], [1, 1, 0], [1, 0, 0]], bool)  # a letter that no turn and no mirror maps to itself


def letter(side: int) -> NDArray[np.bool_]:
    """P, as large as fits, in the upper left corner of a picture."""
    picture = np.zeros((side, side), bool)
    picture[: side // 3 * 3, : side // 3 * 3] = P.repeat(side // 3, 0).repeat(side // 3, 1)
    return picture


def read(name: str) -> ImageData:
    """The images themselves, found as anyone would find them."""
    if not datasets.available(name):
        pytest.skip(f"{name} is missing; to download it, run: sumexp data fetch {name}")
    return datasets.images(name)


def idx(path: Path, shape: tuple[int, ...], values: bytes, magic: bytes = b"\0\0\x08") -> Path:
    lengths = b"".join(length.to_bytes(4, "big") for length in shape)
    path.write_bytes(gzip.compress(magic + bytes([len(shape)]) + lengths + values, 1))
    return path


def test_idx_by_hand(tmp_path: Path) -> None:
    text = b"\0\0\x08\x02" + b"\0\0\0\x02" + b"\0\0\0\x03" + bytes([0, 1, 2, 253, 254, 255])
    (tmp_path / "a.gz").write_bytes(gzip.compress(text))
    assert datasets.read_idx(tmp_path / "a.gz").tolist() == [[0, 1, 2], [253, 254, 255]]


def test_mnist_is_split_after_50_000_and_a_byte_of_255_is_1(tmp_path: Path) -> None:
    train = idx(tmp_path / "train.gz", (60_000, 28, 28), bytes(50_000 * 784) + bytes([51]) * (10_000 * 784))
    test = idx(tmp_path / "test.gz", (10_000, 28, 28), bytes([255]) * (10_000 * 784))
    data = datasets.read_mnist(train, test)
    for part, number, value in ((data.train, 50_000, 0), (data.validation, 10_000, 51 / 255), (data.test, 10_000, 1)):
        assert part.shape == (number, 784)
        assert part.dtype == np.float32
        assert part.min() == part.max() == np.float32(value)


def blocks(ink: NDArray[np.bool_], side: int) -> NDArray[np.float64]:
    """Area averaging another way: every pixel repeated along both axes, then means of whole blocks, `side` a row."""
    times = side // math.gcd(side, ink.shape[1])
    size = ink.shape[1] * times // side
    fine = ink.repeat(times, 1).repeat(times, 2).reshape(len(ink), side, size, side, size)
    return fine.mean((2, 4)).reshape(len(ink), -1)


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 2**32))
def test_reduced_is_the_mean_over_the_area(old: int, new: int, seed: int) -> None:
    ink = np.random.default_rng(seed).random((3, old, old)) < 0.5
    np.testing.assert_allclose(datasets.reduced(ink, new), blocks(ink, new), rtol=0, atol=6e-8)  # one float32 rounding


def test_reduced_by_hand() -> None:
    ink = np.array([[[1, 1, 0], [1, 0, 0], [0, 0, 0]]], bool)
    # A new pixel is 3/2 x 3/2 old ones; the first holds 1 + 1/2 + 1/2 of ink, its neighbours the other halves.
    assert datasets.reduced(ink, 2).tolist() == [pytest.approx([2 / 2.25, 0.5 / 2.25, 0.5 / 2.25, 0])]


def drawings(characters: int) -> NDArray[np.bool_]:
    """Paper true and ink false, as in the file: P, and under it a bar as long as says which drawing it is."""
    images = np.ones((characters, 20, 105, 105), bool)
    for character in range(characters):
        for drawing in range(20):
            images[character, drawing, :30, :30] = ~letter(30)
            images[character, drawing, 45 : 45 + 15 * (character + 1), : 1 + drawing] = False
    return images


def test_omniglot_by_hand(tmp_path: Path) -> None:
    images = drawings(3)
    paths = [tmp_path / "a.npz", tmp_path / "b.npz"]
    np.savez_compressed(paths[0], images=images[:1], labels=np.zeros((1, 20)))
    np.savez_compressed(paths[1], images=images[1:], labels=np.zeros((2, 20)))
    data = datasets.read_omniglot(*paths, validation=4)
    parts = (data.train, data.validation, data.test)
    assert [part.shape for part in parts] == [(41, 784), (4, 784), (15, 784)]
    every = blocks(~images.reshape(-1, 105, 105), 28)
    places = np.array([np.abs(every - row).max(1).argmin() for row in np.concatenate(parts)])
    assert sorted(places) == list(range(60))  # all are there, once
    assert np.bincount(places[45:] // 20).tolist() == [5, 5, 5]  # to test on: five drawings of each character
    np.testing.assert_allclose(np.concatenate(parts), every[places], rtol=0, atol=6e-8)
    # Rows of the picture run from the top and ink is 1: P is 8 new pixels high, with a leg of 8/3 at the left.
    pictures = np.concatenate(parts).reshape(-1, 28, 28)
    assert (pictures[:, :5, :5] == 1).all()
    assert (pictures[:, 6:8, :2] == 1).all()
    assert (pictures[:, 6:8, 3:] == 0).all()


def test_digits_itself() -> None:
    data = datasets.images("digits")
    parts = (data.train, data.validation, data.test)
    assert [part.shape for part in parts] == [(1_200, 64), (297, 64), (300, 64)]
    rows = [row.tobytes() for part in parts for row in part]
    assert len(set(rows)) == 1_797  # no image is in two parts
    assert set(rows) == {row.tobytes() for row in datasets.digits().images.astype(np.float32)}
    assert {part.dtype for part in parts} == {np.dtype(np.float32)}
    # The split of every published number: a change of it, or of NumPy's generators, must be seen.
    assert sha256(b"".join(rows)).hexdigest() == "46e4c48f117717a1448a19a7dfced2c6d31670e980aded28d4984ba1ce561b14"


@pytest.mark.parametrize(
    "name, mean, deviation", [("mnist", 0.1306604762738429, 0.3081078038564622), ("fashion-mnist", 0.2860, 0.3530)]
)
def test_mnist_and_fashion_mnist_themselves(name: str, mean: float, deviation: float) -> None:
    data = read(name)
    shapes = [part.shape for part in (data.train, data.validation, data.test)]
    assert shapes == [(50_000, 784), (10_000, 784), (10_000, 784)]
    # The mean and deviation that are commonly published, of the 60,000 images together.
    first, last = data.train.mean(dtype=np.float64), data.validation.mean(dtype=np.float64)
    assert (5 * first + last) / 6 == pytest.approx(mean, abs=5e-5)
    squares = sum(np.vdot(part, part).astype(float) for part in (data.train, data.validation)) / (60_000 * 784)
    assert math.sqrt(squares - ((5 * first + last) / 6) ** 2) == pytest.approx(deviation, abs=5e-5)
    assert np.unique(data.test * 255).size == 256
    apart(data)


def test_omniglot_itself() -> None:
    data = read("omniglot")
    parts = (data.train, data.validation, data.test)
    assert [part.shape for part in parts] == [(24_345 - 1_345, 784), (1_345, 784), (5 * 1_623, 784)]
    levels = data.validation * 225  # a new pixel is 15 x 15 quarters of old ones
    np.testing.assert_allclose(levels, levels.round(), atol=3e-5)
    # In the file 92.206 % of background's and 91.572 % of evaluation's pixels are paper, and means survive a reduction.
    expected = (964 * (1 - 0.9220603541554935) + 659 * (1 - 0.9157160337073625)) / 1_623
    assert sum(part.sum(dtype=np.float64) for part in parts) == pytest.approx(expected * 32_460 * 784)
    apart(data)


def apart(data: ImageData) -> None:
    """No image is in two of the parts."""
    train, validation, test = ({row.tobytes() for row in part} for part in (data.train, data.validation, data.test))
    assert train.isdisjoint(validation)
    assert test.isdisjoint(train | validation)
