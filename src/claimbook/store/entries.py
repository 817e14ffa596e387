"""The user's store and its entries: their places and locks; writing, verifying, listing and removing them."""

import errno
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from hashlib import file_digest
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import TypeAdapter

from claimbook import BookError
from claimbook.store.computation import Computation
from claimbook.store.provenance import Provenance

SUMS = "SHA256SUMS"
"""The checksums of an entry's other files, in the form that ``sha256sum --check`` reads; written last."""
RECORD = "entry.json"
"""Kind, name, parts and provenance."""
CHECKPOINT, PART = ".checkpoint", ".part"
"""What names end with: of the state of a half-done computation, of what is half written."""
MOMENT = 0.2
"""Seconds to wait for a lock before saying so."""
_KEY = "[0-9a-f]" * 64  # of a computation; a user's folders may stand next to them
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Record(Computation):
    """The content of `RECORD`."""

    provenance: Provenance


_FORM = TypeAdapter(_Record)


@dataclass(frozen=True)
class Entry:
    """What a computation gave, as it lies in the store: its folder, what was computed, and how."""

    path: Path
    computation: Computation
    provenance: Provenance


@dataclass(frozen=True)
class Store:
    """A folder of entries."""

    root: Path

    def path(self, computation: Computation) -> Path:
        """Where the entry lies, or will lie."""
        return self.root / computation.kind / computation.name / computation.key

    def find(self, computation: Computation) -> Entry | None:
        """The entry, verified; None if it is missing or, with a warning, damaged."""
        path = self.path(computation)
        if not _is_there(path):
            return None
        try:
            return read(path)
        except BookError as error:
            _log.warning("%s; it will be computed again", error)
            return None

    def missing(self, wanted: Iterable[Computation]) -> list[Computation]:
        """The computations without an entry, or with a damaged entry."""
        return [computation for computation in wanted if self.find(computation) is None]

    def checkpoint(self, computation: Computation) -> Path:
        """Where the state of a half-done computation lies."""
        return self.path(computation).with_suffix(CHECKPOINT)

    @contextmanager
    def writing(self, computation: Computation) -> Iterator[tuple[Path, Callable[[Provenance], None]]]:
        """Make an entry: an empty folder for its files, and what to call when they are whole; the caller has the lock.

        Nothing appears in the entry's place before the second is called, which must come last.
        """
        path = self.path(computation)
        part = path.with_suffix(PART)

        def seal(provenance: Provenance) -> None:
            record = _Record(computation.kind, computation.name, dict(computation.parts), provenance)
            (part / RECORD).write_text(json.dumps(asdict(record), indent=1) + "\n", "utf-8")
            (part / SUMS).write_text(_sums(part), "utf-8")
            _remove(path)  # a damaged entry
            part.replace(path)
            for end in ("", PART):  # which a kill left half written; by name, as there may be 10,000 entries
                path.with_suffix(CHECKPOINT + end).unlink(missing_ok=True)

        shutil.rmtree(part, ignore_errors=True)  # of a process that was killed
        part.mkdir(parents=True)
        try:
            yield part, seal
        finally:
            shutil.rmtree(part, ignore_errors=True)

    @contextmanager
    def locked(self, computation: Computation) -> Iterator[None]:
        """Hold the computation's lock, which the system releases when the process ends, however it ends."""
        lock = FileLock(self._lock(computation.key))
        try:
            lock.acquire(timeout=MOMENT)
        except Timeout:
            _log.warning("waiting for another process that computes %s", self.path(computation))
            lock.acquire()
        try:
            yield
        finally:
            Path(lock.lock_file).unlink(missing_ok=True)  # a waiting process makes another
            lock.release()

    def _lock(self, key: str) -> Path:
        return self.root / "locks" / f"{key}.lock"

    def paths(self, kind: str = "*", name: str = "*") -> list[Path]:
        """The folders of all entries of a kind and name, damaged ones too."""
        return sorted(path for path in self.root.glob(f"{kind}/{name}/{_KEY}") if _is_there(path))

    def entries(self, kind: str = "*", name: str = "*") -> list[Entry]:
        """All undamaged entries of a kind and name, oldest first."""
        entries = []
        for path in self.paths(kind, name):
            with suppress(BookError):
                entries.append(read(path))
        return sorted(entries, key=lambda entry: entry.provenance.finished)

    def remove(self, path: Path) -> bool:
        """Remove an entry, a checkpoint or a part; whether it is gone: it stays if a process is computing it."""
        try:
            with FileLock(self._lock(path.name.partition(".")[0]), timeout=0):
                _remove(path)
        except Timeout:
            return False
        return True


def read(path: Path) -> Entry:
    """The entry in a folder; raises `BookError` if its files or its place are not what was written."""
    try:
        if (path / SUMS).read_text("utf-8") != _sums(path):
            raise BookError(f"{path} is damaged: its files are not those that were written")
        record = _FORM.validate_json((path / RECORD).read_bytes(), strict=True)
        computation = Computation(record.kind, record.name, record.parts)
        if (computation.kind, computation.name, computation.key) != path.parts[-3:]:
            raise BookError(f"{path} is foreign: it holds {computation.kind} {computation.name} {computation.key}")
        return Entry(path, computation, record.provenance)
    except (OSError, ValueError) as error:
        raise BookError(f"{path} is damaged: {error}") from error


def size(path: Path) -> int:
    """The bytes of a file, or of all that is in a folder."""
    return sum(file.stat().st_size for file in (path, *path.rglob("*")) if file.is_file())


def default() -> Store:
    """The store of this user: ``SUMEXP_STORE``, else the folder ``store`` in the user's cache folder."""
    if chosen := os.environ.get("SUMEXP_STORE"):
        try:
            return Store(Path(chosen).expanduser().absolute())
        except RuntimeError as error:
            raise BookError(f"SUMEXP_STORE is {chosen!r}: {error}") from None
    from platformdirs import user_cache_path

    return Store(user_cache_path("sumexp") / "store")


def _sums(folder: Path) -> str:
    lines = []
    for file in sorted(folder.rglob("*")):
        if file.is_file() and file != folder / SUMS:
            with file.open("rb") as stream:
                lines.append(f"{file_digest(stream, 'sha256').hexdigest()}  {file.relative_to(folder).as_posix()}\n")
    return "".join(lines)


def _remove(path: Path) -> None:
    """Remove a file or folder, such that no half of it is ever in its place."""
    if path.is_dir() and not path.is_symlink():
        gone = path.with_suffix(f".gone{PART}")
        shutil.rmtree(gone, ignore_errors=True)  # of a process that was killed
        path.replace(gone)
        shutil.rmtree(gone)
    else:
        path.unlink(missing_ok=True)


def is_of_disk(error: BaseException) -> bool:
    """Whether the system did not let a file be written or read; some errors have it in words only."""
    names = ["ENOSPC", "EDQUOT", "EFBIG", "EIO", "EROFS", "EACCES", "EPERM", "ENOTDIR", "ELOOP", "ENAMETOOLONG"]
    names += ["ENOLCK", "EOPNOTSUPP", "ESTALE"]  # of network file systems
    return isinstance(error, OSError) and any(os.strerror(getattr(errno, name)) in str(error) for name in names)


def _is_there(path: Path) -> bool:
    """Whether a folder holds anything; copying a store may leave an empty folder."""
    return path.is_dir() and any(path.iterdir())


def write_text(path: Path, text: str) -> None:
    """Write ``text`` so that a reader sees the old file or the new file, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_text(text, "utf-8", newline="\n")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
