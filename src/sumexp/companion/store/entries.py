"""Entries of the store: where they lie, who computes them, how they are written, verified, listed and removed."""

import errno
import fcntl
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import file_digest
from pathlib import Path
from typing import Any, Literal, TypeAlias

from sumexp.companion import CompanionError
from sumexp.companion.store.computation import Computation
from sumexp.companion.store.provenance import Provenance

Status: TypeAlias = Literal["fresh", "missing", "running", "half-done", "damaged"]

SUMS = "SHA256SUMS"
"""The checksums of an entry's other files, in the form that ``sha256sum --check`` reads; written last."""
RECORD = "entry.json"
"""Kind, name, parts and provenance."""
CHECKPOINT, PART = ".checkpoint", ".part"
"""What the names of the state of a half-done computation, and of what is half written, end with."""
MOMENT = 0.2
"""Seconds to wait before assuming that the holder is computing; probing briefly takes the lock."""
_FAULTS = (OSError, ValueError, LookupError, TypeError, AttributeError)
"""What reading an entry raises that is not what was written."""
_log = logging.getLogger(__name__)


class DamagedError(CompanionError):
    """An entry that is not what was written: the message says why."""


@dataclass(frozen=True)
class Entry:
    """What a computation gave, as it lies in the store.

    Attributes:
        path: its folder.
        computation: what was computed.
        provenance: how.
    """

    path: Path
    computation: Computation
    provenance: Provenance

    @cached_property
    def size(self) -> int:
        """Bytes."""
        return size(self.path)


