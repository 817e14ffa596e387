"""The one way this package puts a text file in place, and its folders for the time of a run."""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

YOUNG = 60.0
"""Seconds for which a scratch folder is let alone: its process may not hold it yet."""


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
    """A folder that is held until the block ends; those of the same prefix that killed processes left go first.

    A process that SIGKILL ends removes nothing, but lets go of its locks.
    """
    for left in (parent or Path(tempfile.gettempdir())).glob(f"{prefix}????????"):
        with suppress(OSError):  # another user's, or held, or just gone
            if time.time() - left.stat().st_mtime > YOUNG:
                os.close(_held(left))
                shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True) as folder:
        hold = _held(Path(folder))
        HELD.add(folder)
        try:
            yield folder
        finally:
            HELD.discard(folder)
            os.close(hold)


def _held(folder: Path) -> int:
    """A descriptor that holds the folder's lock; an OSError if another process has it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
