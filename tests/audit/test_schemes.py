"""Losses by name: the mean loss over every draw, or every batch, has its least value where the audit says."""

import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import softplus

from sumexp.audit import AuditError, audit
from sumexp.audit._command import main
from sumexp.audit._run import SPREADS
from sumexp.audit.schemes import SERVED, _minimum, _read, learned
from sumexp.negatives import enumerated
from sumexp.negatives.published import stationary
from sumexp.samplers import Hits

COUNTS = np.array([50, 30, 20])
PRIOR = COUNTS / COUNTS.sum()
TRUTH = np.array([0.2, 0.5, 0.3])
ALL = np.ones(3, dtype=bool)


def said(name: str, hits: Hits, scores: np.ndarray, **given: Any) -> np.ndarray:
    """The probability that the audit says the scores are, by its formula, in which a blank stands for a product."""
    formula, _, names = SERVED[name, hits].removeprefix("take P = ").partition(", with ")
    given["odds"] = np.exp(scores)
    for text in (*names.split(" and ") * (name == "gbce"), f"P = {formula}"):
        exec(re.sub(r"(\w) (?=[\w(])", r"\1 * ", text.replace("e^f", "odds")), given)
    return np.asarray(given["P"])


def gradient(loss: Callable[[Tensor], Tensor], scores: np.ndarray) -> np.ndarray:
    """Of a mean loss that is convex in the scores: where it is 0, there is the minimum."""
    values = torch.from_numpy(scores).requires_grad_()
    return np.asarray(torch.autograd.grad(loss(values), values)[0].numpy())


def is_least(loss: Callable[[Tensor], Tensor], scores: np.ndarray, abs: float = 1e-12) -> None:
    assert gradient(loss, scores) == pytest.approx(np.zeros_like(scores), abs=abs)
    assert np.abs(gradient(loss, scores + np.linspace(0, 0.1, scores.size).reshape(scores.shape))).max() > 1e-4


def by_enumeration(q: np.ndarray, m: int, hits: Hits, beta: float = 1.0) -> Callable[[Tensor], Tensor]:
    """The mean binary loss over all labels and all m draws."""

    def loss(scores: Tensor) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for y, draws in product(range(3), product(range(3), repeat=m)):
            law = q.copy()
            if hits == "redraw":
                law[y] = 0
                law /= law.sum()
            kept = [n for n in draws if hits != "mask" or n != y]
            value = beta * softplus(-scores[y]) + softplus(scores[kept]).sum()
            total = total + TRUTH[y] * float(np.prod(law[list(draws)])) * value
        return total

    return loss


@pytest.mark.parametrize("hits", ["keep", "mask", "redraw"])
@pytest.mark.parametrize("sampler", ["uniform", "within-batch"])
def test_binary_by_enumeration(sampler: str, hits: Hits) -> None:
    _, setup = _read("binary", COUNTS, sampler, hits, 2, None)
    scores = _minimum("binary", "binary", setup, PRIOR, ALL)(TRUTH)
    is_least(by_enumeration(setup.q[0], 2, hits), scores)
    if hits == "mask":
        assert said("binary", hits, scores, m=2, q=setup.q[0]) == pytest.approx(TRUTH)


@pytest.mark.parametrize("t", [0.0, 0.75, 1.0])
def test_gbce_by_enumeration(t: float) -> None:
    """One negative of two others: a = 1/2, and b = 1 - t / 2."""
    _, setup = _read(f"gbce:{t}", COUNTS, None, None, 1, None)
    scores = _minimum("gbce", f"gbce:{t}", setup, PRIOR, ALL)(TRUTH)
    is_least(by_enumeration(np.full(3, 1 / 3), 1, "redraw", 1 - t / 2), scores)
    assert said("gbce", "redraw", scores, m=1, classes=3, T=t) == pytest.approx(TRUTH)


def test_gbce_of_classes_without_labels() -> None:
    """They are negatives too: with one of four classes without labels a = 1/3, and b = 1 - 2 t / 3."""
    result = learned(np.array([5, 3, 0, 1]), "gbce:0.75", m=1, scores=np.log([[0.2, 0.5, 0.1, 0.3]]))
    law = np.array([0.2, 0.5, 0.3])
    scores = np.log(law / (1 - law)) + np.log((1 - 0.75 * 2 / 3) * 3)
    assert result.scheme.kl == pytest.approx(
        float(law @ np.log(law)) - float(law @ scores) + np.logaddexp.reduce(scores)
    )
    assert result.classes - result.labelled == 1


