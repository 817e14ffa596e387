"""Measured times and memory: `make bench` writes them, chapters draw them, and pages keep the same bytes."""

import json
from pathlib import Path
from typing import Any

import sumexp

FOLDER = Path(sumexp.__path__[0], "measured")
"""They come with the package, so that a chapter finds them wherever it runs."""


def load(name: str) -> dict[str, Any]:
    """The measurements of one benchmark."""
    path = FOLDER / f"{name}.json"
    if not path.is_file():
        raise FileNotFoundError(f"no {path}: write it by `make bench`, or install the package again")
    measured: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return measured
