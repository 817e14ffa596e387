"""A remote copy of the store: entries that others computed, each one archive under its key.

The address is one that fsspec knows: a folder, ``https://...``, ``s3://...``. Nothing that comes from it is run or
unpickled, and an entry counts only if its checksums and its key are right: one that was cut off, altered or put in
another's place is refused with a message, and computed here.
"""

import logging
import shutil
import tarfile
import tempfile
from pathlib import Path, PurePosixPath
from typing import IO, Any

import fsspec

from sumexp.companion import CompanionError
from sumexp.companion.store.computation import Computation
from sumexp.companion.store.entries import DamagedError, Entry, read

_log = logging.getLogger(__name__)


class Remote:
    """Entries at an address.

    Args:
        address: of the folder that holds them.

    Raises:
        CompanionError: if fsspec does not know such an address, or lacks what it needs for it.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        try:
            self._files: Any
            self._files, self._root = fsspec.core.url_to_fs(address)
        except (ValueError, ImportError) as error:
            raise CompanionError(f"SUMEXP_REMOTE is {address!r}: {error}") from error

    def fetch(self, computation: Computation, folder: Path) -> bool:
        """Put the entry of ``computation`` into ``folder``, whose path ends in kind, name and key; whether it is there.

        What goes wrong is said, and is no error: the entry can be computed.
        """
        address = self._address(computation)
        try:
            with tempfile.TemporaryFile() as archive:
                with self._files.open(address, "rb") as source:
                    shutil.copyfileobj(source, archive, 1 << 20)
                archive.seek(0)
                _unpack(archive, folder)
            read(folder)
        except FileNotFoundError:
            return False
        except (DamagedError, tarfile.TarError, EOFError) as error:
            _log.warning("%s of %s is refused: %s; it will be computed here", address, self.address, error)
        except Exception as error:  # of many kinds: no network, no permission, a transfer that breaks off
            _log.warning("%s of %s cannot be had: %s; it will be computed here", address, self.address, error)
        else:
            return True
        shutil.rmtree(folder, ignore_errors=True)
        return False

    def push(self, entry: Entry) -> bool:
        """Copy an entry to the remote; False if it is there already.

        Raises:
            CompanionError: if it cannot be written.
        """
        address = self._address(entry.computation)
        part = f"{address}.part"
        try:
            if self._files.exists(address):
                return False
            self._files.makedirs(address.rpartition("/")[0], exist_ok=True)
            with tempfile.TemporaryFile() as archive:
                _pack(entry.path, archive)
                archive.seek(0)
                with self._files.open(part, "wb") as target:
                    shutil.copyfileobj(archive, target, 1 << 20)
            self._files.mv(part, address)
        except (OSError, NotImplementedError) as error:
            raise CompanionError(
                f"cannot write {address} at {self.address}: {error or type(error).__name__}"
            ) from error
        return True

    def _address(self, computation: Computation) -> str:
        return f"{self._root.rstrip('/')}/{computation.kind}/{computation.name}/{computation.key}.tar"


def _pack(folder: Path, archive: IO[bytes]) -> None:
    """An archive of the folder's files, the same bytes whoever makes it."""
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for file in sorted(file for file in folder.rglob("*") if file.is_file()):
            member = tarfile.TarInfo(file.relative_to(folder).as_posix())
            member.size = file.stat().st_size
            with file.open("rb") as content:
                tar.addfile(member, content)


def _unpack(archive: IO[bytes], folder: Path) -> None:
    """Write the files of an archive below ``folder``.

    Raises:
        DamagedError: if it holds anything but plain files below that folder.
        tarfile.TarError: if it is no archive.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tarfile.open(fileobj=archive, mode="r:") as tar:
        for member in tar:
            name = PurePosixPath(member.name)
            content = tar.extractfile(member) if member.isreg() else None
            if content is None or name.is_absolute() or ".." in name.parts:
                raise DamagedError(f"it holds {member.name!r}, which is no plain file inside it")
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                shutil.copyfileobj(content, file, 1 << 20)
