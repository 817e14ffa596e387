"""The call: verdicts, known faults, limits, and every bad argument."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from sumexp import ranking
from sumexp.audit import Audit, AuditError, audit
from sumexp.audit.rates import rank_bound, rates
from sumexp.audit.rows import groups
from sumexp.audit.setup import setup
from sumexp.samplers import LogUniform

COUNTS = np.maximum(1, 4000 / np.arange(1, 201.0)).astype(np.int64)
PRIOR = COUNTS / COUNTS.sum()


def scores(examples: int = 2, spread: float = 1.5, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.asarray(np.log(PRIOR) + spread * np.random.default_rng(seed).standard_normal((examples, 200)))


def found(result: Audit) -> set[str]:
    return {fault.name for fault in result.faults if fault.found}


def test_the_right_scheme_is_right_whatever_the_truth() -> None:
    result = audit(COUNTS, sampler="within-batch", weights="relative", hits="keep", batch=64)
    assert (result.verdict, result.negatives) == ("right", 63)
    assert result.advice.change == ""
    assert all(kl < 1e-6 for _, kl in result.by_spread)
    assert found(result) == set()


def test_from_counts_alone_the_negatives_only_scheme_cannot_be_judged() -> None:
    """With the popularity itself as the truth the error is zero; it is not for truths far from it."""
    result = audit(COUNTS, sampler="within-batch", weights="importance", hits="mask", m=31)
    assert result.verdict == "cannot tell"
    assert result.by_spread[0][0] == 0
    assert result.by_spread[0][1] == pytest.approx(0, abs=1e-6)
    assert result.by_spread[-1][1] > 0.01
    assert "give scores" in result.lines()[0]
    assert found(result) == {"log q on the negatives only"}


def test_scores_decide() -> None:
    result = audit(COUNTS, weights="none", m=31, scores=torch.from_numpy(scores()).float())
    assert result.verdict == "wrong"
    assert result.by_spread == ()
    assert result.spread == pytest.approx(1.5, abs=0.3)
    assert result.scheme.shift[2] > 1 > 0 > result.scheme.shift[0]
    assert result.scheme.title not in [each.title for each in result.alternatives]
    assert len(result.alternatives) == 5
    assert [m for m, _ in result.by_m] == sorted({1, 4, 16, 31, 64, 256, 1024, 4096, 16384})
    assert "CANNOT" not in str(result)
    assert all(label in str(result) for label in ("minimum", "negatives", "faults", "advice"))


def test_embeddings_and_a_temperature_are_scores() -> None:
    generator = np.random.default_rng(0)
    queries, items = generator.normal(size=(2, 4)), generator.normal(size=(200, 4))
    first = audit(COUNTS, weights="none", m=7, scores=(queries, items), temperature=0.5)
    second = audit(COUNTS, weights="none", m=7, scores=queries @ items.T * 2)
    assert first.scheme.kl == pytest.approx(second.scheme.kl, rel=1e-9)


@pytest.mark.parametrize(
    "given, fault",
    [
        ({"weights": "added"}, "log q added"),
        ({"weights": "none"}, "no correction"),
        ({"weights": "importance"}, "log q on the negatives only"),
        ({"weights": "relative", "hits": "mask"}, "masked hits with relative weights"),
        ({"weights": "relative", "sampler": "within-batch-union"}, "hits kept in a set"),
        (
            {"weights": "relative", "sampler": "within-batch-union", "hits": "mask", "log_q": "multiset"},
            "a table of other probabilities",
        ),
        ({"weights": "relative", "log_q": -np.log(PRIOR)}, "log q added"),
        ({"weights": "relative", "log_q": np.log(COUNTS + 50.0)}, "a table of other probabilities"),
        (
            {"weights": "relative", "sampler": torch.tensor([0.0] * 100 + [0.01] * 100, dtype=torch.float64)},
            "classes never drawn",
        ),
        (
            {"weights": "relative", "labels": np.repeat([199, 198], 500)},
            "counts that do not match the labels",
        ),
    ],
)
def test_each_known_fault_is_found(given: dict[str, Any], fault: str) -> None:
    assert fault in found(audit(COUNTS, m=31, **given))


def test_unsorted_ids_are_found() -> None:
    assert "ids not sorted by frequency" in found(
        audit(COUNTS[::-1].copy(), sampler="log-uniform", weights="relative", m=9)
    )
    assert found(audit(COUNTS, sampler="log-uniform", weights="relative", m=9)) == set()


def test_labels_that_follow_the_counts_are_no_fault() -> None:
    """Twenty samples of labels: a statistic six deviations off its mean would be a false alarm, rarer than 10^-5."""
    for seed in range(20):
        labels = np.random.default_rng(seed).choice(200, 3000, p=PRIOR)
        values = np.bincount(labels, minlength=200)
        n, expected = 3000, 3000 * PRIOR
        z = (((values - expected) ** 2 / expected).sum() - 199) / math.sqrt(
            2 * 199 + ((1 / PRIOR).sum() - 200**2 - 2 * 200 + 2) / n
        )
        assert abs(z) < 6
    result = audit(COUNTS, weights="relative", m=9, labels=labels)
    assert [f.found for f in result.faults if "labels" in f.name] == [False]


def test_scores_that_do_not_fit_the_counts() -> None:
    flat = np.zeros((40, 200)) + 0.1 * np.random.default_rng(0).standard_normal((40, 200))
    assert "counts that do not match the labels" in found(
        audit(COUNTS, weights="relative", m=9, scores=flat, examples=1)
    )
    few = audit(COUNTS, weights="relative", m=9, scores=flat[:5], examples=1)
    assert [f.found for f in few.faults if "labels" in f.name] == [None]


def test_accidental_hits_by_hand() -> None:
    prior = np.array([0.5, 0.3, 0.2])
    how = setup(prior, "uniform", "none", "keep", 2, None)
    hit = rates(prior, groups(np.array([5, 3, 2])), how)
    assert hit.hit == pytest.approx(1 / 3)
    assert hit.any_hit == pytest.approx(1 - (2 / 3) ** 2)
    mixed = rates(prior, groups(np.array([5, 3, 2])), setup(prior, "mixed", "none", "keep", 1, 2))
    assert mixed.any_hit == pytest.approx(sum(x * (1 - (1 - x) * 2 / 3) for x in prior))


def test_limits() -> None:
    result = audit(COUNTS, sampler="uniform", weights="none", m=31)
    assert result.certificate == pytest.approx(math.log(32))
    assert result.rank_bound.exact
    assert result.rank_bound.constant == pytest.approx(ranking.additive_constant(199, 31, 1.0).constant)
    heavy = setup(np.full(5, 0.2), "uniform", "none", "keep", 40, None)
    assert rank_bound(np.full(5, 0.2), heavy).holds
    assert not rank_bound(PRIOR, setup(PRIOR, "within-batch", "none", "keep", 31, None)).holds


def test_one_per_cent_is_where_the_mean_loss_comes_near() -> None:
    from sumexp import negatives

    result = audit(COUNTS, sampler="within-batch", weights="importance", hits="mask", m=31, scores=scores(1))
    p = torch.from_numpy(scores(1)[0]).softmax(0)
    assert result.full_loss == pytest.approx(-(p @ p.log()).item(), rel=1e-2)
    assert result.one_per_cent is not None
    log_q = torch.from_numpy(PRIOR).log()
    near = [
        sum(
            share * negatives.implicit_loss(p.log(), negatives.scheme(log_q, y, m, "importance", "mask")).loss.item()
            for y, share in enumerate(p.tolist())
        )
        / -(p @ p.log()).item()
        for m in (result.one_per_cent // 2, result.one_per_cent * 2)
    ]
    assert abs(near[0] - 1) > 0.01 > abs(near[1] - 1)


def test_classes_without_labels_are_kept() -> None:
    counts = np.concatenate([COUNTS, [0, 0]])
    result = audit(counts, sampler="uniform", weights="relative", m=9)
    assert (result.rates.unseen, result.classes, result.verdict) == (2, 202, "right")


def test_a_sampler_of_the_package_and_a_function_are_laws() -> None:
    sampler = LogUniform(200)
    named, given, called = (
        audit(COUNTS, sampler=law, weights="negatives", hits="mask", m=9).scheme.kl
        for law in ("log-uniform", sampler, sampler.log_prob)
    )
    assert [given, called] == pytest.approx([named, named], rel=1e-3)


BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: audit(np.array([3, -1, 2]), m=3), "the count of class 1 is -1"),
    (lambda: audit(np.array([3.0, 1.5]), m=3), "the count of class 1 is 1.5; counts are whole numbers"),
    (lambda: audit(np.array([3.0, math.nan]), m=3), "the count of class 1 is nan"),
    (lambda: audit(np.array([], dtype=np.int64), m=3), "there are no classes"),
    (lambda: audit(np.array([[1, 2]]), m=3), r"counts have shape \(1, 2\)"),
    (lambda: audit(np.array([7, 0]), m=3), "1 of 2 classes have a count above 0"),
    (lambda: audit("counts", m=3), "counts is str"),  # type: ignore[arg-type]
    (lambda: audit(np.array(["a", "b"]), m=3), "counts are <U1"),
    (lambda: audit(COUNTS), "m is not given"),
    (lambda: audit(COUNTS, m=0), "m is 0"),
    (lambda: audit(COUNTS, m=5, batch=5), "within a batch of 5 there are 4 negatives"),
    (lambda: audit(COUNTS, m=5, sampler="mixed"), "mixed negatives need batch"),
    (lambda: audit(COUNTS, m=5, sampler="zipf"), "no sampler 'zipf'; there are uniform"),
    (lambda: audit(COUNTS, m=5, sampler="unigram:x"), "the power of unigram is 'x'"),
    (lambda: audit(COUNTS, m=500, sampler="distinct:uniform"), "there are no 500 distinct negatives"),
    (lambda: audit(COUNTS, m=5, weights="heavy"), "weights is 'heavy'"),  # type: ignore[arg-type]
    (lambda: audit(COUNTS, m=5, hits="drop"), "hits is 'drop'"),  # type: ignore[arg-type]
    (lambda: audit(COUNTS, m=5, hits="redraw", sampler="union:uniform"), "not drawn again"),
    (lambda: audit(COUNTS, m=5, sampler=torch.full((200,), 0.1)), "sums to 20"),
    (lambda: audit(COUNTS, m=5, sampler=lambda ids: torch.zeros(3)), r"gives shape \(3,\) for 200 ids"),
    (lambda: audit(COUNTS, m=5, sampler=lambda ids: torch.zeros(200)), "sums to"),
    (lambda: audit(COUNTS, m=5, sampler=LogUniform(7)), "the sampler has 7 classes, the counts 200"),
    (lambda: audit(COUNTS, m=5, log_q=np.zeros(3)), r"log_q has shape \(3,\)"),
    (lambda: audit(COUNTS, m=5, log_q=np.full(200, -math.inf)), "log_q is -inf for class 0"),
    (lambda: audit(COUNTS, m=5, log_q="multiset"), "where repetitions are removed"),
    (lambda: audit(COUNTS, m=5, scores=np.zeros((2, 3))), r"scores have shape \(2, 3\)"),
    (lambda: audit(COUNTS, m=5, scores=np.full((1, 200), math.nan)), "the score of example 0 for class 0 is nan"),
    (lambda: audit(COUNTS, m=5, scores=np.zeros((1, 200)), temperature=0), "temperature is 0"),
    (lambda: audit(COUNTS, m=5, scores=(np.zeros((1, 2)), np.zeros((7, 2)))), "embeddings have shapes"),
    (lambda: audit(COUNTS, m=5, labels=np.array([3, 200])), "label 1 is 200; the counts have the classes 0..199"),
    (lambda: audit(COUNTS, m=5, labels=np.array([0.5])), "labels are 1 of float64"),
]


@pytest.mark.parametrize("call, message", BAD)
def test_bad_arguments_are_one_clear_message(call: Callable[[], object], message: str) -> None:
    with pytest.raises(AuditError, match=message):
        call()