@dataclass(frozen=True)
class Store:
    """A folder of entries.

    Attributes:
        root: the folder.
        fetch: where `find` looks for an entry that is not here: puts it into the folder it is given and returns True,
            or leaves nothing there and returns False; None looks nowhere.
    """

    root: Path
    fetch: Callable[[Computation, Path], bool] | None = None

    def path(self, computation: Computation) -> Path:
        """Where the entry lies, or will lie."""
        return self.root / computation.kind / computation.name / computation.key

    def find(self, computation: Computation) -> Entry | None:
        """The entry, verified; None if there is none here or at the remote, or (with a note) a damaged one."""
        entry = self.here(computation)
        if entry is None and self.fetch is not None:
            with self._fetching(computation) as free:
                path = self.path(computation)
                # Another process may have been quicker; what one computes here is not fetched.
                if free and not _is_whole(path) and self.fetch(computation, part := _part(path)):
                    with self.guarded(path):
                        self._publish(part, path)
            entry = self.here(computation)
        return entry

    @contextmanager
    def _fetching(self, computation: Computation) -> Iterator[bool]:
        """Wait for others that fetch the same; gives whether nobody computes it, which nobody does until the end."""
        from filelock import FileLock, Timeout

        turn = FileLock(self._lock(f"{computation.key}.fetch"))
        with self.guarded(self.path(computation)):
            turn.acquire()
        try:
            with self.locked(computation, wait=False):
                yield True
        except Timeout:
            yield False
        finally:
            Path(turn.lock_file).unlink(missing_ok=True)  # who waits for it makes another
            turn.release()

    def here(self, computation: Computation) -> Entry | None:
        """The entry as `find` gives it, if it is here: the remote is not asked."""
        path = self.path(computation)
        if not _is_there(path):
            return None
        try:
            return read(path)
        except DamagedError as error:
            _log.warning("%s; it will be computed again", error)
            return None

    def has(self, computation: Computation) -> bool:
        """Whether there is an entry here, damaged or not."""
        return _is_there(self.path(computation))

    def lacking(self, wanted: Iterable[Computation]) -> list[Computation]:
        """What is to be computed, as neither the store nor its remote has it; damaged entries go."""
        absent = [computation for computation in wanted if self.find(computation) is None]
        for computation in absent:
            if self.has(computation):
                self.remove(self.path(computation))
        return absent

    def status(self, computation: Computation) -> Status:
        """How far it is."""
        path = self.path(computation)
        if self.is_running(computation.key):
            return "running"
        if _is_there(path):
            return "fresh" if _is_whole(path) else "damaged"
        return "half-done" if self.checkpoint(computation).exists() else "missing"

    def checkpoint(self, computation: Computation) -> Path:
        """Where the state of a half-done computation lies."""
        return self.path(computation).with_suffix(CHECKPOINT)

    def checkpoints(self) -> list[Path]:
        """The states of all half-done runs."""
        return sorted(self.root.glob(f"run/*/*{CHECKPOINT}"))

    def half_written(self) -> list[Path]:
        """What processes are writing, or had begun to write when they were killed."""
        return sorted(self.root.glob(f"*/*/*{PART}"))

    @contextmanager
    def writing(self, computation: Computation) -> Iterator[tuple[Path, Callable[[Provenance], None]]]:
        """Make an entry: an empty folder for its files, and what to call when they are whole; the caller has the lock.

        Nothing appears in the entry's place before the second is called, which must come last.
        """
        path = self.path(computation)
        part = _part(path)

        @self.guarded(path)
        def seal(provenance: Provenance) -> None:
            record = {"kind": computation.kind, "name": computation.name, "parts": dict(computation.parts)}
            text = json.dumps(record | {"provenance": asdict(provenance)}, indent=1)
            (part / RECORD).write_text(text + "\n", "utf-8")
            (part / SUMS).write_text(_sums(part), "utf-8")
            self._publish(part, path)
            for end in ("", PART):  # which a kill left half written; by name, as there may be 10,000 entries
                self.checkpoint(computation).with_suffix(CHECKPOINT + end).unlink(missing_ok=True)

        with self.guarded(path):
            for left in (part, _gone(path)):
                shutil.rmtree(left, ignore_errors=True)  # by a process that was killed
            part.mkdir(parents=True)
        try:
            yield part, seal
        except OSError as error:
            if not _is_of_keeping(error, part):
                raise
            with self.guarded(path):
                raise
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def _publish(self, part: Path, path: Path) -> None:
        if path.exists():  # damaged
            _remove(path)
        part.replace(path)

    @contextmanager
    def guarded(self, path: Path) -> Iterator[None]:
        """Say how to fix it where the store cannot be written."""
        try:
            yield
        except OSError as error:
            free = ", or free space (sumexp clean)" * is_full(error)
            raise CompanionError(f"cannot keep {path}: {error}; name another folder by SUMEXP_STORE{free}") from error

    @contextmanager
    def locked(self, computation: Computation, *, wait: bool = True) -> Iterator[None]:
        """Hold the computation's lock, which the system releases when the process ends, however it ends.

        Who holds it may take it once more: `find` does.

        Raises:
            CompanionError: if the store cannot be written.
            filelock.Timeout: if another process computes it, and ``wait`` is false.
        """
        from filelock import FileLock, Timeout

        lock = FileLock(self._lock(computation.key), is_singleton=True)
        with self.guarded(self.path(computation)), suppress(Timeout):
            lock.acquire(timeout=MOMENT)
        if not lock.is_locked:
            if not wait:
                raise Timeout(lock.lock_file)
            _log.warning("waiting for another process that computes %s", self.path(computation))
            lock.acquire()
        try:
            yield
        finally:
            if lock.lock_counter == 1:
                Path(lock.lock_file).unlink(missing_ok=True)  # who waits for it makes another
            lock.release()

    def is_running(self, key: str) -> bool:
        """Whether a process holds the lock of this key; to look takes no right to write."""
        try:
            with self._lock(key).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            return isinstance(error, BlockingIOError)
        return False

    def _lock(self, key: str) -> Path:
        return self.root / "locks" / f"{key}.lock"

    def paths(self, kind: str = "*", name: str = "*") -> list[Path]:
        """The folders of all entries of a kind and name, damaged ones too."""
        return sorted(path for path in self.root.glob(f"{kind}/{name}/*") if not path.suffix and _is_there(path))

    def entries(self, kind: str = "*", name: str = "*") -> list[Entry]:
        """All entries of a kind and name that are what was written, the one finished first first."""
        entries = []
        for path in self.paths(kind, name):
            with suppress(DamagedError):
                entries.append(read(path))
        return sorted(entries, key=lambda entry: entry.provenance.finished)

    def remove(self, path: Path) -> bool:
        """Remove an entry, a checkpoint or a part; whether it is gone: it stays if a process is computing it."""
        from filelock import FileLock, Timeout

        with self.guarded(path):
            try:
                with FileLock(self._lock(path.name.partition(".")[0]), timeout=0):
                    _remove(path)
            except Timeout:
                return False
        return True


