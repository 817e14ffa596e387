"""Running texts as numbers: tagged texts in NLTK's packaging, and the text that comes with the package."""

import bz2
import re
import zipfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from itertools import accumulate
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sumexp.datasets._declarations import DataError

SHAKESPEARE = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
"""The SHA-256 of the unpacked text of Shakespeare; in the code, so that a result from another text has another key."""

_PIECE = 400  # lines


@dataclass(frozen=True)
class Corpus:
    """A running text as numbers.

    Attributes:
        words: the lower-cased types [V], the most frequent first (ties in alphabetical order).
        tokens: the running text as indices into ``words`` [N], document after document.
        starts: the start of each document in ``tokens``, and N [documents + 1].
        documents: the documents' names, such as ``ca01``.
        categories: each document's category, such as ``news``.
    """

    words: tuple[str, ...]
    tokens: NDArray[np.int64]
    starts: NDArray[np.int64]
    documents: tuple[str, ...]
    categories: tuple[str, ...]


def read_shakespeare() -> Corpus:
    """The 40,000 lines of Shakespeare that come with the package, in pieces of 400 lines.

    A word is a run of letters and apostrophes, speakers' names included.

    Raises:
        DataError: if the installed file is damaged.
    """
    packed = files("sumexp.datasets").joinpath("shakespeare.txt.bz2").read_bytes()
    try:
        text = bz2.decompress(packed)
    except (OSError, ValueError) as error:
        raise DataError(f"the package's shakespeare.txt.bz2 is damaged: {error}; install sumexp again") from error
    if (actual := sha256(text).hexdigest()) != SHAKESPEARE:
        raise DataError(
            f"the package's shakespeare.txt.bz2 has SHA-256 {actual}, not {SHAKESPEARE}; install sumexp again"
        )
    lines = text.decode("ascii").lower().splitlines()
    starts = range(0, len(lines), _PIECE)
    pieces = [re.findall("[a-z']+", "\n".join(lines[start : start + _PIECE])) for start in starts]
    return _corpus(pieces, [f"lines {start + 1}-{start + _PIECE}" for start in starts], ["drama"] * len(pieces))


def read_brown(archive: Path) -> Corpus:
    """Read a zip of tagged texts in NLTK's packaging: files ``c<letter><number>`` of ``word/tag``, and ``cats.txt``.

    The tag is what follows the last slash of a token (``1/2/cd`` is the word ``1/2``).
    """
    with zipfile.ZipFile(archive) as zipped:
        texts = {Path(name).name: zipped.read(name).decode("ascii") for name in zipped.namelist()}
    categories = dict(line.split() for line in texts["cats.txt"].splitlines())
    words = [[token.rpartition("/")[0] for token in texts[name].lower().split()] for name in categories]
    return _corpus(words, list(categories), list(categories.values()))


def _corpus(texts: Sequence[Sequence[str]], documents: Sequence[str], categories: Sequence[str]) -> Corpus:
    counts = Counter(word for text in texts for word in text)
    words = tuple(sorted(counts, key=lambda word: (-counts[word], word)))
    index = {word: i for i, word in enumerate(words)}
    return Corpus(
        words=words,
        tokens=np.fromiter((index[word] for text in texts for word in text), dtype=np.int64),
        starts=np.array([0, *accumulate(map(len, texts))], dtype=np.int64),
        documents=tuple(documents),
        categories=tuple(categories),
    )
