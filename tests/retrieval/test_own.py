"""Training on files in the text format, against training on the same arrays."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sumexp.chapters.models.sampled.methods import Method
from sumexp.chapters.retrieval import grids, training
from sumexp.chapters.retrieval.metrics import USUAL
from sumexp.chapters.retrieval.own import compare
from sumexp.chapters.retrieval.summary import members
from sumexp.chapters.retrieval.training import Config, Learner
from sumexp.datasets import DataError
from sumexp.datasets._command import elsewhere
from sumexp.datasets.extreme import Part
from tests.retrieval.test_paper import TABLE_4
from tests.retrieval.test_retrieval import DATA

METHODS = (Method(), Method("softmax", "batch", "constant", 6))
PLAN = grids.Plan(seeds=2, negatives=6, epochs=2, width=8, batch=16)


def written(path: Path, part: Part) -> Path:
    """The examples as text."""
    examples, features = part.features.shape
    lines = [f"{examples} {features} {part.labels.shape[1]}"]
    for i in range(examples):
        own = part.features.toarray()[i]
        pairs = " ".join(f"{j}:{own[j]:g}" for j in np.flatnonzero(own))
        lines.append(f"{','.join(map(str, np.flatnonzero(part.labels.toarray()[i])))} {pairs}")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_user_trains_on_files(tmp_path: Path) -> None:
    train, test = (written(tmp_path / name, getattr(DATA, name)) for name in ("train", "test"))
    found = compare(train, test, PLAN, METHODS)
    assert list(found) == list(METHODS)
    for method in METHODS:
        for seed in range(2):
            again = training.train(
                Config(method=method, seed=seed, width=8, epochs=2, batch=16, rates=PLAN.rates), DATA
            ).arrays
            for name in ("precision", "propensity"):
                assert getattr(found[method], name)[seed] == pytest.approx(again[name], rel=1e-12)
            share = again["found"].sum(1) / again["pairs"].sum()
            assert found[method].recall["full"][seed].tolist() == share.tolist()
    assert set(compare(train, test, grids.Plan(1, 6, 1, width=4, batch=16, contrastive=1))) == set(grids.methods(6))


def test_propensities_of_another_set(tmp_path: Path) -> None:
    train, test = (written(tmp_path / name, getattr(DATA, name)) for name in ("train", "test"))
    usual, other = (compare(train, test, PLAN, METHODS[:1], constants=one) for one in (USUAL, (0.5, 0.4)))
    assert np.array_equal(usual[Method()].precision, other[Method()].precision)
    assert (usual[Method()].propensity != other[Method()].propensity).all()
    assert grids.PROPENSITIES.keys() == grids.LARGE.keys()


def without(labels: NDArray[np.int64]) -> Part:
    """The test examples without some labels."""
    kept = DATA.test.labels.tolil()
    kept[:, labels] = 0
    return replace(DATA.test, labels=kept.tocsr())


def test_what_cannot_be_judged_is_not_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train, test = (written(tmp_path / name, getattr(DATA, name)) for name in ("train", "test"))
    nothing = written(tmp_path / "nothing", without(np.arange(len(DATA.counts))))

    def trains(self: Learner) -> float:
        raise AssertionError("trained before the check")

    monkeypatch.setattr(Learner, "run_epoch", trains)
    with pytest.raises(ValueError, match="no test example has a label that occurs in training"):
        compare(train, nothing, PLAN, METHODS)
    with pytest.raises(ValueError, match=r"constants of the propensities are \(0, 1\)"):
        compare(train, test, PLAN, METHODS, constants=(0, 1))


def test_a_group_without_a_test_pair_is_left_out(tmp_path: Path) -> None:
    # All was trained, and then it was an error.
    train = written(tmp_path / "train", DATA.train)
    test = written(tmp_path / "test", without(np.flatnonzero(members(DATA.counts)["tail"])))
    found = compare(train, test, grids.Plan(1, 6, 1, width=4, batch=16), METHODS[:1])
    assert set(found[Method()].recall) == {"head", "torso", "full"}


def test_a_file_of_another_form(tmp_path: Path) -> None:
    (tmp_path / "train").write_text("2 3\n")
    with pytest.raises(DataError, match="line 1: expected three numbers"):
        compare(tmp_path / "train", tmp_path / "train", PLAN, METHODS)


def test_the_published_sets_have_plans() -> None:
    for name, said in elsewhere().items():
        # What the list says of them is Table 4, and what it says to call is what there is.
        labels, train, test, *_ = TABLE_4[name]
        assert all(f"{number:,}" in said["description"] for number in (labels, train, test, train + test))
        constants = "" if grids.PROPENSITIES[name] == USUAL else f", constants={grids.PROPENSITIES[name]}"
        assert said["read"] == f"sumexp.chapters.retrieval.own.compare(train, test, grids.LARGE[{name!r}]{constants})"
    assert elsewhere().keys() == grids.LARGE.keys()
    # 256 negatives of 256 pairs: a batch has no fewer.
    for plan in grids.LARGE.values():
        assert (plan.negatives, plan.width) == (256, 512)
        assert all(Config(method=one, batch=plan.batch).width == plan.width for one in grids.methods(plan.negatives))
