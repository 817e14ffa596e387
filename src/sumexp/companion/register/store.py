"""The register as JSON, and the one way this package puts a file in place."""

import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sumexp.companion.register.verdict import Entry


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


def write_text(path: Path, text: str) -> None:
    """Write ``text`` so that a reader sees the old file or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_json(register: Iterable[Entry], path: Path) -> None:
    """Write the machine's form of the register to ``path``."""
    write_text(path, json.dumps(as_records(register), indent=1, ensure_ascii=False) + "\n")
