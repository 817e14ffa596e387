"""Measured times and memory: `make bench` writes them, chapters draw them, and pages keep the same bytes."""

import json
from pathlib import Path
from typing import Any

from sumexp.companion import CompanionError

FOLDER = Path("benchmarks/results")


def load(name: str) -> dict[str, Any]:
    """The measurements of one benchmark, from the checkout that this folder or one above it is."""
    paths = (folder / FOLDER / f"{name}.json" for folder in (Path.cwd(), *Path.cwd().parents))
    if path := next(filter(Path.is_file, paths), None):
        measured: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return measured
    raise CompanionError(f"no {FOLDER / name}.json here or above {Path.cwd()}: run `make bench`, or work in a checkout")
