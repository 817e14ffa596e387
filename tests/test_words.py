"""The words that readers stumble over are found; that the pages have none of them, ``make lint`` checks."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def codespell(*paths: Path) -> subprocess.CompletedProcess[str]:
    """What ``make lint`` runs, on some paths; its exit code is the number of words found."""
    command = [sys.executable, "-m", "codespell_lib", *map(str, paths)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "sentence, found",
    [
        ("Take $\\log q$ off all logits.", "log q$ off ==> log q$ subtracted from"),
        ("One estimate beside another.", "beside ==> compared with, next to, against"),
        ("Subtract $\\log q$ from every logit.", ""),
    ],
)
def test_a_listed_word_is_found(tmp_path: Path, sentence: str, found: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{sentence}\n")
    done = codespell(page)
    assert bool(done.returncode) == bool(found)
    assert found in done.stdout
