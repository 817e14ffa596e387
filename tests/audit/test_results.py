"""What an audit prints: each line fits the column of a page, and nothing of it is lost."""

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any, get_args

import numpy as np
import pytest

from sumexp.audit import Audit, AuditError, audit, drift
from sumexp.audit._effects import described
from sumexp.audit._setup import Weights, read_setup
from sumexp.audit._text import digits, nats, percent, signed
from sumexp.audit.results import SMALL, WIDTH, Line, decide, row
from sumexp.audit.serving import cosines
from sumexp.samplers import Hits

COUNTS = np.maximum(1, 3000 // np.arange(1, 301))


@pytest.fixture(scope="module")
def base() -> Audit:
    return audit(COUNTS, weights="none", hits="keep", m=255)


def test_a_row_has_the_means_over_examples_and_their_error() -> None:
    each = described(np.ones(2), np.full(2, 0.5), np.zeros(2), np.array([0, 2]), np.full(2, 0.5))
    made = row("a", [replace(each, kl=kl, kl_error=0.5, overlap=kl) for kl in (1.0, 3.0)])
    assert (made.kl, made.kl_error, made.overlap) == pytest.approx((2, 1, 2))  # sqrt 2 / sqrt 2


def test_lines_fit(base: Audit) -> None:
    more = Line("drift", True, "a long sentence " * 20, "a fix", code="one line\nand another")
    many = replace(base, faults=tuple(replace(f, found=True) for f in base.faults)).with_lines(more)
    for each in (base, many):
        lines = str(each).splitlines()
        assert max(map(len, lines)) <= WIDTH
        assert not any(line.endswith(" ") for line in lines)
    assert "a long sentence " * 20 in " ".join(str(many).split()) + " "


def test_a_share_below_one_is_printed_below_100_per_cent_and_without_an_exponent() -> None:
    """By hand: .2g of 99.6 is 1e+02; .3g of 99.96 is 100."""
    assert percent(0.996, 2) == "99.6 %"
    assert percent(0.9996) == "99.96 %"
    assert percent(1, 2) == "100 %"
    assert [percent(x, 2) for x in (0, 0.00123, 0.125, 0.5)] == ["0 %", "0.12 %", "12 %", "50 %"]
    assert [digits(x, 2) for x in (-0.01, 99.6, 1234.0)] == ["-0.01", "100", "1,200"]
    assert [digits(x, 6) for x in (65_536, 2e6, 1e9, 511.5)] == ["65,536", "2,000,000", "1,000,000,000", "511.5"]
    assert [nats(x) for x in (1234.5, 99.96, math.inf, 9e-8, 0.00012345, 0.0012345)] == [
        "1,230", "100", "infinite", "0", "1.2e-04", "0.00123"
    ]  # fmt: skip
    assert [signed(x) for x in (1234.5, -1234.5, 0.5, 0.004, 1e-5)] == ["+1,230", "-1,230", "+0.5", "+0.004", "0"]


def test_no_sentence_of_an_audit_has_an_exponent_for_a_share() -> None:
    """Of 40 equal classes all but (39/40)^1023 = 6e-12 of examples have a hit; with 220 keys 1 - (39/40)^220."""
    for m, share in ((220, "99.6 %"), (1023, "100 %")):
        text = " ".join(audit(np.full(40, 100), m=m).lines())
        assert f"{share} of examples" in text
        assert not re.search(r"\de[+-]\d+ (%|times)", text)


def kinds() -> Iterator[Line]:
    """Lines of every price, sure or not, that replace the scheme's change or do not."""
    for price, sure, fix, instead in product(
        (0.0, SMALL / 2, SMALL, 2.0, math.inf), (True, False), ("", "a fix"), (True, False)
    ):
        yield Line("a line", True, "it is there", fix, price, sure, instead=instead and bool(fix))


def test_right_and_change_nothing_stand_beside_no_line_that_costs_more(base: Audit) -> None:
    """Every pair of lines with every set of divergences, with and without scores and a theorem."""
    pool = (None, *kinds())
    for kls, scored, proved, (first, second) in product(
        ((0.0, 0.0), (0.001, 0.5), (0.02, 0.5), (math.inf, math.inf)), (True, False), (True, False), product(pool, pool)
    ):
        spreads = () if scored else tuple(zip((0.0, 3.0), kls, strict=True))
        scheme = replace(base.scheme, kl=kls[1])
        lines = [replace(line, found=True) for line in (first, second) if line is not None]
        each = replace(base, scheme=scheme, by_spread=spreads, proved=proved, faults=tuple(lines[:1]), more=())
        each = each.with_lines(*lines[1:])
        decision = decide(each)
        price = max([line.nats for line in lines], default=0.0)
        shown = kls[1:] if scored else kls
        assert (decision.verdict == "right") == (max(shown) < SMALL and price < SMALL)
        if decision.verdict == "right":
            instead = next((line for line in lines if line.instead), None)
            fixes = [line.fix for line in lines if line.fix and (line is instead or not line.instead)]
            assert decision.change == "; ".join(dict.fromkeys(fixes))
        elif max(shown) >= SMALL:
            assert decision.change or any(line.instead for line in lines)
        if not decision.change:
            assert not any(line.fix for line in lines)
        text = " ".join(each.lines())
        assert ("change nothing" in text) == (not decision.change)
        assert text.startswith(decision.verdict.capitalize())


OPTIONS = {
    "sampler": ("within-batch", "uniform", "log-uniform", "distinct:unigram", "union:uniform", "cross-device:2"),
    "weights": ("relative",) * 6 + get_args(Weights),
    "hits": ("keep",) * 2 + get_args(Hits),
    "log_q": (None, None, "wrong"),
    "scores": (None, "of the counts", "of the counts", "log P/q"),
    "temperature": (None, None, 0.3, 5.0),
    "served": (None, None, "counts", "head"),
}


def test_no_combination_of_options_is_right_beside_a_line_that_costs_more() -> None:
    """40 drawn combinations of sampler, weights, hits, table, scores, cosines and labels served."""
    generator, counts = np.random.default_rng(0), np.array([900, 400, 200, 100, 50, 20, 10, 5])
    prior, seen = counts / counts.sum(), Counter[str]()
    truth = np.log(prior) + generator.standard_normal((40, 8))
    while seen.total() < 40:
        way: dict[str, Any] = {name: values[generator.integers(len(values))] for name, values in OPTIONS.items()}
        temperature, served, scores = (way.pop(name) for name in ("temperature", "served", "scores"))
        if way["log_q"]:
            way["log_q"] = np.log(prior[::-1])
        given = None if scores is None else truth - np.log(prior) * (scores == "log P/q")
        try:
            m, batch = (None, 4) if "cross" in way["sampler"] else (3, None)
            how = read_setup(prior, way["sampler"], way["weights"], way["hits"], m, batch, way["log_q"])
            result = audit(counts, **way, m=m, batch=batch, scores=given)
        except AuditError:
            continue  # weights and hits that this sampler does not have
        if temperature is not None:
            result = result.with_lines(cosines(prior, how, temperature))
        if served is not None:
            labels = counts if served == "counts" else np.round(2000 * prior**2 / (prior**2).sum()).astype(int)
            result = result.with_lines(drift.measure(counts, labels).line())
        seen[result.verdict] += 1
        lines = [line for line in (*result.faults, *result.more) if line.found]
        costs = max([line.nats for line in lines], default=0.0)
        if result.verdict == "right":
            assert costs < SMALL
            assert max([kl for _, kl in result.by_spread] or [result.scheme.kl]) < SMALL
        if not result.change:
            assert (result.verdict, [line.fix for line in lines]) == ("right", [""] * len(lines))
    assert min(seen["right"], seen["wrong"]) > 3


def test_log_q_is_added_or_subtracted_and_never_both() -> None:
    """Scores of a training without a correction, given as the truth: "subtract log q ...; add log q to the scores"."""
    prior = COUNTS / COUNTS.sum()
    truth = np.log(prior) + np.random.default_rng(0).standard_normal((40, 300))
    result = audit(COUNTS, batch=64, scores=truth - np.log(prior))
    assert result.sentence.startswith("scores that do not add up to the counts: ")
    assert result.change == "add log q to the scores, for this audit and when you serve them"
    how = read_setup(prior, "within-batch", "none", "keep", 63, None)
    assert result.with_lines(cosines(prior, how, 3.0)).change == result.change
    again = audit(COUNTS, batch=64, scores=truth)
    assert again.change.endswith("positive's included, or add log q to the scores that you serve, not both")
    assert audit(COUNTS, weights="relative", batch=64, scores=truth).change == ""


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_probabilities_are_not_read_as_logits_or_log_q(dtype: type) -> None:
    """They were: "the scores look like log P/q", and a table 11 nats from the right one."""
    p = np.random.default_rng(0).dirichlet(np.ones(300), 40)
    with pytest.raises(AuditError, match="probabilities; give their logarithms"):
        audit(COUNTS, m=8, scores=p.astype(dtype))
    for table in (COUNTS / COUNTS.sum(), COUNTS, np.minimum(COUNTS, 50)):
        with pytest.raises(AuditError, match="as probabilities or counts do; give their logarithms"):
            audit(COUNTS, m=8, weights="relative", log_q=table)
    audit(COUNTS, m=8, scores=np.log(p), examples=1)


def test_no_more_classes_stay_in_the_top_than_there_are() -> None:
    assert "3 of the true top 3 stay" in audit(np.array([5, 3, 2, 0]), m=4, weights="relative").lines()[1]