def read(path: Path, place: Path | None = None) -> Entry:
    """The entry in a folder, all of whose files are what was written, and whose parts make its key.

    Args:
        path: the folder.
        place: where it is to lie: kind, name and key are those of this path; here if None.
    """
    try:
        if (path / SUMS).read_text("utf-8") != _sums(path):
            raise DamagedError(f"{path} is damaged: its files are not those that were written")
        record: Mapping[str, Any] = json.loads((path / RECORD).read_text("utf-8"))
        computation = Computation(record["kind"], record["name"], record["parts"])
        if (computation.kind, computation.name, computation.key) != (place or path).parts[-3:]:
            raise DamagedError(f"{path} is foreign: it holds {computation.kind} {computation.name} {computation.key}")
        return Entry(path, computation, Provenance.from_record(record["provenance"]))
    except _FAULTS as error:
        raise DamagedError(f"{path} is damaged: {error}") from error


def size(path: Path) -> int:
    """The bytes of a file, or of all that is in a folder."""
    return sum(file.stat().st_size for file in (path, *path.rglob("*")) if file.is_file())


def _sums(folder: Path) -> str:
    def line(file: Path) -> str:
        with file.open("rb") as stream:
            return f"{file_digest(stream, 'sha256').hexdigest()}  {file.relative_to(folder).as_posix()}\n"

    files = sorted(file for file in folder.rglob("*") if file.is_file() and file != folder / SUMS)
    return "".join(map(line, files))


def _remove(path: Path) -> None:
    """Remove a file or folder, such that no half of it is ever in its place."""
    if path.is_dir():
        gone = _gone(path)
        shutil.rmtree(gone, ignore_errors=True)
        path.replace(gone)
        shutil.rmtree(gone)
    else:
        path.unlink(missing_ok=True)


def is_full(error: BaseException) -> bool:
    """Whether a disk was full, or a quota used up; some errors have it in words only."""
    numbers = errno.ENOSPC, errno.EDQUOT
    return getattr(error, "errno", None) in numbers or any(os.strerror(number) in str(error) for number in numbers)


def _is_of_keeping(error: OSError, part: Path) -> bool:
    """Whether an error is one of writing to a folder; the system does not say where a disk was full."""
    names = [name for name in (error.filename, error.filename2) if isinstance(name, str | os.PathLike)]
    inside = any(Path(name).is_relative_to(part) for name in names)
    return inside or is_full(error)


def _part(path: Path) -> Path:
    return path.with_suffix(PART)


def _is_whole(path: Path) -> bool:
    try:
        read(path)
    except DamagedError:
        return False
    return True


def _is_there(path: Path) -> bool:
    """Whether a folder holds anything; who copies a store may make an empty one first."""
    try:
        return path.is_dir() and any(path.iterdir())
    except PermissionError as error:
        raise CompanionError(
            f"cannot read {path}: {error.strerror}; let its owner allow it, or name another folder by SUMEXP_STORE"
        ) from error


def _gone(path: Path) -> Path:
    """Where an entry is on its way out."""
    return path.with_suffix(".gone.part")
