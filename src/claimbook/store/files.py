"""Putting a text file in place, and temporary folders."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HELD: set[str] = set()
"""The scratch folders of this process."""


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


@contextmanager
def scratch(prefix: str, parent: Path | None = None) -> Iterator[str]:
    """A folder that goes with the block, or with the process if `processes.end` ends it."""
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True) as folder:
        HELD.add(folder)
        try:
            yield folder
        finally:
            HELD.discard(folder)
