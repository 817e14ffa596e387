"""Data sets and their files as declared, and whether a file is the declared one."""

from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path


class DataError(Exception):
    """A data set is missing, damaged or undeclared; the message names the file and the command that fixes it."""


@dataclass(frozen=True)
class DataFile:
    r"""A file of a data set.

    Attributes:
        path: below the root.
        url: pinned address.
        sha256: of the content, in hexadecimal.
        size: of the content in bytes.
    """

    path: str
    url: str
    sha256: str
    size: int

    def below(self, folder: Path) -> Path:
        """The file's place below ``folder``."""
        return folder / self.path


@dataclass(frozen=True)
class Dataset:
    """A data set: description, licence, citation and files.

    Attributes:
        name: as in commands and code.
        description: a title, a colon, and a summary.
        licence: its terms.
        citation: the source to cite.
        files: empty if it comes with this package or a dependency.
        kind: ``text`` (a `Corpus`), ``images`` (`ImageData`), ``tags`` (`MultiLabel`), ``classes`` (`Labelled`)
            or ``pairs`` (`Interactions`).
        reader: the function of this package that reads the files, given in their order: ``module.function``.
        instead: the fallback if its files are missing; empty for none.
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
        """The description up to the colon."""
        return self.description.partition(":")[0]


def fault(path: Path, file: DataFile) -> str | None:
    """How the file at ``path`` differs from ``file``; None if it is that file."""
    if (size := path.stat().st_size) != file.size:
        return f"{path} has {size:,} bytes where {file.size:,} are expected (is it truncated?)"
    with path.open("rb") as stream:
        actual = file_digest(stream, "sha256").hexdigest()
    return None if actual == file.sha256 else f"{path} has SHA-256 {actual} where {file.sha256} is expected"
