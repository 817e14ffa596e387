"""The trained classifier whose logits the chapters look at, fitted once and kept."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from sumexp import datasets
from sumexp.chapters.models import wordmodel


@dataclass(frozen=True)
class Example:
    """A context and its correct class: a title, the logits of all classes [classes], and the label."""

    title: str
    logits: Tensor
    label: int


def classifier(cached: Callable[..., Any], profile: str, device: str, seed: int) -> wordmodel.WordModel:
    """The next-word model of the Brown corpus, or of tiny Shakespeare where Brown is missing, on the CPU.

    It is trained on ``device`` by ``cached``, that of ``claimbook.authoring.runs``. Raises `DataError` for a damaged
    corpus.
    """
    source = datasets.preferred("brown")
    config = replace(wordmodel.CONFIGS[source][profile], seed=seed)
    run = cached(wordmodel.train, config, data=[source], device=device)
    return wordmodel.WordModel.from_arrays(run.arrays, run.metrics)


def examples(model: wordmodel.WordModel, words: Sequence[tuple[str, str]]) -> list[Example]:
    """The examples of pairs (context word, next word); a word outside the vocabulary raises `ValueError`."""
    index = model.index
    return [
        Example(f"“{w}” after “{c}”", model.logits(model.context_vectors.new_tensor(index(c)).long()), index(w))
        for c, w in words
    ]
