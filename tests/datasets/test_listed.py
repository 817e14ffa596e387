"""Lists of pictures in a folder: small lists and pictures that the tests write, every fault with its message."""

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sumexp.datasets import DataError, listed


def put(folder: Path, text: str, name: str = "train.txt") -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_lists_by_hand(tmp_path: Path) -> None:
    train = put(tmp_path, "a/one.png 0\nb/two pictures.png 1\na/three.png 0\n")
    first, second = listed.read_lists(train, put(tmp_path, "val/x.png 1\n", "val.txt"))
    assert first.paths == ("a/one.png", "b/two pictures.png", "a/three.png")
    assert first.counts.tolist() == [2, 1]
    assert (second.paths, second.labels.tolist()) == (("val/x.png",), [1])


@pytest.mark.parametrize(
    "text, fault",
    [
        ("", "train.txt lists no picture"),
        ("a.png 0\nb.png\n", "train.txt, line 2: expected a path, a blank and a class, got 'b.png'"),
        ("a.png x\n", "line 1: expected a path"),
        ("a.png -1\n", "line 1: expected a path"),
        ("a.png ²\n", "line 1: expected a path"),
        ("\n", "line 1: expected a path"),
        ("../a.png 0\n", "line 1: '../a.png' leads out of the folder of pictures"),
        ("/etc/a.png 0\n", "line 1: '/etc/a.png' leads out"),
        (f"a.png 0\nb.png {2**64}\n", "line 2: the class is 18446744073709551616, more than any data set has"),
    ],
)
def test_lines_that_are_none(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(DataError, match=fault):
        listed.read_list(put(tmp_path, text))


def test_a_byte_order_mark_is_no_part_of_a_path(tmp_path: Path) -> None:
    assert listed.read_list(put(tmp_path, "\ufeffa/b.png 1\n")).paths == ("a/b.png",)


def test_a_list_that_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "train.txt"
    file.write_bytes(b"a.png 0\nb\xff.png 1\n")
    with pytest.raises(DataError, match="line 2: expected UTF-8, got byte 0xff"):
        listed.read_list(file)


def test_a_class_without_training_pictures(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"val.txt has class 2, of which .*train.txt has no picture"):
        listed.read_lists(put(tmp_path, "a 0\nb 1\n"), put(tmp_path, "a 2\n", "val.txt"))


def picture(folder: Path, width: int, height: int) -> str:
    """Red from left to right, green from above to below, blue 51."""
    values = np.full((height, width, 3), 51, dtype=np.uint8)
    values[..., 0] = np.linspace(0, 255, width).round()
    values[..., 1] = np.linspace(0, 255, height).round()[:, None]
    Image.fromarray(values).save(folder / "p.png")
    return "p.png"


def plain(
    values: np.ndarray[tuple[int, ...], np.dtype[np.float32]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return values * listed.DEVIATION[:, None, None] + listed.MEAN[:, None, None]


def test_the_middle_is_judged(tmp_path: Path) -> None:
    # 96 x 64: the middle square of 56 goes from column 20 to 76 and from row 4 to 60.
    values = plain(listed.read_picture(tmp_path, picture(tmp_path, 96, 64), side=28))
    assert values.shape == (3, 28, 28)
    assert np.allclose(values[2], 51 / 255, atol=1e-6)
    assert values[0].mean() == pytest.approx(0.5, abs=0.01)
    assert values[0, 0, 0] == pytest.approx(20.5 / 95, abs=0.02)
    assert values[1, -1, 0] == pytest.approx(58.5 / 63, abs=0.02)


def test_training_pictures_are_pieces_and_half_of_them_mirrored(tmp_path: Path) -> None:
    name = picture(tmp_path, 96, 64)
    found = [plain(listed.read_picture(tmp_path, name, 8, np.random.default_rng(seed))) for seed in range(200)]
    mirrored = sum(values[0, 0, 0] > values[0, 0, -1] for values in found)
    # Binomial(200, 1/2): outside 65..135 once in 10^6.
    assert 65 <= mirrored <= 135
    widths = [abs(values[0, 0, -1] - values[0, 0, 0]) * 8 / 7 for values in found]
    heights = [(values[1, -1, 0] - values[1, 0, 0]) * 8 / 7 for values in found]
    areas = np.array(widths) * np.array(heights)
    assert 0.06 < areas.min() < 0.25
    assert 0.7 < areas.max() < 1.1
    same = [listed.read_picture(tmp_path, name, 8, np.random.default_rng(3)) for _ in range(2)]
    assert (same[0] == same[1]).all()


def test_a_strip_that_no_rectangle_fits_gives_its_middle(tmp_path: Path) -> None:
    name = picture(tmp_path, 300, 2)
    values = plain(listed.read_picture(tmp_path, name, 4, np.random.default_rng(0)))
    assert values[0].mean() == pytest.approx(0.5, abs=0.02)


def test_pictures_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"gone.png is not there; name the folder that holds 'gone.png'"):
        listed.read_picture(tmp_path, "gone.png")
    put(tmp_path, "<html>", "page.png")
    with pytest.raises(DataError, match=r"page.png is not a picture that can be read"):
        listed.read_picture(tmp_path, "page.png")
    cut = (tmp_path / picture(tmp_path, 96, 64)).read_bytes()[:200]
    (tmp_path / "cut.png").write_bytes(cut)
    with pytest.raises(DataError, match=r"cut.png is not a picture that can be read"):
        listed.read_picture(tmp_path, "cut.png")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(DataError, match="read by Pillow, which is not here; run: pip install pillow"):
        listed.read_picture(tmp_path, "p.png")