@pytest.mark.parametrize("hits", ["keep", "mask"])
def test_siglip_by_enumeration(hits: Hits) -> None:
    """All batches of three pairs from two contexts and three classes; every pair of a batch, true or false."""
    joint, size = np.array([[0.2, 0.1, 0.05], [0.1, 0.3, 0.25]]), 3
    counts = np.round(1000 * joint.sum(0)).astype(int)

    def loss(scores: Tensor) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for batch in product(product(range(2), range(3)), repeat=size):
            true = torch.tensor(batch)
            false = [
                (x, y) for i, (x, label) in enumerate(batch) for j, (_, y) in enumerate(batch)
                if j != i and (hits == "keep" or y != label)
            ]  # fmt: skip
            wrong = torch.tensor(false, dtype=torch.long).reshape(-1, 2)
            value = softplus(-scores[true[:, 0], true[:, 1]]).sum() + softplus(scores[wrong[:, 0], wrong[:, 1]]).sum()
            total = total + float(np.prod([joint[pair] for pair in batch])) * value
        return total

    _, setup = _read("siglip", counts, None, hits, None, size)
    minimum = _minimum("siglip", "siglip", setup, joint.sum(0), ALL)
    laws = joint / joint.sum(1, keepdims=True)
    scores = np.stack([minimum(law) for law in laws]) - np.log(size - 1)
    is_least(loss, scores)
    if hits == "mask":
        assert said("siglip", hits, scores, m=size - 1, pi=joint.sum(0)) == pytest.approx(laws)
    else:
        assert np.exp(scores) * joint.sum(0) * (size - 1) == pytest.approx(laws)  # log pi added


@pytest.mark.parametrize("m", [1, 3])
def test_refined_by_enumeration(m: int) -> None:
    """Its potential over all multisets of draws."""
    log_q, truth = torch.from_numpy(np.log(PRIOR)), torch.from_numpy(TRUTH)
    counts, chance = enumerated.draws(log_q, m)
    _, setup = _read("refined", COUNTS, None, None, m, None)
    scores = _minimum("refined", "refined", setup, PRIOR, ALL)(TRUTH)
    is_least(lambda values: chance @ enumerated.refined(values, counts, log_q) @ truth, scores, abs=1e-8)
    result = learned(COUNTS, "refined", m=m, scores=np.log(TRUTH)[None])
    assert 1e-6 < result.scheme.kl == pytest.approx(float(TRUTH @ (np.log(TRUTH) - scores)))
    assert result.served == ""


@pytest.mark.parametrize("beta", [0.5, 2.0])
def test_hard_by_enumeration(beta: float) -> None:
    """The mean loss over all multisets of three draws; it is not convex, but its slope is 0 at the minimum."""
    log_q, truth = torch.from_numpy(np.log(PRIOR)), torch.from_numpy(TRUTH)
    counts, chance = enumerated.draws(log_q, 3)
    scheme = f"hard:{beta}"
    _, setup = _read(scheme, COUNTS, None, None, 3, None)
    scores = _minimum("hard", scheme, setup, PRIOR, ALL)(TRUTH)
    is_least(lambda values: chance @ enumerated.hard(beta)(values, counts, log_q) @ truth, scores, abs=1e-8)
    result = learned(COUNTS, scheme, m=3, scores=np.log(TRUTH)[None])
    learned_log_p = enumerated.estimate(enumerated.hard(beta), truth.log(), log_q, 3).log_f
    assert result.scheme.kl == pytest.approx(float(truth @ (truth.log() - learned_log_p)))
    assert (result.verdict, result.served) == ("wrong", "")
    assert result.scheme.title == f"{scheme}, within-batch, m = 3, hits keep"
    assert "search    the loss is not convex: a lower minimum than the one found is not excluded" in result.lines()


