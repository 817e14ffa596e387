"""A text file is put in place whole, or not at all."""

from pathlib import Path

import pytest

from claimbook.store.entries import write_text


def test_a_file_is_replaced_and_its_folder_made(tmp_path: Path) -> None:
    file = tmp_path / "a folder" / "a.txt"
    for text in ("eins\n", "zwei: ö\n"):
        write_text(file, text)
        assert file.read_bytes() == text.encode()
        assert list(file.parent.iterdir()) == [file]


def test_a_text_that_cannot_be_written_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    write_text(file, "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(file, "new \ud800")  # half a pair of surrogates
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]
