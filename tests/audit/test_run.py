"""The call: verdicts, known faults, limits, and every bad argument."""

import math
import re
from collections.abc import Callable
from itertools import product
from typing import Any, cast, get_args

import numpy as np
import pytest
import torch

from sumexp.audit import Audit, AuditError, audit, drift
from sumexp.audit._faults import _many, faults, remedy
from sumexp.audit._rows import groups, posteriors
from sumexp.audit._setup import Weights, rates, read_setup
from sumexp.negatives import race
from sumexp.samplers import Hits, LogUniform

COUNTS = np.maximum(1, 4000 / np.arange(1, 201.0)).astype(np.int64)
PRIOR = COUNTS / COUNTS.sum()
THREE = {"counts": np.array([705, 1, 292]), "m": 4, "scores": np.log([[0.7112, 0.0155, 0.2733]])}
UNION = {
    "counts": np.array([272, 695, 31]), "m": 4, "scores": np.log([[0.0904, 0.7839, 0.1257]]),
    "sampler": "within-batch-union",
}  # fmt: skip


def scores(examples: int = 2, spread: float = 1.5, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.asarray(np.log(PRIOR) + spread * np.random.default_rng(seed).standard_normal((examples, 200)))


def fault_names(result: Audit) -> set[str]:
    return {fault.name for fault in result.faults if fault.found}


def test_the_right_scheme_is_right_whatever_the_truth() -> None:
    result = audit(COUNTS, sampler="within-batch", weights="relative", hits="keep", batch=64)
    assert (result.verdict, result.negatives) == ("right", 63)
    assert result.change == ""
    assert all(kl < 1e-6 for _, kl in result.by_spread)
    assert fault_names(result) == set()


def test_from_counts_alone_the_negatives_only_scheme_cannot_be_judged() -> None:
    """With the popularity itself as the truth the error is zero; it is not for truths far from it."""
    result = audit(COUNTS, sampler="within-batch", weights="importance", hits="mask", m=31)
    assert result.verdict == "cannot tell"
    assert result.by_spread[0][0] == 0
    assert result.by_spread[0][1] == pytest.approx(0, abs=1e-6)
    assert result.by_spread[-1][1] > 0.01
    assert "give scores" in result.lines()[0]
    assert fault_names(result) == {"log q on the negatives only"}


def test_scores_decide() -> None:
    result = audit(COUNTS, weights="none", m=31, scores=torch.from_numpy(scores()).float())
    assert result.verdict == "wrong"
    assert result.by_spread == ()
    assert result.spread == pytest.approx(1.5, abs=0.3)
    assert result.scheme.shift[2] > 1 > 0 > result.scheme.shift[0]
    assert result.scheme.title not in [each.title for each in result.alternatives]
    assert len(result.alternatives) == 5
    assert not any("half" in each.title for each in audit(COUNTS, m=1, scores=scores(1)).alternatives)  # of one
    assert [each.m for each in result.numbers] == sorted({1, 4, 16, 31, 64, 256, 1024, 4096, 16384})
    assert not str(result.lines()[0]).startswith("Cannot tell")
    assert all(label in str(result) for label in ("minimum", "negatives", "faults", "advice"))


def test_embeddings_and_a_temperature_are_scores() -> None:
    generator = np.random.default_rng(0)
    queries, items = generator.normal(size=(2, 4)), generator.normal(size=(200, 4))
    second = audit(COUNTS, weights="none", m=7, scores=queries @ items.T * 2)
    temperatures: tuple[Any, ...] = (0.5, torch.tensor(0.5), torch.nn.Parameter(torch.tensor(0.5)), np.array(0.5))
    for half in temperatures:
        first = audit(COUNTS, weights="none", m=7, scores=(queries, items), temperature=half)
        assert first.scheme.kl == pytest.approx(second.scheme.kl, rel=1e-9)


def test_tensors_of_types_that_numpy_lacks_are_read() -> None:
    """In float8, and with a sign that torch notes in a bit."""
    q, given = torch.tensor([4.0, 2.0, 1.0, 1.0]) / 8, {"m": 2, "scores": torch.zeros(1, 4)}
    narrow, negative = q.to(torch.float8_e4m3fn), torch.complex(0 * q, -q).conj().imag
    laws = (8 * q, q), (8 * negative, negative), ((8 * q).to(narrow.dtype), narrow)
    assert len({audit(counts, sampler=law, **given).scheme.kl for counts, law in laws}) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given, fault",
    [
        ({"weights": "added"}, "log q added: .* the scores end at log P - 2 log q"),
        ({"weights": "none"}, "no correction: .* log q varies by 5.3 nats"),  # log 200
        ({"weights": "importance"}, "log q on the negatives only: .* since hits count the positive twice"),
        ({"weights": "relative", "hits": "mask", **THREE}, "hits left out with relative weights: .* masked .*.92 % of"),
        ({"weights": "relative", "hits": "redraw", **THREE}, "hits left out with .*: accidental hits are drawn again"),
        ({"weights": "relative", **UNION}, "hits kept in a set: .* must leave the label out"),
        ({"sampler": "union:unigram", "weights": "relative", "hits": "mask", "log_q": np.log(PRIOR)}, "a ta.* a set"),
        ({"weights": "relative", "log_q": -np.log(PRIOR)}, "log q added: .*: its sign is wrong"),
        ({"weights": "relative", "log_q": np.log(COUNTS + 50.0)}, "a table of .* 1.2 nats"),  # log 200 - log 4050 / 70
        ({"weights": "relative", "log_q": np.roll(np.log(PRIOR), 100)}, "a table of .* 9.3 nats"),  # 2 log 4000 / 39
        ({"weights": "relative", "sampler": torch.tensor([0.0] * 100 + [0.01] * 100, dtype=torch.float64)},
         "classes never drawn: 100 classes with 88 % of the labels"),
    ],
)  # fmt: skip
def test_each_known_fault_is_found_and_no_other(given: dict[str, Any], fault: str) -> None:
    result = audit(**{"counts": COUNTS, "m": 31, **given})
    [line] = [each for each in result.faults if each.found]
    assert re.match(fault, f"{line.name}: {line.says}")
    assert result.change


