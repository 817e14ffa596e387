"""The trained classifiers whose logits the chapters look at, fitted once and kept."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from IPython.display import HTML, display
from torch import Tensor

from sumexp import datasets
from sumexp.companion.authoring import runs
from sumexp.models import wordmodel

_NO_BROWN = """<div class="admonition note"><p class="admonition-title">Without the Brown corpus</p>
<p>The corpus is not on this machine, so this run looks at the ten classes of scikit-learn's digits where the text
speaks of words. <code>sumexp data fetch brown</code> fetches it (3 MB); then run the chapter again.</p></div>"""


@dataclass(frozen=True)
class Example:
    """One context and one class that is right in it: a title, the logits of all classes [classes], the label."""

    title: str
    logits: Tensor
    label: int


def classifier(profile: str, device: str, seed: int) -> wordmodel.WordModel | wordmodel.DigitsModel:
    """The next-word model of the Brown corpus, from the cache or fitted now; without the corpus, the digits model.

    Raises:
        CompanionError: if there is no such profile, or the cache cannot be written.
        DataError: if the root of the data is set and lacks the corpus, or the corpus is damaged.
    """
    if not datasets.available("brown"):
        display(HTML(_NO_BROWN))  # type: ignore[no-untyped-call]
        return wordmodel.fit_digits(device)
    config = replace(wordmodel.CONFIGS[profile], seed=seed)
    run = runs.cached(wordmodel.train, config, data=["brown"], device=device)
    return wordmodel.WordModel.from_arrays(run.arrays, run.metrics, device)


def examples(model: wordmodel.WordModel | wordmodel.DigitsModel, words: Sequence[tuple[str, str]]) -> list[Example]:
    """The pairs (context word, next word) asked for; of the digits model, images in their place.

    Raises:
        ValueError: if a word is not in the vocabulary.
    """
    if isinstance(model, wordmodel.WordModel):
        index = model.index
        return [
            Example(f"“{w}” after “{c}”", model.logits(model.context_vectors.new_tensor(index(c)).long()), index(w))
            for c, w in words
        ]
    data = datasets.digits()
    images = [model.weight.new_tensor(data.images[i]) for i in range(len(words))]
    labels = [int(data.labels[i]) for i in range(len(words))]
    return [
        Example(f"digit {label}, image {i}", model.logits(image), label)
        for i, (image, label) in enumerate(zip(images, labels, strict=True))
    ]
