"""The data sets of the book: their files, downloads, checksums and readers.

A data set is a name in the catalogue, with its files, each with a checksum and a pinned address. The root folder of all
files is the argument ``data``, else the environment variable ``SUMEXP_DATA``, else the user's cache folder. Reading a
set whose files are missing there is an error; no other folder is searched. `preferred` names the fallback. A root that
already holds the files is never written to. Archives are not extracted, and nothing is unpickled.

The functions that take a name verify the files before they read them. A reader of a path (``read_brown``) trusts its
file: do not call it on a file that you have not verified. All functions raise `DataError` where a name is unknown, a
set is not of the kind asked for, or the root was set and is not a folder; those that read also where a file is absent
or damaged, or the set is undeclared (`declared`).

- ``catalogue.toml``: the data sets, their licences, citations and readers;
- `_declarations`: a data set and its files as declared, and the check of a file;
- `_download`: downloads, resumed after an interruption;
- `texts`, `mulan`, `extreme`, `pictures`, `labelled`, `pairs`: readers of the published formats.
"""

import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from importlib import import_module, resources
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from sumexp.datasets._declarations import DataError, DataFile, Dataset, fault
from sumexp.datasets._download import download
from sumexp.datasets.mulan import MultiLabel, read_mulan
from sumexp.datasets.pictures import (
    Digits,
    ImageData,
    digits,
    read_idx,
    read_mnist,
    read_omniglot,
    reduced,
    split_digits,
)
from sumexp.datasets.texts import Corpus, read_brown, read_shakespeare

if TYPE_CHECKING:  # it brings SciPy, for which nothing else waits
    from sumexp.datasets.pairs import Interactions

Contents = TypeVar("Contents")

__all__ = [
    "DATASETS",
    "Corpus",
    "DataError",
    "DataFile",
    "Dataset",
    "Digits",
    "ImageData",
    "MultiLabel",
    "available",
    "brown",
    "catalogue",
    "corpus",
    "declared",
    "delicious",
    "digits",
    "fetch",
    "fetch_all",
    "files",
    "gowalla",
    "images",
    "preferred",
    "read",
    "read_brown",
    "read_idx",
    "read_mnist",
    "read_mulan",
    "read_omniglot",
    "read_shakespeare",
    "reduced",
    "root",
    "shakespeare",
    "split_digits",
    "user_cache",
    "verify",
]


def catalogue(text: str) -> dict[str, Dataset]:
    """The data sets that a text in TOML declares, by their names.

    Raises:
        TypeError: if one lacks a field or has an unknown one.
    """
    return {
        name: Dataset(name=name, files=tuple(DataFile(**file) for file in fields.pop("files", ())), **fields)
        for name, fields in tomllib.loads(text).items()
    }


DATASETS: Mapping[str, Dataset] = MappingProxyType(
    catalogue(resources.files("sumexp.datasets").joinpath("catalogue.toml").read_text("utf-8"))
)
"""Every data set by its name."""


def root(data: str | Path | None = None) -> Path:
    """The root of the data files: ``data``, else ``SUMEXP_DATA``, else the user's cache folder.

    Raises:
        DataError: if the folder was set (by argument or variable) and does not exist.
    """
    chosen = data or os.environ.get("SUMEXP_DATA")
    if not chosen:
        return user_cache()
    folder = Path(os.path.expanduser(chosen)).absolute()  # noqa: PTH111 - which leaves an unknown ~user as it is
    if not folder.is_dir():
        source = "--data" if data else "SUMEXP_DATA"
        raise DataError(f"{source} names {folder}, which is not a folder; name a folder that exists")
    return folder


def user_cache() -> Path:
    """The user's cache folder for this package, as the operating system defines it."""
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/sumexp"
    if sys.platform == "win32":
        return Path(os.environ["LOCALAPPDATA"], "sumexp", "Cache")
    return Path(os.environ.get("XDG_CACHE_HOME", "").strip() or Path.home() / ".cache", "sumexp")


def declared(name: str) -> Dataset:
    """The data set ``name``, if it may be read: a notebook or run may read only data that it declares.

    Raises:
        DataError: if ``name`` is unknown, or has files and is not in ``SUMEXP_DECLARED_DATA`` where that is set.
    """
    dataset = _dataset(name)
    names = os.environ.get("SUMEXP_DECLARED_DATA")
    if dataset.files and names is not None and name not in names.split(","):
        raise DataError(
            f"data set {name!r} is read but not declared (declared: {names or 'none'}); add it to "
            f"`sumexp: {{data: [...]}}` in the notebook's front matter, and to `data=` of the cached run that reads it"
        )
    return dataset


def available(name: str, data: str | Path | None = None) -> bool:
    """Whether all files of ``name`` are below the root; their contents are not checked.

    Raises:
        DataError: if ``name`` is unknown or undeclared, or the root was set and is not a folder.
    """
    return not _missing(declared(name), root(data))


def preferred(name: str, data: str | Path | None = None) -> str:
    """``name`` if its files are there, else its fallback, or an empty string if it has none.

    Raises:
        DataError: as `available`.
    """
    return name if available(name, data) else DATASETS[name].instead


def files(name: str, data: str | Path | None = None) -> list[Path]:
    """The paths of the files of ``name``, each of which was just verified.

    Raises:
        DataError: if ``name`` is unknown or undeclared, or a file is absent or is not what it should be.
    """
    return verify(declared(name).name, data)