def test_given_that_no_draw_is_a_hit_refined_is_importance_with_hits_redrawn() -> None:
    """What the audit says to ask for where there are many classes: hits are rare there, and the two are near."""
    counts = np.full(100, 10)
    scores = 1.5 * np.random.default_rng(0).standard_normal((1, 100))
    exact = learned(counts, "refined", m=4, scores=scores).scheme.kl
    near = audit(counts, weights="importance", hits="redraw", m=4, scores=scores).scheme.kl
    assert near == pytest.approx(exact, rel=0.02)
    by_pairs = learned(np.arange(1, 101), "binary", m=4, hits="keep", scores=scores)  # ends at log P/q
    best = [set(np.argsort(-x)[:10].tolist()) for x in (scores[0], scores[0] - np.log(np.arange(1, 101)))]
    assert by_pairs.scheme.overlap == len(best[0] & best[1]) < 10
    with pytest.raises(AuditError, match=r"100 classes times .* weights importance with hits redrawn: audit that"):
        learned(counts, "refined", m=2000, scores=scores)


def test_baseline_is_weights_and_hits_by_another_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "c.npy", COUNTS)
    np.save(tmp_path / "s.npy", np.log(TRUTH)[None])
    given = [str(tmp_path / "c.npy"), "-m", "5", "--scores", str(tmp_path / "s.npy")]
    main([*given, "--scheme", "baseline"])
    first = capsys.readouterr().out
    main([*given, "--weights", "negatives", "--hits", "mask"])
    assert capsys.readouterr().out == first
    log_f = stationary("baseline", torch.from_numpy(np.log(TRUTH)), torch.from_numpy(np.log(PRIOR)), 5).numpy()
    result = audit(COUNTS, weights="negatives", hits="mask", m=5, scores=np.log(TRUTH)[None])
    assert result.scheme.kl == pytest.approx(float(TRUTH @ (np.log(TRUTH) - log_f)), rel=1e-4)


def test_a_named_loss_is_an_audit() -> None:
    result = learned(COUNTS, "binary", sampler="uniform", m=2, hits="keep", scores=np.log(TRUTH)[None])
    assert (result.verdict, result.change, result.scheme.overlap) == ("right", "", 3)
    assert result.scheme.kl == pytest.approx(0, abs=1e-12)
    assumed = learned(COUNTS, "binary", m=2)
    assert [spread for spread, _ in assumed.by_spread] == list(SPREADS)
    assert assumed.verdict == "wrong"
    assert assumed.lines()[-1] == "advice    to have probabilities, add log q to the scores"
    assert "nan" not in str(assumed)
    assert assumed.plain()["served"] == "add log q to the scores"


@pytest.mark.parametrize(
    "given, message",
    [
        ({"scheme": "tilted"}, "no scheme 'tilted'; there are baseline, refined, binary, gbce:T, siglip, hard:BETA"),
        ({"scheme": "hard"}, "the hardness of hard is ''; it is a number from 0 to 20, as in hard:1"),
        ({"scheme": "hard:25"}, "the hardness of hard is '25'"), ({"scheme": "siglip:2"}, "no scheme 'siglip:2'"),
        ({"scheme": "hard:1", "hits": "mask"}, "in the loss hard they are keep"),
        ({"scheme": "gbce"}, "the calibration of gbce is ''; it is a number from 0 to 1"),
        ({"scheme": "gbce:2"}, "the calibration of gbce is '2'"), ({"scheme": "binary", "m": None}, "m is not given"),
        ({"scheme": "gbce:1", "sampler": "log-uniform"}, "the negatives of gbce are uniform"),
        ({"scheme": "refined", "hits": "keep"}, "in the loss refined they are mask"),
        ({"scheme": "binary", "sampler": "union:uniform", "hits": "keep"}, "known only for negatives drawn one by one"),
        ({"scheme": "binary", "sampler": np.array([0.5, 0.5, 0.0])}, "1 classes with labels are never negatives"),
        ({"scheme": "binary", "sampler": "mixed", "batch": 8}, "the sampler is 'mixed'; binary is known only for neg"),
        ({"scheme": "hard:1", "counts": np.full(300, 2)}, "hard takes 200 classes and 10,000 .* not 300 and 2: merge"),
        ({"scheme": "binary", "temperature": 0.1}, "temperature is 0.1, but there are no scores"),
    ],
)  # fmt: skip
def test_bad_schemes_are_one_line(given: dict[str, Any], message: str) -> None:
    with pytest.raises(AuditError, match=message):
        learned(**{"counts": COUNTS, "m": 2, **given})
