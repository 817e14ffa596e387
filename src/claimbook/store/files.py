"""Putting a text file in place."""

import os
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Write ``text`` so that a reader sees the old file or the new file, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_text(text, "utf-8", newline="\n")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