@pytest.mark.parametrize(
    "sampler, way, change",
    [
        ("unigram", "relative keep", ""), ("unigram", "importance mask", "subtract the true .*; keep accidental hits"),
        ("unigram", "none mask", "subtract the true .*d; keep .*"), ("mixed", "none keep", "subtract the .*uded"),
        ("mixed", "relative keep", "choose the pool of each .*"), ("union:unigram", "relative mask", "keep repetit.*"),
        ("union:unigram", "none keep", "subtract the log inclusion .*; mask accidental hits"),
        ("distinct:unigram", "relative keep", r"subtract log.1 - exp.-qT.. .*; mask accidental hits"),
        ("distinct:unigram", "arrival mask", ""),
    ],
)  # fmt: skip
def test_the_change_of_a_scheme(sampler: str, way: Any, change: str) -> None:
    setup = read_setup(PRIOR, sampler, *way.split(), 4, 5 if sampler == "mixed" else None)
    assert re.fullmatch(change, remedy(setup))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("classes, sampler", [(40, "within-batch"), (300, "unigram:0.75")])
def test_scores_are_blamed_for_their_own_fault(classes: int, sampler: str, seed: int) -> None:
    """Of 100 contexts, among them truths with other ids: "they look like log P/q", since any flat law does."""
    generator = np.random.default_rng(seed)
    popularity = generator.permutation(1 / np.arange(1.0, classes + 1))
    laws = popularity * np.exp(generator.standard_normal((600, classes)))
    prior = (laws / laws.sum(1, keepdims=True)).mean(0)
    how = read_setup(prior, sampler, "none", "keep", 8, None)
    never = read_setup(prior, np.where(prior == prior.max(), 0, prior) / (1 - prior.max()), "none", "keep", 8, None)
    half = read_setup(prior, (np.arange(classes) < classes / 2) * 2 / classes, "none", "keep", 8, None)
    log_p, serve = np.log(laws[:100]), "the scores, for this audit and when you serve them"
    check, more = "check that counts and scores belong to the same labels", 3 * (half.q[0] > 0)
    for setup, given, fix in (
        (how, log_p, ""), (never, log_p, ""), (half, log_p + more, check), (how, log_p[:, ::-1], check),
        (read_setup(np.r_[prior, 0], sampler, "none", "keep", 8, None), np.c_[log_p, log_p.max(1)], ""),
        (how, log_p - how.log_q, f"add log q to {serve}"), (how, log_p + how.log_q, f"subtract log q from {serve}"),
    ):  # fmt: skip
        truth, counts = posteriors(given, 1.0, len(given[0])), np.pad(prior, (0, len(given[0]) - classes))
        line = faults(setup, counts, groups(counts), rates(counts, setup), truth, True)[-1]
        assert (line.found, line.fix, line.nats > 0) == (bool(fix), fix, bool(fix))
        if "serve" in fix:  # which group, its share by the scores and by the counts, and what the change makes of it
            shares = [float(share) for share in re.findall(r"([\d.]+) %", line.says)]
            group = groups(prior) == ("head", "torso", "tail").index(line.says.split()[4])
            assert shares[:2] == pytest.approx([truth[:, group].sum(), 100 * prior[group].sum()], rel=5e-3)
            assert shares[2] == pytest.approx(shares[1], abs=9)