def verify(name: str, data: str | Path | None = None) -> list[Path]:
    """Compare each file of ``name`` with its size and checksum; returns their paths.

    Raises:
        DataError: if ``name`` is unknown, or a file is absent or is not what it should be.
    """
    dataset, folder = _dataset(name), root(data)
    if missing := _missing(dataset, folder):
        raise DataError(f"data set {name!r} lacks {missing[0].path}; to download it, run: sumexp data fetch {name}")
    paths = [file.below(folder) for file in dataset.files]
    for path, file in zip(paths, dataset.files, strict=True):
        if wrong := fault(path, file):
            raise DataError(f"{wrong}; delete it, then run: sumexp data fetch {name}")
    return paths


def fetch(name: str, data: str | Path | None = None) -> list[Path]:
    """Download the missing files of ``name``, with a progress bar, and verify all; returns their paths.

    A file gets its name only once it is complete and verified. The next call resumes an interrupted download. An
    existing file is never replaced.

    Raises:
        DataError: if ``name`` is unknown, the download fails, or a file is not what it should be.
    """
    paths = fetch_all([name], data)[name]
    if isinstance(paths, DataError):
        raise paths
    return paths


def fetch_all(names: Sequence[str], data: str | Path | None = None) -> dict[str, list[Path] | DataError]:
    """`fetch` for several data sets, with one progress bar; a failure does not stop the others.

    Returns:
        for each name the paths of its files, or the error.

    Raises:
        DataError: if a name is unknown; then nothing is downloaded.
    """
    folder = root(data)
    missing = {name: {folder / file.path: file for file in _missing(_dataset(name), folder)} for name in names}
    failed = download({target: file for files in missing.values() for target, file in files.items()})

    def outcome(name: str) -> list[Path] | DataError:
        for target, file in missing[name].items():
            if target in failed:
                return _broken(name, file, target, failed[target])
        try:
            return verify(name, data)
        except DataError as error:
            return error

    return {name: outcome(name) for name in missing}


def read(name: str, data: str | Path | None = None) -> object:
    """The contents of the verified files of ``name``, read by the function that the catalogue names.

    Raises:
        DataError: if it is unknown or undeclared, or a file is absent or damaged.
    """
    module, _, function = declared(name).reader.partition(".")
    reader = getattr(import_module(f"sumexp.datasets.{module}"), function)
    return reader(*files(name, data))


def corpus(name: str, data: str | Path | None = None) -> Corpus:
    """The running text of a data set: `brown` or `shakespeare`.

    Raises:
        DataError: if it is unknown, undeclared or no running text, or a file is absent or damaged.
    """
    return _read_kind(Corpus, "text", "a running text", name, data)


def brown(data: str | Path | None = None) -> Corpus:
    """The Brown corpus: 1,161,192 tokens of 49,815 lower-cased types in 500 documents.

    Raises:
        DataError: if the file is absent, damaged or undeclared.
    """
    return corpus("brown", data)


def shakespeare() -> Corpus:
    """Tiny Shakespeare: 204,062 tokens of 12,631 lower-cased types in 100 pieces; comes with the package.

    Raises:
        DataError: if the installed file is damaged.
    """
    return corpus("shakespeare")


def delicious(data: str | Path | None = None) -> MultiLabel:
    """Delicious: 12,920 pages to train on and 3,185 to test on, 500 words, 983 tags (19 a page).

    Raises:
        DataError: if a file is absent, damaged or undeclared.
    """
    return _read_kind(MultiLabel, "tags", "of examples with tags", "delicious", data)


def gowalla(data: str | Path | None = None) -> "Interactions":
    """Gowalla: 29,858 users and 40,981 places, 810,128 pairs to train on and 217,242 to test on.

    The test pairs have **another** distribution than the training pairs: the most frequent places, with one per cent of
    the training pairs, are twice as frequent among them. For a test set of one distribution hold out training pairs.

    Raises:
        DataError: if a file is absent, damaged or undeclared.
    """
    from sumexp.datasets.pairs import Interactions

    return _read_kind(Interactions, "pairs", "of users and items", "gowalla", data)


def images(name: str, data: str | Path | None = None) -> ImageData:
    """The images of a data set in three disjoint parts, the same ones at every call.

    =================  ======================  ======  ==========  ======
    name               pixels                  train   validation  test
    =================  ======================  ======  ==========  ======
    digits             8 x 8, grey             1,200   297         300
    mnist              28 x 28, grey           50,000  10,000      10,000
    fashion-mnist      28 x 28, grey           50,000  10,000      10,000
    omniglot           28 x 28, grey           23,000  1,345       8,115
    =================  ======================  ======  ==========  ======

    Raises:
        DataError: if it is unknown, undeclared or not of images, or a file is absent or damaged.
    """
    return _read_kind(ImageData, "images", "of images", name, data)


def _read_kind(contents: type[Contents], kind: str, words: str, name: str, data: str | Path | None) -> Contents:
    if declared(name).kind != kind:
        raise DataError(f"data set {name!r} is not {words}; to see what each one is, run: sumexp data list")
    loaded = read(name, data)
    assert isinstance(loaded, contents)
    return loaded


def _dataset(name: str) -> Dataset:
    if name not in DATASETS:
        raise DataError(f"no data set {name!r}; there are {', '.join(DATASETS)}")
    return DATASETS[name]


def _missing(dataset: Dataset, folder: Path) -> list[DataFile]:
    return [file for file in dataset.files if not file.below(folder).is_file()]


def _broken(name: str, file: DataFile, target: Path, error: Exception) -> DataError:
    if isinstance(error, DataError):
        return DataError(f"{file.url} did not send the expected file: {error}; nothing was kept")
    # requests' exceptions are OSErrors too, and wrap urllib3's, which say why
    reason = getattr(error.args[0], "reason", error) if error.args else error
    return DataError(
        f"could not download {file.url} to {target}: {reason}; once that is fixed, run: sumexp data fetch {name}"
    )
