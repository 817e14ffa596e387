"""The register as JSON, and back."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sumexp.companion.register.model import Claim, Test
from sumexp.companion.register.verdict import Entry, Register
from sumexp.companion.store.files import write_text


def as_records(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """The machine's form: for each claim its fields, verdict, evidence and tests."""
    return [
        entry.claim.model_dump(mode="json")
        | {
            "verdict": entry.verdict,
            "says": entry.says,
            "evidence": entry.evidence,
            "tests": [test.model_dump(mode="json", exclude={"claim"}) for test in entry.tests],
        }
        for entry in entries
    ]


def write_json(register: Iterable[Entry], path: Path) -> None:
    """Write the machine's form of the register to ``path``."""
    write_text(path, json.dumps(as_records(register), indent=1, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Register:
    """Read what :func:`write_json` has written."""
    return tuple(
        Entry(
            claim=Claim.model_validate({field: one[field] for field in Claim.model_fields}),
            verdict=one["verdict"],
            says=one["says"],
            evidence=one["evidence"],
            tests=tuple(Test.model_validate({**test, "claim": one["id"]}) for test in one["tests"]),
        )
        for one in json.loads(path.read_text("utf-8"))
    )
