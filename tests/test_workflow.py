"""What the workflow may do: pinned actions, and no token that may write beside what we run."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
JOBS = {f"{file.stem}: {name}": job for file in FILES for name, job in yaml.safe_load(file.read_text())["jobs"].items()}
OURS = re.compile(r"\b(make|python|pip|uv|sumexp)\b|\.ci/")

every_job = pytest.mark.parametrize("name", JOBS)


def writes(job: dict[str, Any]) -> bool:
    return "write" in job.get("permissions", {}).values()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_actions_are_pinned_by_commit_and_rights_are_stated(file: Path) -> None:
    used = re.findall(r"uses: (.*)", file.read_text("utf-8"))
    assert used
    for action in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action
    assert yaml.safe_load(file.read_text("utf-8"))["permissions"] == {"contents": "read"}


@every_job
def test_what_may_write_runs_nothing_of_ours(name: str) -> None:
    commands = [step["run"] for step in JOBS[name]["steps"] if "run" in step]
    assert not (writes(JOBS[name]) and any(map(OURS.search, commands)))
    assert writes(JOBS[name]) or any(map(OURS.search, commands))


@every_job
def test_a_checkout_keeps_no_token_where_ours_runs(name: str) -> None:
    for step in JOBS[name]["steps"]:
        if step.get("uses", "").startswith("actions/checkout@") and not writes(JOBS[name]):
            assert step["with"]["persist-credentials"] is False
