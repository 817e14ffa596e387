"""Pictures in classes: long tails by hand, both forms of CIFAR-100 on small files, the data themselves."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sumexp import datasets
from sumexp.datasets import DataError, labelled
from sumexp.datasets.labelled import Labelled, cut, halved, imbalanced_counts


def pictures(number: int, side: int = 2, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(256, size=(number, side, side, 3), dtype=np.uint8)


def made(counts: list[int], seed: int = 0) -> Labelled:
    labels = np.repeat(np.arange(len(counts)), counts)
    return Labelled(pictures(len(labels), seed=seed), labels, pictures(len(counts), seed=1), np.arange(len(counts)), 3)


def test_the_published_imbalances_and_small_ones() -> None:
    # EXP: 500 * 100^(-i/99), rounded down: 500, 477.3, 455.6, ..., 5. Head 100 or more, tail below 20.
    exp = imbalanced_counts("exp", 100, 500, 100)
    assert (exp.sum(), exp[:3].tolist(), exp[-1]) == (10_847, [500, 477, 455], 5)
    assert ((exp >= 100).sum(), ((exp >= 20) & (exp < 100)).sum(), (exp < 20).sum()) == (35, 35, 30)
    # STEP: the first half 500, the second 500 / 100.
    step = imbalanced_counts("step", 100, 500, 100)
    assert step.tolist() == [500] * 50 + [5] * 50
    assert step.sum() == 50 * 500 + 50 * 5 == 25_250
    assert imbalanced_counts("exp", 3, 16, 4).tolist() == [16, 8, 4]  # 16 * 4^(-1/2) = 8
    assert imbalanced_counts("step", 5, 9, 2).tolist() == [9, 9, 4, 4, 4]
    assert imbalanced_counts("exp", 2, 7, 1).tolist() == [7, 7]


@pytest.mark.parametrize(
    "arguments, fault",
    [
        (("wave", 3, 5, 2.0), "imbalance is 'wave'; there are 'exp' and 'step'"),
        (("exp", 1, 5, 2.0), "classes is 1, most 5, ratio 2.0; they must be at least 2, 1 and 1"),
        (("exp", 3, 5, 0.5), "ratio 0.5; they must be"),
        (("exp", 3, 5, float("nan")), "ratio nan; they must be"),
        (("step", 3, 5, 6.0), "a class would keep none of its pictures: 5 at most and ratio 6.0; lower the ratio"),
    ],
)
def test_imbalances_that_are_none(arguments: tuple[labelled.Imbalance, int, int, float], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        imbalanced_counts(*arguments)


def test_what_is_cut_depends_on_the_pixels_alone_and_must_be_there() -> None:
    data = made([6, 5, 4])
    with pytest.raises(DataError, match="class 2 has 4 training pictures where 5 are to be kept"):
        cut(data, [5, 5, 5])
    order = np.random.default_rng(5).permutation(15)
    shuffled = Labelled(data.train[order], data.train_labels[order], data.test, data.test_labels, 3)
    for counts in ([6, 5, 4], [3, 2, 1]):
        first, second = cut(data, counts), cut(shuffled, counts)
        assert first.counts.tolist() == counts
        assert (first.train == second.train).all()
        assert (first.train_labels == second.train_labels).all()
        # Each picture is one of its class's, and none comes twice.
        for picture, label in zip(first.train, first.train_labels, strict=True):
            assert (data.train[data.train_labels == label] == picture).all((1, 2, 3)).sum() == 1
        assert len({picture.tobytes() for picture in first.train}) == sum(counts)
    few, many = cut(data, [2, 2, 2]), cut(data, [4, 4, 4])
    assert {picture.tobytes() for picture in few.train} < {picture.tobytes() for picture in many.train}


def test_halving_by_hand() -> None:
    # Means of (0, 1, 0, 1) = 0.5, of (1, 1, 0, 0) = 0.5, of (255, 255, 255, 254) = 254.75, of (0, 0, 0, 1) = 0.25.
    old = np.array([[0, 1, 1, 1], [0, 1, 0, 0], [255, 255, 0, 0], [255, 254, 0, 1]], dtype=np.uint8)
    assert halved(old[None, :, :, None])[0, :, :, 0].tolist() == [[1, 1], [255, 0]]


def record(coarse: int, fine: int, pixel: bytes) -> bytes:
    """Red, green and blue planes that are all of one value, but for the second pixel of the red one."""
    red = bytearray(pixel[:1] * 1024)
    red[1] = 7
    return bytes([coarse, fine]) + bytes(red) + pixel[1:2] * 1024 + pixel[2:] * 1024


def test_the_archive_by_hand(tmp_path: Path) -> None:
    train = record(19, 11, b"\1\2\3") + record(0, 99, b"\4\5\6")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz", compresslevel=1) as stream:
        for name, content in (("train.bin", train), ("test.bin", record(3, 0, b"\xff\0\0"))):
            info = tarfile.TarInfo(f"cifar-100-binary/{name}")
            info.size = len(content)
            stream.addfile(info, io.BytesIO(content))
    data = labelled.read_cifar(tmp_path / "a.tar.gz")
    assert data.train.shape == (2, 32, 32, 3)
    assert data.train[0, 0, :3].tolist() == [[1, 2, 3], [7, 2, 3], [1, 2, 3]]
    assert data.train[1, 31, 31].tolist() == [4, 5, 6]
    assert (data.train_labels.tolist(), data.test_labels.tolist(), data.classes) == ([11, 99], [0], 100)
    assert data.test[0, 5, 5].tolist() == [255, 0, 0]


def test_arrays_by_hand(tmp_path: Path) -> None:
    small, large = pictures(2, 4), pictures(3, 8, seed=1)
    y = np.array([0, 99, 5], dtype=np.uint8)
    np.savez(tmp_path / "a.npz", x=small, y=y[:2])
    np.savez(tmp_path / "b.npz", x=large, y=y)
    data = labelled.read_arrays(tmp_path / "a.npz", tmp_path / "b.npz")
    assert (data.train == small).all()
    assert (data.test == halved(large)).all()
    assert (data.train_labels.tolist(), data.test_labels.tolist()) == ([0, 99], [0, 99, 5])


def test_cifar_itself() -> None:
    try:
        data = datasets.read("cifar-100-small")
    except DataError as error:
        pytest.skip(str(error))
    assert isinstance(data, Labelled)
    assert (data.train.shape, data.test.shape) == ((50_000, 16, 16, 3), (10_000, 16, 16, 3))
    assert set(data.counts.tolist()) == {500}
    assert set(np.bincount(data.test_labels).tolist()) == {100}
    tail = datasets.read("cifar-100-lt")
    assert isinstance(tail, Labelled)
    assert (tail.counts == imbalanced_counts("exp", 100, 500, 100)).all()
    # Two cuts of one data set, made by different hands: each picture, halved, is one of its class.
    known = {(int(y), x.tobytes()) for x, y in zip(data.train, data.train_labels, strict=True)}
    sample = np.arange(0, 10_847, 97)
    assert all((int(tail.train_labels[i]), halved(tail.train[i : i + 1])[0].tobytes()) in known for i in sample)


def test_digits_with_a_tail() -> None:
    data = labelled.tailed_digits()
    assert (data.train.shape[1:], data.classes, data.train.max()) == ((8, 8, 1), 10, 240)
    assert set(np.bincount(data.test_labels).tolist()) == {60}
    assert (data.counts + 60).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
