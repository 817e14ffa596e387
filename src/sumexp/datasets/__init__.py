"""The data sets of the book: where they lie, how they are fetched and verified, and how they are read.

A data set is a name in `DATASETS`, with its files, their checksums and one pinned address each. Files are looked for
below one root: the argument ``data``, else the environment variable ``SUMEXP_DATA``, else the user's cache folder. A
root that was set and lacks a file is an error, never a reason to look elsewhere, and nothing is written to a root that
already holds the files. Archives are read where they lie; nothing is extracted or unpickled.

- `catalogue`: what data sets there are, their terms, whom to cite;
- `declarations`: what is said of a file, and whether a file is that;
- `download`: fetching, continued where it was interrupted;
- `texts`, `mulan`, `pictures`: the published formats.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from sumexp.datasets.catalogue import CATALOGUE
from sumexp.datasets.declarations import DataError, DataFile, Dataset, fault
from sumexp.datasets.download import download
from sumexp.datasets.mulan import MultiLabel, read_mulan
from sumexp.datasets.pictures import (
    Digits,
    ImageData,
    digits,
    read_amat,
    read_binarized_mnist,
    read_chardata,
    read_idx,
    read_mnist,
    read_omniglot,
    reduced,
    split_digits,
)
from sumexp.datasets.texts import Corpus, read_brown, read_shakespeare

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
    "corpus",
    "declared",
    "delicious",
    "digits",
    "fetch",
    "files",
    "images",
    "preferred",
    "read_amat",
    "read_binarized_mnist",
    "read_brown",
    "read_chardata",
    "read_idx",
    "read_mnist",
    "read_mulan",
    "read_omniglot",
    "read_shakespeare",
    "reduced",
    "root",
    "shakespeare",
    "split_digits",
    "verify",
]

DATASETS: Mapping[str, Dataset] = MappingProxyType({dataset.name: dataset for dataset in CATALOGUE})
"""Every data set by its name."""


def root(data: str | Path | None = None) -> Path:
    """The folder that data files are looked for in: ``data``, else ``SUMEXP_DATA``, else the user's cache folder.

    Raises:
        DataError: if the folder was set (by argument or variable) and is not there.
    """
    chosen = data or os.environ.get("SUMEXP_DATA")
    if not chosen:
        import pooch

        return Path(pooch.os_cache("sumexp"))
    folder = Path(chosen).expanduser().absolute()
    if not folder.is_dir():
        source = "--data" if data else "SUMEXP_DATA"
        raise DataError(f"{source} names {folder}, which is not a folder; name a folder that exists")
    return folder


def declared(name: str) -> Dataset:
    """The data set ``name``, if it may be read: a notebook or run is keyed by the data it declares, and by no other.

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
    """Whether the files of ``name`` are there: False only where no root was set and the user's cache lacks them.

    Raises:
        DataError: if ``name`` is unknown or undeclared, or a root was set and lacks a file.
    """
    missing = _missing(declared(name), root(data))
    if missing and (data or os.environ.get("SUMEXP_DATA")):
        raise _absent(name, missing[0])
    return not missing


def preferred(name: str, data: str | Path | None = None) -> str:
    """``name`` if its files are there, else the data set that stands in for it, which may be none: an empty string.

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
        raise _absent(name, missing[0])
    paths = [file.below(folder) for file in dataset.files]
    for path, file in zip(paths, dataset.files, strict=True):
        if wrong := fault(path, file):
            raise DataError(f"{wrong}; delete it, then run: sumexp data fetch {name}")
    return paths


def fetch(name: str, data: str | Path | None = None) -> list[Path]:
    """Download the files of ``name`` that the root lacks, with a progress bar, and verify all; returns their paths.

    A file appears under its name only when it is whole and verified. An interrupted download is continued by the next
    call. A file that is there is never replaced.

    Raises:
        DataError: if ``name`` is unknown, the download fails, or a file is not what it should be.
    """
    dataset, folder = _dataset(name), root(data)
    for file in _missing(dataset, folder):
        try:
            download(file, folder / file.path)
        except OSError as error:  # requests' exceptions are OSErrors too, and wrap urllib3's, which say why
            reason = getattr(error.args[0], "reason", error) if error.args else error
            raise DataError(
                f"could not download {file.url} to {folder / file.path}: {reason}; "
                f"when that is mended, run: sumexp data fetch {name}"
            ) from error
        except ValueError as error:  # pooch's word for a wrong checksum
            raise DataError(f"{file.url} did not send the expected file: {error}; nothing was kept") from error
    return verify(name, data)


def brown(data: str | Path | None = None) -> Corpus:
    """The Brown corpus: 1,161,192 tokens of 49,815 lower-cased types in 500 documents.

    Raises:
        DataError: if the file is absent, damaged or undeclared.
    """
    return read_brown(files("brown", data)[0])


def shakespeare() -> Corpus:
    """Tiny Shakespeare: 204,062 tokens of 12,631 lower-cased types in 100 pieces; comes with the package.

    Raises:
        DataError: if the installed file is damaged.
    """
    return read_shakespeare()


def corpus(name: str, data: str | Path | None = None) -> Corpus:
    """The running text of a data set: `brown` or `shakespeare`.

    Raises:
        DataError: if it is unknown, undeclared or no running text, or a file is absent or damaged.
    """
    match name:
        case "brown":
            return brown(data)
        case "shakespeare":
            return shakespeare()
    raise DataError(f"data set {declared(name).name!r} is no running text; those are brown and shakespeare")


def delicious(data: str | Path | None = None) -> MultiLabel:
    """Delicious: 12,920 pages to train on and 3,185 to test on, 500 words, 983 tags (19 a page).

    Raises:
        DataError: if a file is absent, damaged or undeclared.
    """
    train, test, labels = files("delicious", data)
    return read_mulan(train, test, labels)


def images(name: str, data: str | Path | None = None) -> ImageData:
    """The images of a data set in three disjoint parts, the same ones at every call.

    =================  ======================  ======  ==========  ======
    name               pixels                  train   validation  test
    =================  ======================  ======  ==========  ======
    digits             8 x 8, grey             1,200   297         300
    mnist              28 x 28, grey           50,000  10,000      10,000
    fashion-mnist      28 x 28, grey           50,000  10,000      10,000
    binarized-mnist    28 x 28, 0 or 1         50,000  10,000      10,000
    omniglot           28 x 28, grey           23,000  1,345       8,115
    omniglot-28        28 x 28, grey           23,000  1,345       8,070
    =================  ======================  ======  ==========  ======

    Raises:
        DataError: if it is unknown, undeclared or not of images, or a file is absent or damaged.
    """
    match name, files(name, data):
        case "digits", _:
            return split_digits()
        case "mnist" | "fashion-mnist", [train, test, *_]:
            return read_mnist(train, test)
        case "binarized-mnist", [train, validation, test]:
            return read_binarized_mnist(train, validation, test)
        case "omniglot", archives:
            return read_omniglot(archives)
        case "omniglot-28", [path]:
            return read_chardata(path)
    raise DataError(f"data set {name!r} is not of images; to see what each one is, run: sumexp data list")


def _dataset(name: str) -> Dataset:
    if name not in DATASETS:
        raise DataError(f"no data set {name!r}; there are {', '.join(DATASETS)}")
    return DATASETS[name]


def _missing(dataset: Dataset, folder: Path) -> list[DataFile]:
    return [file for file in dataset.files if not file.below(folder).exists()]


def _absent(name: str, file: DataFile) -> DataError:
    return DataError(f"data set {name!r} lacks {file.path}; to download it, run: sumexp data fetch {name}")
