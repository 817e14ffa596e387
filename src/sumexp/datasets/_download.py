"""Fetching files in parallel: each into a partial file next to its place, continued by the next call, then checked."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING

from sumexp.datasets._declarations import DataFile, fault

if TYPE_CHECKING:
    from requests import Response

SIDE_BY_SIDE = 4
"""Transfers at a time, at most."""

MOST = 1 << 30
"""Bytes of a file whose size is not declared: what goes on beyond them does not end."""

RATE, WINDOW = 1_000, 60.0
"""The least mean rate in bytes a second over each so many seconds; silence is given up after half of them."""


def download(files: Mapping[Path, DataFile]) -> dict[Path, Exception]:
    """Fetch each file to its place, with one progress bar; returns what kept some from coming.

    Nothing appears in a file's place before it is whole and verified. Of an interrupted transfer the part stays, of a
    wrong file nothing.

    Args:
        files: what to fetch, by where it goes.

    Returns:
        by the places of those that failed an OSError if the transfer broke off or the folder cannot be written, or a
        ValueError if the server sent another file.
    """
    from tqdm import tqdm

    failed: dict[Path, Exception] = {}
    stopped, lock = Event(), Lock()
    known = sum(file.size for file in files.values())
    with (
        tqdm(desc=_names(files), total=known or None, unit="B", unit_scale=True, disable=not files) as bar,
        ThreadPoolExecutor(SIDE_BY_SIDE) as pool,
    ):

        def moved(size: int) -> None:
            if stopped.is_set():
                raise InterruptedError("stopped")
            with lock:
                bar.update(size)

        pending = {pool.submit(_fetch, file, target, moved): target for target, file in files.items()}
        try:
            for done in as_completed(pending):
                if isinstance(error := done.exception(), OSError | ValueError):
                    failed[pending[done]] = error
                elif error:
                    raise error
        finally:  # also by Ctrl-C
            stopped.set()
            pool.shutdown(wait=True, cancel_futures=True)
    return failed


def _names(files: Mapping[Path, DataFile]) -> str:
    return next(iter(files)).name if len(files) == 1 else f"{len(files)} files"


def _fetch(file: DataFile, target: Path, moved: Callable[[int], None]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    with _alone(target.with_name(target.name + ".lock")):
        if target.exists():  # another process was quicker
            return
        try:
            _transfer(file, part, moved)
            if wrong := fault(part, file):
                raise ValueError(wrong)
        except ValueError as error:
            if not isinstance(error, OSError):  # requests has errors that are both, and says by them that it broke off
                part.unlink()
            raise
        finally:
            if part.exists() and not part.stat().st_size:
                part.unlink()
        part.replace(target)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold a lock, and take its file away with it; who waited for that file finds it gone and makes another."""
    from filelock import FileLock

    with FileLock(path):
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # Windows keeps what is open
                path.unlink()


def _transfer(file: DataFile, part: Path, moved: Callable[[int], None]) -> None:
    """Fetch what ``part`` lacks, or all where the server cannot begin in the middle.

    Raises:
        OSError: if the transfer breaks off or is too slow; the part stays.
        ValueError: if more is sent than the file has.
    """
    import requests

    most = file.size or MOST
    with part.open("ab") as stream:
        have = stream.tell()
        begun = 0 < have < most
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if begun else {})
        with requests.get(file.url, headers=headers, stream=True, timeout=WINDOW / 2) as response:
            if begun and response.status_code == requests.codes.requested_range_not_satisfiable:
                return  # nothing is missing, or the part is of another file: its checksum says which
            response.raise_for_status()
            if response.status_code == requests.codes.partial_content:
                moved(have)
            else:
                stream.truncate(0)
                have = 0
            for chunk in _chunks(response):
                have += len(chunk)
                if have > most:
                    raise ValueError(f"it goes on after {most:,} bytes{' where it should end' * bool(file.size)}")
                stream.write(chunk)
                moved(len(chunk))


def _chunks(response: "Response") -> Iterator[bytes]:
    """What comes, as it comes.

    Raises:
        OSError: if it breaks off, or its mean rate over a window is too low.
    """
    from urllib3.exceptions import HTTPError

    begin, received = time.monotonic(), 0
    try:
        while chunk := response.raw.read1(1 << 16, decode_content=True):  # read() would wait for all 64 KiB
            yield chunk
            received += len(chunk)
            if (passed := time.monotonic() - begin) >= WINDOW:
                if received < RATE * passed:
                    raise TimeoutError(f"{received:,} bytes in {passed:.0f} seconds are too few to wait for the rest")
                begin, received = time.monotonic(), 0
    except HTTPError as error:
        raise ConnectionError(str(error)) from error
