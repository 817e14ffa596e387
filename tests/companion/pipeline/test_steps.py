"""A step of the build as a process: which one is run, and how it ends where it fails."""

from pathlib import Path

import pytest

from sumexp.companion import CompanionError
from sumexp.companion.pipeline import book, pages, plan
from sumexp.companion.store import processes, progress


@pytest.mark.parametrize(("driver", "end"), [("here", SystemExit), ("on another machine", CompanionError)])
def test_the_step_that_is_asked_for_is_run_and_who_has_heard_of_its_end_is_not_told_again(
    driver: str, end: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def make(_: object, jobs: int) -> None:
        asked.append(jobs)
        raise CompanionError("no pages")

    (tmp_path / "here").mkdir()
    monkeypatch.setenv(progress.FOLDER, str(tmp_path / driver))
    monkeypatch.setenv(progress.STEP, "")
    monkeypatch.setattr(processes, "bind", lambda: None)
    monkeypatch.setattr(book, "PLAN", tmp_path / "plan.json")
    empty = plan.Plan(profile="cpu", device="cpu", notebooks={}, selected=(), evidence={})
    book.PLAN.write_text(empty.model_dump_json())
    monkeypatch.setattr(pages, "make", make)
    with pytest.raises(end, match="1" if end is SystemExit else "no pages"):
        book.step("pages", "7")
    assert asked == [7]
