"""What a data set declares, where its files lie below a root, and whether a file is what was declared."""

import gzip
import zlib
from dataclasses import dataclass
from hashlib import file_digest, sha1
from io import SEEK_END, BytesIO, RawIOBase
from pathlib import Path
from zipfile import ZipFile

LARGEST = 1 << 30
"""Bytes that an archive may hold unpacked: a few megabytes of gzip can hold a thousand times as much."""


class DataError(Exception):
    """A data set that is absent, damaged or undeclared; the message names the file and the command that fixes it."""


@dataclass(frozen=True)
class DataFile:
    r"""One file of a data set: its path below the root, where it comes from, and what it must be.

    Attributes:
        path: below the root.
        url: the pinned address that serves it.
        sha256: of the content, in hexadecimal; empty where only git's id of the content is known.
        size: of the content in bytes; 0 where it is not known.
        packed: the address serves it unpacked, and it may lie gzipped, as ``path + ".gz"``. A gzipped text is not the
            same bytes wherever it was packed, so size and checksum are those of the content either way.
        blob: git's id of the content, the SHA-1 of ``blob <size>\0`` and the content, where no SHA-256 is known.
    """

    path: str
    url: str
    sha256: str = ""
    size: int = 0
    packed: bool = False
    blob: str = ""

    def below(self, folder: Path) -> Path:
        """Where the file lies below ``folder``, or would lie if it were there."""
        plain = folder / self.path
        zipped = plain.with_name(plain.name + ".gz")
        return zipped if self.packed and not plain.exists() and zipped.exists() else plain


@dataclass(frozen=True)
class Dataset:
    """One data set: what it is, on what terms, whom to cite, and its files.

    Attributes:
        name: what commands and code call it.
        description: a title, a colon, and what it is.
        licence: its terms.
        citation: whom to cite.
        files: none if it comes with this package or a dependency.
        kind: ``text`` (a `Corpus`), ``images`` (`ImageData`), ``tags`` (`MultiLabel`), ``classes`` (`Labelled`)
            or ``pairs`` (`Interactions`).
        reader: the function that reads the files, all of which it is given in their order, as ``module.function`` of
            this package.
        instead: the data set that stands in for it where its files are absent, if one does.
    """

    name: str
    description: str
    licence: str
    citation: str
    files: tuple[DataFile, ...] = ()
    kind: str = ""
    reader: str = ""
    instead: str = ""

    @property
    def title(self) -> str:
        """What the description calls it."""
        return self.description.partition(":")[0]


def fault(path: Path, file: DataFile) -> str | None:
    """What keeps the file at ``path`` from being ``file``; None if nothing does."""
    try:
        stream = BytesIO(content(path, file.size or LARGEST)) if file.packed else path.open("rb")
    except DataError as error:
        return str(error)
    with stream:
        size = stream.seek(0, SEEK_END)
        stream.seek(0)
        if file.size and size != file.size:
            return f"{path} has {size:,} bytes where {file.size:,} are expected (is it truncated?)"
        if file.sha256:
            name, expected, digest = "SHA-256", file.sha256, file_digest(stream, "sha256")
        else:
            name, expected = "git id", file.blob
            digest = file_digest(stream, lambda: sha1(b"blob %d\0" % size, usedforsecurity=False))
    actual = digest.hexdigest()
    return None if actual == expected else f"{path} has {name} {actual} where {expected} is expected"


def content(path: Path, most: int = LARGEST) -> bytes:
    """The bytes of a file, unpacked if its name ends in ``.gz``.

    Raises:
        DataError: if it is not a whole gzip file, or one of more than so many bytes.
    """
    if path.suffix != ".gz":
        return path.read_bytes()
    try:
        with gzip.open(path) as stream:
            source = Bounded(stream, path, most)
            return b"".join(iter(lambda: source.read(1 << 20), b""))
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path} is not a whole gzip file: {error}") from error


class Bounded(RawIOBase):
    """A stream to read, of no more than so many bytes."""

    def __init__(self, stream: gzip.GzipFile, path: Path, most: int) -> None:
        """Nothing is read yet; ``path`` is what a message names."""
        super().__init__()
        self.stream, self.path, self.most, self.taken = stream, path, most, 0

    def read(self, size: int = -1, /) -> bytes:
        """Some bytes, none at the end.

        Raises:
            DataError: as soon as there are more than there may be.
        """
        piece = self.stream.read(size)
        self.taken += len(piece)
        if self.taken > self.most:
            raise DataError(f"{self.path} unpacks to more than {self.most:,} bytes, which no such file has")
        return piece


def check_members(path: Path, most: int = LARGEST) -> None:
    """Look at what the members of a zip declare to hold unpacked; more is never read of them.

    Raises:
        DataError: if it is more than so many bytes together.
        BadZipFile: if it is no zip.
    """
    with ZipFile(path) as zipped:
        size = sum(member.file_size for member in zipped.infolist())
    if size > most:
        raise DataError(f"{path} unpacks to {size:,} bytes; no such archive has more than {most:,}")