@pytest.mark.parametrize(
    "weights, hits, m, says",
    [
        ("importance", "mask", 4096, "right only in the limit"), ("importance", "keep", 4096, "hits count the"),
        ("negatives", "mask", 4096, "without log m"), ("negatives", "keep", 4096, "right only in the limit"),
    ],
)  # fmt: skip
def test_what_correcting_the_negatives_alone_tends_to(weights: Weights, hits: Hits, m: int, says: str) -> None:
    """With many negatives the divergence is small where the audit says so, and nowhere else."""
    result = audit(COUNTS[:8], weights=weights, hits=hits, m=m, scores=scores(1)[:, :8])
    assert (result.scheme.kl < 1e-3) == says.startswith("right")
    assert says in _many(read_setup(PRIOR[:8] / PRIOR[:8].sum(), "within-batch", weights, hits, m, None))


def test_probabilities_that_a_library_clips_are_priced() -> None:
    """A fifth of the labels is rarer than the least probability; at a millionth none is."""
    counts = np.append([1000, 900, 800], np.ones(600, dtype=int))
    prior = counts / counts.sum()
    given: dict[str, Any] = {"weights": "relative", "m": 15, "scores": np.log(prior)[None]}
    clipped, right = (audit(counts, log_q=f"clipped:{least}", **given) for least in (0.002, 1e-6))
    delta = np.log(np.maximum(prior, 0.002) / prior)
    cost = float(np.log(prior @ np.exp(delta)) - prior @ delta)
    [fault] = [each for each in clipped.faults if each.found]
    assert (fault.name, clipped.verdict, right.verdict) == ("a table of other probabilities", "wrong", "right")
    assert f"it costs {cost:.2g} nats of KL" in fault.says
    assert clipped.scheme.kl == pytest.approx(cost, rel=0.02)
    assert right.scheme.kl < 1e-6


def test_the_verdict_names_where_probability_is_misplaced() -> None:
    """One rare class gets half of everything: it was the frequent items that the sentence named."""
    counts = np.append(np.full(30, 100), np.full(30, 10))
    table = np.log(counts / counts.sum())
    table[-1] += 8
    result = audit(counts, weights="relative", m=15, log_q=table, scores=np.log(counts / counts.sum())[None])
    learned, true = result.scheme.learned[2], result.scheme.truth[2]
    assert learned > true + 0.3
    assert f"rare items get {100 * learned:.3g} % of the probability instead of {100 * true:.3g} %" in result.sentence


def test_accidental_hits_by_hand() -> None:
    prior = np.array([0.5, 0.3, 0.2])
    how = read_setup(prior, "uniform", "none", "keep", 2, None)
    assert rates(prior, how).any_hit == pytest.approx(1 - (2 / 3) ** 2)
    mixed = rates(prior, read_setup(prior, "mixed", "none", "keep", 1, 2))
    assert mixed.any_hit == pytest.approx(sum(x * (1 - (1 - x) * 2 / 3) for x in prior))
    union = read_setup(prior, "union:unigram", "none", "mask", 2, None)
    assert rates(prior, union).any_hit == pytest.approx(sum(x * (1 - (1 - x) ** 2) for x in prior))
    pools = read_setup(prior, "mixed", "none", "keep", 4, 13).draws(64, np.ones(3))
    assert pools.m.tolist() == [48, 16]  # each keeps its share


def test_the_right_scheme_keeps_equal_scores_and_those_of_labels_without_counts() -> None:
    """A class of count 0 that is never drawn stays where it was: it is no label, whatever the scores give it."""
    counts = COUNTS.copy()
    counts[-5:] = 0
    result = audit(counts, weights="relative", m=9, scores=scores(1))
    assert (result.verdict, result.scheme.kl < 1e-9) == ("right", True)
    share = 100 * torch.from_numpy(scores(1)).softmax(1)[:, -5:].sum()
    assert any(f"count is 0 are left out, with the {share:.2g} %" in a for a in result.assumptions)
    # The top ten of tied scores are the first ten of them, before and after.
    tied = np.round(scores(1))
    assert audit(COUNTS, weights="relative", sampler="log-uniform", m=7, scores=tied).scheme.overlap == 10


