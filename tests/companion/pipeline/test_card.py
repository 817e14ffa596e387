"""The picture that links are shown with, on bars whose ends are known."""

from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from sumexp.companion import CompanionError
from sumexp.companion.pipeline import card

HEAD = "panel,series,kind,x,y,base\n"
TWO = HEAD + (
    "panel 1,1,bar,0.25,0,0\npanel 1,2,bar,1,0,0.25\npanel 1,3,bar,0.5,1,0\npanel 1,4,bar,1,1,0.5\n"
    "panel 1,5,line,0.3,-0.42,\npanel 1,5,line,0.3,0.42,\npanel 1,6,line,0.6,0.58,\npanel 1,6,line,0.6,1.42,\n"
)


def test_bars_and_lines_are_read_by_row() -> None:
    assert card.bars(TWO) == ([[(0, 0.25), (0.25, 1)], [(0, 0.5), (0.5, 1)]], [0.3, 0.6])


@pytest.mark.parametrize("data", [HEAD, HEAD + "panel 1,1,bar,0.25,0,0\n"])
def test_a_figure_of_another_kind_is_an_error(data: str) -> None:
    with pytest.raises(CompanionError, match="0 lines; expected as many"):
        card.bars(data)


def test_the_picture_has_the_bars_where_they_belong() -> None:
    drawn = card.draw(TWO, "A title", "about it")
    assert drawn == card.draw(TWO, "A title", "about it")
    with Image.open(BytesIO(drawn)) as picture:
        assert picture.size == card.SIZE
        pixels = picture.convert("RGB")
    left, right, row = 0.06 * 1200, 0.88 * 1200, 630 * (1 - 0.06 - 0.54 * 0.75)  # the first of two bars
    first, second = (pixels.getpixel((int(left + right * x), int(row))) for x in (0.2, 0.4))
    assert first == (0xD5, 0x5E, 0x00)  # vermilion
    assert second != first
    assert pixels.getpixel((int(left + right * 0.3), int(row))) == (0, 0, 0)


def test_without_the_figure_there_is_none(tmp_path: Path) -> None:
    assert card.made(tmp_path, "A", "b") is None
