"""The data sets of the book: where they lie, how they are fetched and verified, and how they are read.

A data set is a name in `DATASETS`, with its files, their SHA-256 and one pinned address each. Files are looked for
below one root: the argument ``data``, else the environment variable ``SUMEXP_DATA``, else the user's cache folder. A
root that was set and lacks a file is an error, never a reason to look elsewhere, and nothing is written to a root that
already holds the files. Archives are read where they lie; nothing is extracted or unpickled.
"""

import math
import os
import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import file_digest
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray


class DataError(Exception):
    """A data set that is absent, damaged or undeclared; the message names the file and the command that mends it."""


@dataclass(frozen=True)
class DataFile:
    """One file of a data set: its path below the root, where it comes from, and what it must be."""

    path: str
    url: str
    sha256: str
    size: int


@dataclass(frozen=True)
class Dataset:
    """One data set: what it is, on what terms, whom to cite, and its files (none: it comes with a dependency)."""

    name: str
    description: str
    licence: str
    citation: str
    files: tuple[DataFile, ...] = ()


_BROWN = Dataset(
    name="brown",
    description="Brown corpus: 500 texts of American English printed in 1961, tagged; 1,161,192 tokens",
    licence="may be used for non-commercial purposes (NLTK); redistribution permitted (its README)",
    citation="W. N. Francis and H. Kucera, A Standard Corpus of Present-Day Edited American English, 1964, rev. 1979",
    files=(
        DataFile(
            path="brown/brown.zip",
            # The bytes were checked against this commit; that the address serves them could not be (no network).
            url="https://raw.githubusercontent.com/nltk/nltk_data/"
            "5db857e6f7df11eabb5e5665836db9ec8df07e28/packages/corpora/brown.zip",
            sha256="9b275f9b3b95d7bd66ccfb7cd259f445a13bbe5d1f4107aba09fd3e8364bafa6",
            size=3_314_357,
        ),
    ),
)

_MULAN = "43f6389095ad71984264db4387a8074b22bc7d4a"

_DELICIOUS = Dataset(
    name="delicious",
    description="Delicious: 16,105 bookmarked web pages, 500 words (present or not) and 983 tags, split 12,920 + 3,185",
    licence="none stated; distributed by the Mulan project for research",
    citation="G. Tsoumakas, I. Katakis and I. Vlahavas, Effective and Efficient Multilabel Classification in Domains "
    "with Large Number of Labels, ECML/PKDD Workshop on Mining Multidimensional Data, 2008",
    files=tuple(
        DataFile(
            path=f"mulan/{name}",
            # The bytes were checked against this commit; that the address serves them could not be (no network).
            url=f"https://raw.githubusercontent.com/tsoumakas/mulan/{_MULAN}/data/multi-label/delicious/{name}",
            sha256=sha256,
            size=size,
        )
        for name, sha256, size in (
            ("delicious-train.arff", "030186cdb542ebdd32052fcdbb1ebe30115b3a22518c1b4b198c45eb827aebe1", 3_056_590),
            ("delicious-test.arff", "2dfb01723a819914b0ca83361177ed413ce3f2169851d9f228d4692915d63944", 757_565),
            ("delicious.xml", "4e0c0f93c7d86a39b9fca4aaefaa00e9428f2c80277732dfbf03ca48e2c14da2", 34_303),
        )
    ),
)

_DIGITS = Dataset(
    name="digits",
    description="Handwritten digits: 1,797 images of 8 x 8 pixels in ten classes; comes with scikit-learn",
    licence="CC BY 4.0",
    citation="E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI, 1998, doi:10.24432/C50P49",
)

DATASETS: Mapping[str, Dataset] = MappingProxyType({dataset.name: dataset for dataset in (_BROWN, _DELICIOUS, _DIGITS)})
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


def files(name: str, data: str | Path | None = None) -> list[Path]:
    """The paths of the files of ``name``, each of which was just verified.

    Raises:
        DataError: if ``name`` is unknown or undeclared, or a file is absent or is not what it should be.
    """
    return verify(declared(name).name, data)


def verify(name: str, data: str | Path | None = None) -> list[Path]:
    """Compare each file of ``name`` with its size and SHA-256; returns their paths.

    Raises:
        DataError: if ``name`` is unknown, or a file is absent or is not what it should be.
    """
    dataset, folder = _dataset(name), root(data)
    if missing := _missing(dataset, folder):
        raise _absent(name, missing[0])
    for file in dataset.files:
        _check(folder / file.path, file, name)
    return [folder / file.path for file in dataset.files]


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
            _download(file, folder / file.path)
        except OSError as error:  # requests' exceptions are OSErrors too, and wrap urllib3's, which say why
            reason = getattr(error.args[0], "reason", error) if error.args else error
            raise DataError(
                f"could not download {file.url} to {folder / file.path}: {reason}; "
                f"when that is mended, run: sumexp data fetch {name}"
            ) from error
        except ValueError as error:  # pooch's word for a wrong checksum
            raise DataError(f"{file.url} did not send the expected file: {error}; nothing was kept") from error
    return verify(name, data)


