"""The book builds, without data, by the commands that a reader gives; the other tests of this folder look at it."""

from pathlib import Path


def test_the_book_is_built(html: Path) -> None:
    assert (html / "index.html").is_file()
