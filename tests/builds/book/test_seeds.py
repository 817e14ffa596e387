"""A chapter finishes with any seed; each day another chapter and another seed, both in the test's name."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from claimbook.pipeline.plan import chapters_of

ROOT = Path(__file__).parents[3]
CHAPTERS = chapters_of(ROOT / "_toc.yml")
DAY = datetime.now(UTC).date().toordinal()


@pytest.mark.parametrize(("chapter", "seed"), [(CHAPTERS[DAY % len(CHAPTERS)], DAY)])
def test_a_chapter_finishes_with_the_day_s_seed(tmp_path: Path, chapter: str, seed: int) -> None:
    command = [sys.executable, "-m", "claimbook.cli", "notebook", "run", chapter, "--output"]
    arguments = [str(tmp_path / "executed.ipynb"), "-p", "profile=smoke", "-p", f"seed={seed}"]
    surroundings = os.environ | {"SUMEXP_STORE": str(tmp_path / "store")}
    done = subprocess.run([*command, *arguments], cwd=ROOT, env=surroundings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
