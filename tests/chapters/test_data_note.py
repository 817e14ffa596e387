"""The box that says which data a page was built from."""

from html import unescape
from pathlib import Path
from re import sub
from typing import Any

import pytest

from claimbook.authoring import runs
from sumexp import datasets
from sumexp.chapters import classifiers, data_note
from sumexp.datasets import DataError

BROWN = datasets.DATASETS["brown"].files[0]


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for variable in ("SUMEXP_DATA", "SUMEXP_DECLARED_DATA"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "sumexp"


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The text of what is displayed."""
    texts: list[str] = []

    def display(output: Any) -> None:
        texts.append(unescape(sub("<[^>]*>", " ", output.data)))

    monkeypatch.setattr(data_note, "display", display)
    return texts


def test_what_stands_in_is_named_with_the_command_for_more(shown: list[str]) -> None:
    assert data_note.show("brown") == ["shakespeare"]
    [text] = shown
    assert "Tiny Shakespeare: 40,000 lines" in text
    assert "sumexp data fetch brown  fetches Brown corpus (3.3 MB)" in text


@pytest.mark.parametrize("root", ["", "data"], ids=["the cache", "SUMEXP_DATA"])
def test_an_incomplete_folder_falls_back_and_a_damaged_set_is_an_error(
    shown: list[str], cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: str
) -> None:
    """The folder is empty at first; then it holds one set, which is damaged."""
    folder = tmp_path / root if root else cache
    folder.mkdir(exist_ok=True)
    monkeypatch.setenv("SUMEXP_DATA", str(folder) if root else "")
    assert data_note.show("mnist", "omniglot", "brown") == ["digits", "shakespeare"]
    assert shown[0].count("Handwritten digits") == 1
    assert "sumexp data fetch mnist omniglot brown  fetches MNIST, Omniglot, Brown corpus (20.7 MB)" in shown[0]

    path = BROWN.below(folder)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"damaged")
    assert data_note.show("mnist", "brown") == ["digits", "brown"]
    assert "Brown corpus: 500 texts" in shown[1]
    assert "Shakespeare" not in shown[1]
    assert "sumexp data fetch mnist  fetches MNIST" in shown[1]
    with pytest.raises(DataError, match=r"brown.zip has 7 bytes .*; delete it, then run: sumexp data fetch"):
        datasets.brown()
    with pytest.raises(DataError, match=r"'delicious' lacks .*; to download it, run: sumexp data fetch delicious"):
        datasets.delicious()


def test_what_is_there_but_not_trained_on_waits(shown: list[str], cache: Path) -> None:
    path = BROWN.below(cache)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"of no matter")
    assert data_note.show("brown", grid="words") == ["shakespeare"]
    assert data_note.show("brown", grid="words", seed=1) == ["shakespeare"]
    assert "Models of Brown corpus take longer to train than a build:  make runs GRID=words  does it" in shown[0]
    assert "At profile  cpu  models of Brown corpus are trained with seed 0 alone." in shown[1]
    assert "fetch" not in "".join(shown)


def test_only_what_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUMEXP_DECLARED_DATA", "delicious")
    with pytest.raises(DataError, match="'brown' is read but not declared"):
        data_note.show("brown")


def test_the_classifier_without_brown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SUMEXP_STORE", str(tmp_path / "store"))
    model = classifiers.classifier(runs.cached, "smoke", "cpu", seed=0)
    assert model.source == "shakespeare"
    head, tail = classifiers.examples(model, [("of", "the"), ("his", "wife")])
    assert (head.title, tail.title) == ("“the” after “of”", "“wife” after “his”")
    assert head.logits.argmax() == head.label == model.index("the")
    assert tail.logits.shape == (12_631,)
    with pytest.raises(ValueError, match="'softmax' is not one of the 12,631 words"):
        classifiers.examples(model, [("softmax", "the")])