def test_a_verdict_from_counts_names_what_it_assumes() -> None:
    """Importance weights look right for every assumed truth with so many draws, and are not for a sharper one."""
    many = audit(COUNTS, weights="importance", hits="mask", m=128)
    assert many.verdict == "right"
    assert "for spreads of log P/pi up to 3" in many.sentence
    sharp = np.log(PRIOR)[None] + np.where(np.arange(200) >= 198, 7.0, 0.0)
    assert audit(COUNTS, weights="importance", hits="mask", m=128, scores=sharp).scheme.kl > 0.3
    assert "spread" not in audit(COUNTS, weights="relative", m=9).sentence


def test_a_high_power_of_the_counts_is_a_law() -> None:
    how = read_setup(PRIOR, "unigram:2000", "relative", "keep", 9, None)
    assert how.q[0, 0] == pytest.approx(1)
    assert how.q.sum() == pytest.approx(1)


@pytest.mark.parametrize("sampler", ["within-batch-union", "distinct:uniform", "within-batch"])
def test_the_loss_by_m_by_enumeration(sampler: str) -> None:
    """All sets of five classes, or all draws: mean and variance of the loss at the truth."""
    counts, hits = np.array([40, 17, 9, 3, 2]), cast(Hits, "keep" if sampler == "within-batch" else "mask")
    p = np.exp(scores(1)[0, :5])
    p /= p.sum()
    result = audit(counts, sampler=sampler, weights="constant", hits=hits, m=2, scores=np.log(p)[None])
    by_m = {each.m: each for each in result.numbers}
    for m in (1, 2):
        how = read_setup(counts / counts.sum(), sampler, "constant", hits, m, None)
        loss, variance = 0.0, 0.0
        for y in range(5):
            values = np.zeros(2)
            # every order of draws that could have been made: with its set, or until m differ
            if how.kind == "distinct":
                sets = race.distinct_law(torch.from_numpy(how.law).log(), m)  # type: ignore[arg-type]
                ways = list(zip(sets.members.double().numpy(), sets.probability.tolist(), strict=True))
            else:
                law = how.q[0] if how.law is None else how.law
                drawn = [np.bincount(way, minlength=5).astype(float) for way in product(range(5), repeat=m)]
                ways = [(np.minimum(x, 1) if how.is_set else x.copy(), float(np.prod(law**x))) for x in drawn]
            for number, chance in ways:
                number[y] *= hits == "keep"
                values += chance * np.log1p((number * p / p[y] / how.negatives).sum()) ** np.array([1, 2])
            loss, variance = loss + p[y] * values[0], variance + p[y] * (values[1] - values[0] ** 2)
        expected = [loss + p @ np.log(p), math.sqrt(variance)]
        assert [by_m[m].loss, by_m[m].deviation] == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_a_set_may_hold_a_class_for_certain() -> None:
    """Among 16,384 draws the most frequent classes always are, to the last digit."""
    result = audit(COUNTS, sampler="within-batch-union", weights="none", hits="mask", m=16384, scores=scores(1))
    assert read_setup(PRIOR, "within-batch-union", "none", "mask", 16384, None).q.max() == 1
    assert result.scheme.kl < 1e-4  # all classes are there: the full softmax
    p = torch.from_numpy(scores(1)[0]).softmax(0)
    assert result.scheme.loss == pytest.approx(-(p @ p.log()).item(), rel=1e-3)


def test_the_right_way_for_distinct_ids_is_the_time_of_the_next_arrival() -> None:
    """Of their table the error is small and not 0; of weights that know the time it is, for every truth."""
    few: dict[str, Any] = {"sampler": "distinct:unigram", "hits": "mask", "m": 5, "scores": scores(1)[:, :10]}
    table, right = (
        audit(COUNTS[:10], weights=way, **few) for way in get_args(Weights) if way in ("relative", "arrival")
    )
    assert table.scheme.kl > 1e-6 > 1e-9 > right.scheme.kl
    assert (right.verdict, right.change, right.rates.any_hit) == ("right", "", 0)
    assert fault_names(right) == set()
    assert right.scheme.title in [each.title for each in table.alternatives]


