"""Pairs counted by hand and by a double loop, and those of the Brown corpus."""

from dataclasses import replace
from math import log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sumexp import datasets
from sumexp.chapters.models import skipgram
from sumexp.chapters.models.skipgram import CONFIGS
from sumexp.datasets import Corpus
from sumexp.nce import global_nce
from tests.models import texts


def corpus(*documents: str) -> Corpus:
    """Documents of one-letter words with spaces between."""
    return texts.corpus(*(document.split() for document in documents))


def test_pairs_by_hand() -> None:
    """``a b , a`` and ``b a``: the comma is no word but takes a place, and documents do not meet."""
    text = corpus("a b , a", "b a")
    near, far = (skipgram.pairs(text, 2, window) for window in (1, 2))
    assert near.words == ("a", "b")
    assert near.counts.tolist() == [[0, 2], [2, 0]]
    assert far.counts.tolist() == [[0, 3], [3, 0]]
    assert skipgram.pairs(text, 2, 3).counts.tolist() == [[2, 3], [3, 0]]


@settings(deadline=None, max_examples=30)
@given(st.lists(st.text("abc", min_size=1, max_size=12).map(" ".join), min_size=1, max_size=3), st.integers(1, 4))
def test_pairs_are_counted_as_a_double_loop_counts_them(documents: list[str], window: int) -> None:
    text = corpus("a b c", *documents)
    expected = torch.zeros(3, 3, dtype=torch.float64)
    for document in ("a b c", *documents):
        words = document.split()
        for i, x in enumerate(words):
            for j, y in enumerate(words):
                if 0 < abs(i - j) <= window:
                    expected["abc".index(x), "abc".index(y)] += 1
    assert torch.equal(skipgram.pairs(text, 3, window).counts, expected)


def test_shakespeare_has_something_to_learn() -> None:
    joint = replace(CONFIGS["smoke"]["table"], source="shakespeare", vocabulary=60, window=1).load().joint
    assert 0.1 < joint.mutual_information.item() < log(60)
    assert torch.allclose(joint.p, joint.p.T)


@pytest.mark.parametrize(
    "vocabulary, window, fault",
    [
        (0, 1, "vocabulary is 0 and window is 1; both must be positive"),
        (1, 0, "vocabulary is 1 and window is 0; both must be positive"),
        (3, 1, "vocabulary is 3, but the corpus has only 2 words"),
    ],
)
def test_no_pairs(vocabulary: int, window: int, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        skipgram.pairs(corpus("a b , a"), vocabulary, window)


@pytest.mark.claim("nce-cor-1-2", shows="statement", evidence="quadrature")
def test_brown() -> None:
    """The 200 most frequent words; B rises with N and keeps below both bounds, and comes within 1e-3 of I."""
    if not datasets.available("brown"):
        pytest.skip("the Brown corpus is not here; to download it, run: sumexp data fetch brown")
    text = datasets.brown()
    near, wide = (skipgram.pairs(text, 200, window) for window in (1, 5))
    assert near.words[:3] == wide.words[:3] == ("the", "of", "and")
    assert torch.equal(near.counts, near.counts.T)
    assert near.counts.sum() < wide.counts.sum()
    joint = near.joint
    sizes = [2**k for k in range(1, 17)]
    values = global_nce.bound(joint, global_nce.optimal_scores(joint), sizes)
    information = joint.mutual_information
    assert bool((values.diff() > 0).all())
    assert bool((values < torch.tensor(sizes).log().clamp_max(information)).all())
    assert 0 < (information - values[-1]).item() < 1e-3
