"""A remote copy of the store: entries that others computed, each one archive under its key.

The address is one that fsspec knows: a folder, ``https://...``, ``s3://...``. An entry counts only if its checksums and
its key are right: one that was cut off, damaged or put in another's place is refused with a message, and computed here.
The checksums lie in the archive that they check, so they tell no forgery: whoever may write to the address decides what
an entry says (``book/trust.md``). Nothing that comes from it is run or unpickled.
"""

import asyncio
import logging
import shutil
import tarfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any
from uuid import uuid4

import fsspec
from fsspec.implementations.local import LocalFileSystem

from sumexp.companion import CompanionError
from sumexp.companion.store.computation import Computation
from sumexp.companion.store.entries import PART, DamagedError, Entry, read

_log = logging.getLogger(__name__)
MOST = 8 << 30
"""Bytes of an archive: what goes on beyond them does not end."""
RATE, WINDOW = 1_000, 60.0
"""The least mean rate in bytes a second, and after how many seconds it counts; headers may take as long in all."""
_INSTEAD = "It will be computed here, but not with STORED=1"
_unreachable: set[str] = set()
"""Addresses that are not asked again in this process: each entry would wait for them anew."""
_barred: set[str] = set()
"""Addresses where something may not be read, which is said once: a bucket may say so of all that it does not have."""


class Remote:
    """Entries in the folder at an address, which it knows in full: that means the same wherever a process works."""

    def __init__(self, address: str) -> None:
        self._files: Any
        try:
            self._files, self._root = fsspec.core.url_to_fs(address, **_options(address))
        except (ValueError, ImportError) as error:
            raise CompanionError(f"SUMEXP_REMOTE is {address!r}: {error}") from error
        self.address: str = self._files.unstrip_protocol(self._root)

    def fetch(self, computation: Computation, folder: Path) -> bool:
        """Put the entry of ``computation`` into ``folder``; whether it is there.

        What goes wrong is said, and is no error: the entry can be computed.
        """
        address, archive = self._address(computation), folder.with_suffix(f".tar{PART}")
        try:
            archive.parent.mkdir(parents=True, exist_ok=True)
            if not self._download(address, archive):
                return False
            _unpack(archive, folder)
            read(folder, Path(computation.kind, computation.name, computation.key))
        except (DamagedError, tarfile.TarError, EOFError) as error:
            _log.warning("%s is refused: %s; remove it there. %s", address, error, _INSTEAD)
        except Exception as error:  # of many kinds: the transfer breaks off, the disk is full
            _log.warning("%s cannot be had: %s. %s", address, _words(error), _INSTEAD)
        else:
            return True
        finally:
            archive.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        return False

    def _download(self, address: str, target: Path) -> bool:
        """Copy a remote file; False if there is none, or the remote does not answer. One that breaks off raises."""
        if self.address in _unreachable:
            return False
        try:
            self._files.get_file(address, str(target), callback=_Bounds())
        except Exception as error:  # of many kinds: no network, no such host, no permission
            if target.exists():
                raise
            # A folder of this machine may not be there, such as a share that is not mounted.
            is_absent = isinstance(self._files, LocalFileSystem) and not Path(self._root).is_dir()
            if isinstance(error, FileNotFoundError) and not is_absent:
                return False
            if not isinstance(error, PermissionError) and getattr(error, "status", None) != 403:
                _log.warning("%s cannot be reached, and is not asked again: %s", self.address, _words(error))
                _unreachable.add(self.address)
            elif self.address not in _barred:
                _log.warning("not everything at %s may be read: %s", self.address, _words(error))
                _barred.add(self.address)
            return False
        return True

    def push(self, entry: Entry, *, anew: bool = False) -> bool:
        """Copy an entry to the remote; False if it is there already and need not be written ``anew``."""
        address = self._address(entry.computation)
        part = f"{address}.{uuid4().hex}.part"
        try:
            if not anew and self._files.exists(address):
                return False
            self._files.makedirs(address.rpartition("/")[0], exist_ok=True)
            with self._files.open(part, "wb") as target:
                _pack(entry.path, target)
            self._files.mv(part, address)
        except NotImplementedError as error:
            raise CompanionError(f"cannot write to {self.address}: such addresses can only be read") from error
        except Exception as error:  # of many kinds
            with suppress(Exception):
                self._files.rm_file(part)
            raise CompanionError(f"cannot write {address}: {_words(error)}") from error
        return True

    def _address(self, computation: Computation) -> str:
        return f"{self._root.rstrip('/')}/{computation.kind}/{computation.name}/{computation.key}.tar"


class _Bounds(fsspec.Callback):  # type: ignore[misc]
    """Gives up, by an OSError, a transfer that does not end: beyond `MOST` bytes, or after `WINDOW` below `RATE`."""

    def __init__(self) -> None:
        super().__init__()
        self._begun = time.monotonic()

    def relative_update(self, inc: int = 1) -> None:
        super().relative_update(inc)
        seconds = time.monotonic() - self._begun
        if self.value > MOST:
            raise OSError(f"it goes on after {MOST:,} bytes")
        if seconds > WINDOW and self.value < RATE * seconds:
            raise OSError(f"{self.value:,} bytes in {seconds:.0f} s are too few")


def _options(address: str) -> dict[str, Any]:
    """Further options for fsspec: how long headers may take and a server may be silent; there is no other end."""
    if not address.startswith(("http://", "https://")):
        return {}
    import aiohttp

    async def in_time(request: Any, handle: Callable[[Any], Awaitable[Any]]) -> Any:
        return await asyncio.wait_for(handle(request), WINDOW)

    silence = aiohttp.ClientTimeout(total=None, sock_connect=WINDOW / 2, sock_read=WINDOW)
    settings = fsspec.config.apply_config(fsspec.get_filesystem_class("http"), {})
    client = {"timeout": silence, "trust_env": True, "middlewares": [in_time]}
    return {"client_kwargs": client | settings.get("client_kwargs", {})}


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__


def _pack(folder: Path, archive: IO[bytes]) -> None:
    """An archive of the folder's files, the same bytes whoever makes it."""
    with tarfile.open(fileobj=archive, mode="w|") as tar:
        for file in sorted(file for file in folder.rglob("*") if file.is_file()):
            member = tarfile.TarInfo(file.relative_to(folder).as_posix())
            member.size = file.stat().st_size
            with file.open("rb") as content:
                tar.addfile(member, content)


def _unpack(archive: Path, folder: Path) -> None:
    """Write the files of an archive below ``folder``; a TarError if it is none, a DamagedError if it holds others."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tarfile.open(archive, mode="r:") as tar:
        for member in tar:
            name = PurePosixPath(member.name)
            content = tar.extractfile(member) if member.isreg() and not member.issparse() else None
            if content is None or name.is_absolute() or ".." in name.parts:
                raise DamagedError(f"it holds {member.name!r}, which is no plain file inside it")
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                shutil.copyfileobj(content, file)