def _download(file: DataFile, target: Path) -> None:
    """Fetch one file: into a part beside ``target`` that the next call continues, then checked and renamed."""
    import pooch
    import requests
    from filelock import FileLock
    from tqdm import tqdm

    part = target.with_name(target.name + ".part")

    def resume(url: str, output_file: str, _: object) -> None:
        with part.open("ab") as stream:
            have = stream.tell()
            headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if 0 < have < file.size else {})
            with (
                requests.get(url, headers=headers, stream=True, timeout=30) as response,
                tqdm(desc=target.name, total=file.size, initial=have, unit="B", unit_scale=True) as bar,
            ):
                response.raise_for_status()
                if response.status_code != requests.codes.partial_content:
                    stream.truncate(0)
                for chunk in response.iter_content(1 << 16):
                    bar.update(stream.write(chunk))
        part.replace(output_file)

    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(target.with_name(target.name + ".lock")):
        if not target.exists():
            pooch.retrieve(
                file.url, known_hash=f"sha256:{file.sha256}", fname=target.name, path=target.parent, downloader=resume
            )


def _check(path: Path, file: DataFile, name: str) -> None:
    """Raise unless the file at ``path`` has the size and the SHA-256 of ``file``."""
    size = path.stat().st_size
    if size != file.size:
        fault = f"has {size:,} bytes where {file.size:,} are expected (is it truncated?)"
    else:
        with path.open("rb") as stream:
            digest = file_digest(stream, "sha256").hexdigest()
        if digest == file.sha256:
            return
        fault = f"has SHA-256 {digest} where {file.sha256} is expected"
    raise DataError(f"{path} {fault}; delete it, then run: sumexp data fetch {name}")


def _dataset(name: str) -> Dataset:
    if name not in DATASETS:
        raise DataError(f"no data set {name!r}; there are {', '.join(DATASETS)}")
    return DATASETS[name]


def _missing(dataset: Dataset, folder: Path) -> list[DataFile]:
    return [file for file in dataset.files if not (folder / file.path).exists()]


def _absent(name: str, file: DataFile) -> DataError:
    return DataError(f"data set {name!r} lacks {file.path}; to download it, run: sumexp data fetch {name}")


@dataclass(frozen=True)
class Brown:
    """The Brown corpus as numbers.

    Attributes:
        words: the lower-cased types [V], the most frequent first (ties in alphabetical order).
        tokens: the running text as indices into ``words`` [N], document after document.
        starts: where each document starts in ``tokens``, and at last N [documents + 1].
        documents: the documents' names, such as ``ca01``.
        categories: each document's category, such as ``news``.
    """

    words: tuple[str, ...]
    tokens: NDArray[np.int64]
    starts: NDArray[np.int64]
    documents: tuple[str, ...]
    categories: tuple[str, ...]


def brown(data: str | Path | None = None) -> Brown:
    """The Brown corpus: 1,161,192 tokens of 49,815 lower-cased types in 500 documents.

    Raises:
        DataError: if the file is absent, damaged or undeclared.
    """
    return read_brown(files("brown", data)[0])


def read_brown(archive: Path) -> Brown:
    """Read a zip of tagged texts in NLTK's packaging: files ``c<letter><number>`` of ``word/tag``, and ``cats.txt``.

    The tag is what follows the last slash of a token (``1/2/cd`` is the word ``1/2``).

    Raises:
        DataError: if it is not such a zip.
    """
    with _opened(archive) as zipped:
        members = {Path(name).name: name for name in zipped.namelist() if not name.endswith("/")}
        if "cats.txt" not in members:
            raise DataError(f"{archive} has no cats.txt, which names the documents and their categories")
        lines = _ascii(zipped.read(members["cats.txt"]), "cats.txt", archive).splitlines()
        if faulty := [line for line in lines if len(line.split()) != 2]:
            raise DataError(f"{archive}: cats.txt has the line {faulty[0]!r}, which is not a document and its category")
        categories = dict(line.split() for line in lines)
        if absent := [document for document in categories if document not in members]:
            raise DataError(f"{archive} lacks the document {absent[0]} that its cats.txt names")
        texts = [_words(zipped.read(members[document]), document, archive) for document in categories]
    counts = Counter(word for text in texts for word in text)
    words = tuple(sorted(counts, key=lambda word: (-counts[word], word)))
    index = {word: i for i, word in enumerate(words)}
    return Brown(
        words=words,
        tokens=np.fromiter((index[word] for text in texts for word in text), dtype=np.int64),
        starts=np.array([0, *accumulate(map(len, texts))], dtype=np.int64),
        documents=tuple(categories),
        categories=tuple(categories.values()),
    )


