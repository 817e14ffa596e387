"""Fetching files, several side by side: each into a part beside its place, continued by the next call, then checked."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from threading import Event, Lock

from sumexp.datasets._declarations import DataFile, fault

SIDE_BY_SIDE = 4
"""Transfers at a time, at most."""


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
    from filelock import FileLock

    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    with FileLock(target.with_name(target.name + ".lock")):
        if target.exists():  # another process was quicker
            return
        _transfer(file, part, moved)
        if wrong := fault(part, file):
            part.unlink()
            raise ValueError(wrong)
        part.replace(target)


def _transfer(file: DataFile, part: Path, moved: Callable[[int], None]) -> None:
    """Fetch what ``part`` lacks, or all where the server cannot begin in the middle."""
    import requests

    with part.open("ab") as stream:
        have = stream.tell()
        begun = have > 0 and (have < file.size or not file.size)
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if begun else {})
        with requests.get(file.url, headers=headers, stream=True, timeout=30) as response:
            if response.status_code == requests.codes.partial_content:
                moved(have)
            else:
                stream.truncate(0)
            response.raise_for_status()
            for chunk in response.iter_content(1 << 16):
                moved(stream.write(chunk))
