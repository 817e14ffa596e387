"""The trained classifier whose logits the chapters look at, fitted once and kept."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from sumexp import datasets
from sumexp.chapters.models import wordmodel


@dataclass(frozen=True)
class Example:
    """One context and one class that is right in it: a title, the logits of all classes [classes], the label."""

    title: str
    logits: Tensor
    label: int


def classifier(cached: Callable[..., Any], profile: str, device: str, seed: int) -> wordmodel.WordModel:
    """The next-word model of the Brown corpus, or of tiny Shakespeare where Brown is missing; cached, or fitted now.

    It is trained on ``device`` by ``cached``, which is that of ``claimbook.authoring.runs``; its tensors are on the
    CPU. Its ``source`` says which corpus it is. Raises `DataError` if the corpus is damaged.
    """
    source = datasets.preferred("brown")
    config = replace(wordmodel.CONFIGS[source][profile], seed=seed)
    run = cached(wordmodel.train, config, data=[source], device=device)
    return wordmodel.WordModel.from_arrays(run.arrays, run.metrics)


def examples(model: wordmodel.WordModel, words: Sequence[tuple[str, str]]) -> list[Example]:
    """The pairs (context word, next word) asked for, of words that both corpora have: another raises `ValueError`."""
    index = model.index
    return [
        Example(f"“{w}” after “{c}”", model.logits(model.context_vectors.new_tensor(index(c)).long()), index(w))
        for c, w in words
    ]
