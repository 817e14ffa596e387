"""Downloads: each into a partial file, which the next call resumes, then checked and renamed."""

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path

from sumexp.datasets._declarations import DataError, DataFile, fault

TIMEOUT = 30.0
"""Seconds without a byte after which a transfer fails."""


def download(files: Mapping[Path, DataFile]) -> dict[Path, Exception]:
    """Download each file to its target, with one progress bar; returns the errors of those that failed.

    A target exists only once it is complete and verified. An interrupted transfer leaves its part, and a wrong file
    nothing. The error is an OSError if the transfer broke off or the folder is not writable, or a DataError if the
    server sent another file.
    """
    from tqdm import tqdm

    failed: dict[Path, Exception] = {}
    name = next(iter(files)).name if len(files) == 1 else f"{len(files)} files"
    size = sum(file.size for file in files.values())
    with tqdm(desc=name, total=size, unit="B", unit_scale=True, disable=not files) as bar:
        for target, file in files.items():
            try:
                _fetch(file, target, bar.update)
            except (OSError, DataError) as error:
                failed[target] = error
    return failed


def _fetch(file: DataFile, target: Path, moved: Callable[[int], object]) -> None:
    """Download a file to its partial file, check it, and rename it; one process at a time."""
    from filelock import FileLock

    target.parent.mkdir(parents=True, exist_ok=True)
    part, lock = (target.with_name(target.name + suffix) for suffix in (".part", ".lock"))
    with FileLock(lock):
        try:
            if target.is_file():  # another process was faster
                return
            _transfer(file, part, moved)
            if wrong := fault(part, file):
                part.unlink()
                raise DataError(wrong)
            part.replace(target)
        finally:
            if part.exists() and not part.stat().st_size:
                part.unlink()
            with contextlib.suppress(OSError):  # Windows does not remove an open file
                lock.unlink()


def _transfer(file: DataFile, part: Path, moved: Callable[[int], object]) -> None:
    """Append the missing bytes to ``part``, or all bytes if the server has no byte ranges.

    It stops soon after the declared size, so that a stream without end becomes a wrong file.
    """
    import requests

    with part.open("ab") as stream:
        have = stream.tell()
        resumed = 0 < have < file.size
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if resumed else {})
        with requests.get(file.url, headers=headers, stream=True, timeout=TIMEOUT) as response:
            if resumed and response.status_code == requests.codes.requested_range_not_satisfiable:
                return  # the part is complete, or of another file: its checksum decides
            response.raise_for_status()
            if response.status_code == requests.codes.partial_content:
                moved(have)
            else:
                stream.truncate(0)
                have = 0
            for chunk in response.iter_content(1 << 14):
                stream.write(chunk)
                moved(len(chunk))
                have += len(chunk)
                if have > file.size:
                    return