def test_sets_have_a_curve_by_m_as_long_as_there_are_ids() -> None:
    few = scores(1)[:, :20]
    result = audit(COUNTS[:20], sampler="distinct:unigram", weights="none", hits="mask", m=18, scores=few)
    assert [each.m for each in result.numbers] == [1, 4, 16, 18]
    kls = [each.kl for each in result.numbers]
    assert kls == sorted(kls, reverse=True)  # with ever more ids less is left of their law
    assert kls[-1] == result.scheme.kl


def test_classes_without_labels_are_kept() -> None:
    result = audit(np.concatenate([COUNTS, [0, 0]]), sampler="uniform", weights="relative", m=9)
    assert (result.classes, result.labelled, result.verdict) == (202, 200, "right")


def test_an_array_a_sampler_of_the_package_and_a_function_are_laws() -> None:
    given, named = (audit(COUNTS, sampler=law, m=9, scores=scores(1)).scheme.kl for law in (PRIOR, "within-batch"))
    assert given == pytest.approx(named, rel=1e-9)
    sampler = LogUniform(200)
    named, given, called = (
        audit(COUNTS, sampler=law, weights="negatives", hits="mask", m=9).scheme.kl
        for law in ("log-uniform", sampler, sampler.log_prob)
    )
    assert [given, called] == pytest.approx([named, named], rel=1e-3)


def bad(**options: Any) -> Callable[[], object]:
    return lambda: audit(COUNTS, **{"m": 5, **options})


BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: audit(np.array([3, -1, 2]), m=3), r"counts\[1\] is -1"), (lambda: audit("counts", m=3), "counts is str"),  # type: ignore[arg-type]
    (lambda: audit(np.array([3.0, 1.5]), m=3), r"counts\[1\] is 1.5; counts are whole numbers"), (bad(m=0), "m is 0"),
    (lambda: audit(np.array([], dtype=np.int64), m=3), "0 of 0 classes have a count"), (bad(seed=-1), "seed is -1"),
    (lambda: audit(np.array([[1, 2]]), m=3), r"counts have shape \(1, 2\)"), (bad(hits="drop"), "hits is 'drop'"),
    (lambda: audit(np.array([7, 0]), m=3), "1 of 2 classes have a count above 0"),
    (lambda: audit(np.array(["a", "b"]), m=3), "counts are <U1"), (bad(sampler="mixed"), "mixed negatives need batch"),
    (lambda: audit(COUNTS), r"pass the negatives per example \(-m 255\) or the batch size \(--batch 256\)"),
    (bad(batch=5), "within a batch of 5 there are 4 negatives"), (bad(weights="heavy"), "weights is 'heavy'"),
    (lambda: audit(COUNTS, batch=5, sampler="mixed"), "mixed negatives need batch"),
    (bad(sampler="zipf"), "no sampler 'zipf'; there are uniform"), (bad(sampler=torch.full((200,), 0.1)), "sums to 20"),
    (bad(sampler="unigram:x"), "the power of unigram is 'x'"), (bad(sampler=lambda ids: torch.zeros(200)), "sums to"),
    (bad(m=500, sampler="distinct:uniform"), "there are no 500 distinct negatives"),
    (bad(weights="arrival"), "they need a sampler distinct:LAW"), (bad(scores=scores(), examples=0), "examples is 0"),
    (bad(m=199, weights="arrival", hits="mask", sampler="distinct:uniform"), r"m is 199, .*; arrival needs m \+ 2"),
    (bad(hits="redraw", sampler="union:uniform"), "not drawn again"),
    (bad(sampler=lambda ids: torch.zeros(3)), r"gives shape \(3,\) for 200 ids"),
    (bad(sampler=LogUniform(7)), "the sampler has 7 classes, the counts 200"),
    (bad(weights="relative", log_q=np.zeros(3)), r"log_q has shape \(3,\)"),
    (bad(weights="relative", log_q=np.full(200, -math.inf)), "log_q is -inf for class 0"),
    (bad(weights="relative", log_q="clipped:2"), "the least probability of clipped is '2'"),
    (bad(weights="relative", log_q="sketch"), "log_q is 'sketch'; give .classes. numbers"),
    (bad(scores=np.zeros((2, 3))), r"scores have shape \(2, 3\)"),
    (bad(scores=np.full((1, 200), math.nan)), "the score of example 0 for class 0 is nan"),
    (bad(scores=np.zeros((1, 200)), temperature=0), "temperature is 0"),
    (bad(scores=scores(), temperature=True), "temperature is True; it must be a positive num"),
    (bad(scores=(np.zeros((1, 2)), np.zeros((7, 2)))), "embeddings have shapes"),
    (bad(log_q=np.zeros(200)), "weights 'none' subtract nothing from the logits"),
    (bad(weights="relative", log_q=["a"] * 200), "log_q are <U1"),
    (bad(scores=[["a"] * 200]), "scores are <U1; they must be real numbers"),
    (bad(scores=np.zeros((1, 200)) + 1j), "scores are complex128"),
    (bad(seed=None), "seed is None; it must be a whole number"),
    (bad(scores=scores(), temperature=1e-3), "span .* nats at temperature 0.001"),
    (lambda: audit(np.array([2**52, 2**52, 2**52]), m=5), "the counts add up to 1.35e\\+16"),
    (lambda: audit(np.array([2**63 + 5, 4], dtype=np.uint64), m=5), r"counts\[0\] is 9223372036854775813"),
    (bad(sampler=lambda ids: 1 // 0), "the sampler fails for the ids 0..199: ZeroDivision"),
    (bad(hits="redraw", sampler=np.eye(200)[0]), "as a label it leaves no negative to draw again"),
    (lambda: audit(COUNTS, sampler="cross-batch:", batch=8), "cross-batch needs a whole number of kept"),
    (lambda: audit(COUNTS, sampler="cross-device:0", batch=8), "not '0'"),
    (lambda: audit(COUNTS, sampler="cross-device:2", m=9), "cross-device:2 needs batch"),
    (lambda: audit(COUNTS, sampler="cross-device:2", batch=8, m=9), "gives 15 negatives: leave m out"),
    (lambda: audit(np.array([10**12, 1, 1]), m=8), "frequent classes are 1e.12 times as frequent as rare ones"),
    (lambda: drift.measure(COUNTS, np.ones(199)), r"serving has shape \(199,\); it must hold a count for each"),
    (lambda: drift.measure(COUNTS, np.full(200, 0.5)), r"serving\[0\] is 0.5"),
    (lambda: drift.measure(COUNTS, np.zeros(200)), "serving holds no label"),
    (lambda: drift.measure(COUNTS, np.append(np.zeros(200), 7.0)), "0 of the labels served are of classes that"),
    (bad(temperature=0), "temperature is 0, but there are no scores"),
    (lambda: audit(np.ma.array(COUNTS), m=4), "counts is a masked array, whose mask would be lost"),
    (lambda: audit(torch.from_numpy(COUNTS).to_sparse(), m=4), "counts has the layout torch.sparse_coo"),
    (bad(scores=torch.zeros(1, 200, device="meta")), "scores is on the device meta"),
    (bad(scores=(scores(),) * 3), "embeddings are 3 arrays; give two"),
    (bad(sampler=np.ma.array(np.ones(200) / 200)), "the law q is a masked array"),
]  # fmt: skip


@pytest.mark.parametrize("call, message", BAD)
def test_bad_arguments_are_one_clear_message(call: Callable[[], object], message: str) -> None:
    with pytest.raises(AuditError, match=message):
        call()


@pytest.mark.parametrize(
    "sampler, batch, negatives", [("cross-batch:32", 32, 63), ("cross-device:2", 32, 63), ("cross-device:1", 32, 31)]
)
def test_pools_of_labels_are_draws_from_the_labels_law(sampler: str, batch: int, negatives: int) -> None:
    named = audit(COUNTS, sampler=sampler, weights="none", batch=batch, scores=scores(1))
    plain = audit(COUNTS, sampler="within-batch", weights="none", m=negatives, scores=scores(1))
    assert named.negatives == negatives
    assert named.scheme.kl == plain.scheme.kl
    assert any("as those of now" in each for each in named.assumptions)


def test_what_can_hardly_be_may_stand_anywhere_below() -> None:
    """Of half of the classes the probability is e^-60, e^-250 or e^-900 of the others': the numbers are the same."""
    given = scores(1)[:, :40]
    near, *far = (np.where(np.arange(40) % 2, given - depth, given) for depth in (60, 250, 900))
    for sampler, weights, hits in (("within-batch", "constant", "keep"), ("uniform", "importance", "mask")):
        options: dict[str, Any] = {"sampler": sampler, "weights": weights, "hits": hits, "m": 5}
        expected = audit(COUNTS[:40], scores=near, **options)
        for each in far:
            actual = audit(COUNTS[:40], scores=each, **options)
            assert actual.scheme.kl == pytest.approx(expected.scheme.kl, rel=1e-5)
            assert actual.scheme.loss == pytest.approx(expected.scheme.loss, rel=1e-5)