@contextmanager
def _opened(archive: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(archive) as zipped:
            yield zipped
    except zipfile.BadZipFile as error:
        raise DataError(f"{archive} is not a readable zip archive: {error}") from error


def _words(text: bytes, document: str, archive: Path) -> list[str]:
    """The lower-cased words of one tagged text."""
    tokens = _ascii(text, document, archive).lower().split()
    words = [token.rpartition("/")[0] for token in tokens]
    if "" in words:
        token = tokens[words.index("")]
        raise DataError(f"{archive}: document {document} has the token {token!r}, which is not word/tag")
    return words


def _ascii(content: bytes, document: str, archive: Path) -> str:
    try:
        return content.decode("ascii")
    except UnicodeDecodeError as error:
        raise DataError(f"{archive}: {document} is not ASCII: {error}") from error


@dataclass(frozen=True)
class MultiLabel:
    """A data set whose examples have several labels each, in two parts.

    Attributes:
        train: features [N, F], float32.
        train_labels: which labels each example has [N, L], bool.
        test: features [M, F], float32.
        test_labels: [M, L], bool.
        labels: the labels' names [L].
    """

    train: NDArray[np.float32]
    train_labels: NDArray[np.bool_]
    test: NDArray[np.float32]
    test_labels: NDArray[np.bool_]
    labels: tuple[str, ...]


def delicious(data: str | Path | None = None) -> MultiLabel:
    """Delicious: 12,920 pages to train on and 3,185 to test on, 500 words, 983 tags (19 a page).

    Raises:
        DataError: if a file is absent, damaged or undeclared.
    """
    train, test, labels = files("delicious", data)
    return read_mulan(train, test, labels)


def read_mulan(train: Path, test: Path, labels: Path) -> MultiLabel:
    """Read a multi-label data set in Mulan's form: sparse ARFF files, and an XML file that names the labels.

    All attributes are 0 or 1, or numeric; the last ones are the labels. A row lists what is not 0: ``{3 1,17 1}``.

    Raises:
        DataError: if a file is not of this form, or the two parts do not have the same attributes.
    """
    names = _label_names(labels)
    parts = {path: _sparse_arff(path) for path in (train, test)}
    if parts[train][0] != parts[test][0]:
        raise DataError(f"{test} does not have the attributes of {train}")
    for path, (attributes, table) in parts.items():
        if tuple(attributes[-len(names) :]) != names:
            raise DataError(f"the last {len(names)} attributes of {path} are not the labels that {labels} names")
        if not np.isin(table[:, -len(names) :], (0, 1)).all():
            raise DataError(f"{path} has a label that is neither 0 nor 1")
    (_, first), (_, second) = parts.values()
    cut = first.shape[1] - len(names)
    return MultiLabel(first[:, :cut], first[:, cut:] > 0, second[:, :cut], second[:, cut:] > 0, names)


def _label_names(path: Path) -> tuple[str, ...]:
    """The names in an XML file of ``<labels><label name="..."/>...</labels>``, in its order."""
    try:
        names = tuple(element.get("name", "") for element in ElementTree.parse(path).getroot())
    except ElementTree.ParseError as error:
        raise DataError(f"{path} is not XML: {error}") from error
    if not names or "" in names:
        raise DataError(f"{path} names no labels; expected <labels><label name='...'/>...</labels>")
    return names


def _sparse_arff(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    """The names of the attributes [A] and the rows [N, A] of a sparse ARFF file."""
    header, found, body = path.read_text("latin-1").partition("@data")
    attributes = [line.split()[1] for line in header.splitlines() if re.match(r"@attribute\s+\S+\s", line, re.I)]
    if not found or not attributes:
        raise DataError(f"{path} is not an ARFF file: it lacks @attribute lines or @data")
    rows = [(i, line) for i, line in enumerate(body.splitlines(), header.count("\n") + 1) if line.strip()]
    table = np.zeros((len(rows), len(attributes)), dtype=np.float32)
    for place, (number, line) in enumerate(rows):
        if not re.fullmatch(r"\{[^{}]*\}", line.strip()):
            raise DataError(f"{path}, line {number}: expected a sparse row such as {{3 1,17 1}}, got {line[:40]!r}")
        for entry in filter(None, line.strip()[1:-1].split(",")):
            try:
                column, value = entry.split()
                if not 0 <= int(column) < len(attributes) or not math.isfinite(float(value)):
                    raise ValueError
            except ValueError:
                raise DataError(
                    f"{path}, line {number}: {entry!r} is not one of the {len(attributes)} attributes and its value"
                ) from None
            table[place, int(column)] = float(value)
    return attributes, table


@dataclass(frozen=True)
class Digits:
    """Handwritten digits: ``images`` [N, 64] with pixels in [0, 1] and ``labels`` [N] in 0..9."""

    images: NDArray[np.float64]
    labels: NDArray[np.int64]


def digits() -> Digits:
    """The 1,797 digits that come with scikit-learn; needs no download."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return Digits(images=bunch.data / 16.0, labels=bunch.target.astype(np.int64))
