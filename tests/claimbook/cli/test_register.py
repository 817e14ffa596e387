"""``claimbook register``: the table in a terminal."""

from pathlib import Path

import pytest

from claimbook import register
from claimbook.cli.commands import register_command

ROOT = Path(__file__).parents[3]


def test_each_claim_of_a_chapter_has_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("claims", "tests"):  # and no evidence: what tests would decide is open
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    register_command(chapter="fits")
    names = [name for name, claim in register.load(ROOT / "claims").items() if claim.chapter == "fits"]
    lines = capsys.readouterr().out.splitlines()
    assert [first for first, *_ in map(str.split, filter(str.strip, lines)) if first in names] == names
    assert lines[-1].startswith(f"{len(names)} claims: ")
    conventions = sum(register.load(ROOT / "claims")[name].is_convention for name in names)
    assert f"{len(names) - conventions} open" in lines[-1]
