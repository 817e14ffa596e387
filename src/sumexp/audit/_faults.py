"""Known faults, each tested on the input; a line says so if the input cannot show it."""

import math

import numpy as np
import torch
from numpy.typing import NDArray

from sumexp.audit._effects import GROUPS
from sumexp.audit._setup import Rates, Setup, Weights
from sumexp.audit._text import digits, percent
from sumexp.audit.results import SMALL, Line
from sumexp.negatives import estimated
from sumexp.samplers import Hits

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

THEOREM = "sumexp-consistent in the book's register: the scheme that is right for every m"
WILD = "section 'Seen in the wild', chapter 'Negative sampling: the logQ correction'"
TOTAL = "the law of total probability: the mean of P(y|x) is pi(y)"

FEW = 30
"""The least number of examples whose shares are compared with the counts."""

OFF = {
    "draws": "subtract the true log q from every logit, the positive's included",
    "union": "subtract the log inclusion probability from every logit, the positive's included",
    "distinct": "subtract log(1 - exp(-qT)) from every logit, the positive's included, where T is the time of the next "
    "arrival among the others (samplers.distinct)",
}
"""What to subtract, by kind of negatives."""


def right_way(setup: Setup) -> tuple[Weights, Hits]:
    """The weights and the rule for hits that make the minimum right for these negatives."""
    if setup.kind == "distinct":
        return "arrival", "mask"
    return "relative", "mask" if setup.kind == "union" else "keep"


def remedy(setup: Setup) -> str:
    """The change of the scheme that makes its minimum the truth."""
    weights, hits = right_way(setup)
    if (setup.weights, setup.hits, setup.kind, len(setup.m)) == ("none", "keep", "draws", 1):  # it ends at log P/q
        return f"{OFF['draws']}, or add log q to the scores that you serve, not both"
    steps = []
    if setup.weights != weights or setup.table is not None:
        steps.append(OFF[setup.kind])
    if setup.hits != hits:
        steps.append(f"{hits} accidental hits")
    if not steps and setup.kind == "union":
        steps.append("keep repetitions, subtract log q from every logit and keep accidental hits")
    if not steps and len(setup.m) > 1:
        steps.append("choose the pool of each negative by a coin flip, and subtract the mixture's log q")
    return "; ".join(steps)


def faults(
    setup: Setup, prior: Floats, group: Integers, rates: Rates, laws: Floats | None, right: bool
) -> tuple[Line, ...]:
    """All known faults, the most harmful first; ``right`` if the minimum is the truth within the limit.

    ``group`` [classes] is head, torso or tail; ``laws`` [examples, classes] are those by the scores, None without.
    """
    drawn = (prior > 0) & (setup.q.max(0) > 0)
    log_q = setup.log_q[drawn]
    given = log_q if setup.table is None else setup.table[drawn]
    off, skew = given - log_q, float(np.ptp(log_q))
    span = float(np.ptp(off))
    turned = setup.weights != "added" and float(np.ptp(given + log_q)) < span / 2
    added = (
        "your table falls as log q rises: its sign is wrong"
        if turned
        else "log q is added to the logits: the scores end at log P - 2 log q"
    )
    table = f"what you subtract differs from the true log q by up to {digits(span, 2)} nats between classes"
    if setup.is_set:
        table += "; for a set it is the inclusion probability that counts"
    elif setup.table is not None and setup.weights == "relative" and setup.hits == "keep":
        log_p, law = np.log(prior[drawn] / prior[drawn].sum()), log_q - np.logaddexp.reduce(log_q)
        nats = estimated.cost(*(torch.from_numpy(x) for x in (log_p, law, law + off))).item()
        table += f"; it costs {digits(nats, 2)} nats of KL where P(y|x) is the popularity"
    wrong, left_out = not right, "masked" if setup.hits == "mask" else "drawn again"
    return (
        _line("log q added", wrong and (setup.weights == "added" or turned), added, WILD),
        _line(
            "no correction", wrong and setup.weights in ("none", "constant") and skew > SMALL,
            f"negatives follow q and nothing is subtracted; log q varies by {skew:.1f} nats between classes", THEOREM,
        ),
        _line(
            "log q on the negatives only", wrong and setup.weights in ("importance", "negatives"),
            f"the positive's logit is not corrected: {_many(setup)}", THEOREM,
        ),
        _line(
            "hits left out with relative weights",
            wrong and not setup.is_set and setup.weights == "relative" and setup.hits != "keep",
            f"accidental hits are {left_out} though draws are with replacement ({percent(rates.any_hit, 2)} of "
            "examples have one)", THEOREM,
        ),
        _line("hits kept in a set", wrong and setup.is_set and setup.hits == "keep",
              "a set of distinct ids must leave the label out", THEOREM),
        _line("a table of other probabilities", wrong and span > SMALL and not turned, table, THEOREM),
        _line(
            "classes never drawn", rates.never_drawn > 0,
            f"{rates.never_drawn:,} classes with {percent(rates.never_labels, 2)} of the labels are never negatives, "
            "so their scores grow forever", WILD, math.inf,
            "add a few uniform negatives, with the mixture's log q, so that every class can be drawn",
        ),
        _scores(setup, prior, group, laws),
    )  # fmt: skip


def _line(name: str, present: bool, says: str, source: str, nats: float = 0.0, fix: str = "") -> Line:
    text = says if present else "not found in the input"
    return Line(name, present, text, fix, nats if present else 0.0, source=source)


def _many(setup: Setup) -> str:
    """The limit of correcting the negatives alone, with the true log q, as their number grows."""
    if (setup.weights == "importance") == (setup.hits != "keep"):
        return "right only in the limit of many negatives"
    if setup.weights == "importance":
        return "biased with many negatives too, since hits count the positive twice"
    return (
        "biased with many negatives too: without log m, and without hits, p (1 - p) tends to a multiple of P, and "
        "scores diverge where a class has half of P or more"
    )


def _scores(setup: Setup, prior: Floats, group: Integers, laws: Floats | None) -> Line:
    """Whether the scores' mean probabilities of head, torso and tail agree with the counts, and which differs most."""
    name = "scores that do not add up to the counts"
    if laws is None:
        return Line(name, None, "no scores were given", source=TOTAL)
    if len(laws) < FEW:
        return Line(name, None, f"{len(laws)} examples are too few; give {FEW} or more", source=TOTAL)
    part = (group >= 0) & (setup.q.max(0) > 0)
    pi, q, member = prior[part], np.exp(setup.log_q[part]), np.eye(3)[group[part]]
    p = laws[:, part] / laws[:, group >= 0].sum(1, keepdims=True)
    by_counts, by_scores, mean = pi @ member, p @ member, p.mean(0) @ member
    off = int(np.abs(mean - by_counts).argmax())
    error = float(by_scores[:, off].std(ddof=1) / math.sqrt(len(by_scores)))
    gap = abs(float(mean[off] - by_counts[off]))
    if not gap > max(5 * error, 0.02):
        return Line(name, False, "not found in the input", source=TOTAL)
    says = f"the scores give the {GROUPS[off]} {percent(mean[off])} of the labels, the counts {percent(by_counts[off])}"
    fix = "check that counts and scores belong to the same labels"
    gap = min(gap, np.abs((p / p.sum(1, keepdims=True)).mean(0) @ member * pi.sum() - by_counts).max())
    for change, looks, factor in (("add log q to", "log P/q", q), ("subtract log q from", "log P + log q", 1 / q)):
        law = p * factor
        law *= pi.sum() / law.sum(1, keepdims=True)
        if max(np.abs(law.mean(0) @ member - by_counts).max(), _above(law, pi)) < gap / 2:
            says += f"; they look like {looks}: {change} them, and it is {percent((law.mean(0) @ member)[off])}"
            fix = f"{change} the scores, for this audit and when you serve them"
    with np.errstate(divide="ignore", invalid="ignore"):
        nats = float((np.where(by_counts > 0, by_counts * np.log(by_counts / mean), 0.0) - by_counts + mean).sum())
    return Line(name, True, says, fix, nats, source=TOTAL, instead=nats >= SMALL)  # all numbers rest on them


def _above(law: Floats, pi: Floats) -> float:
    """By how much the examples give more than the counts to the classes to which their other half does.

    In the mean it is 0 where the law adds up to the counts, class by class, and not where ids belong to other classes.
    """
    more = [law[half::2].mean(0) > pi for half in (1, 0)]
    return float(np.mean([(law[half::2].mean(0) - pi) @ more[half] for half in (0, 1)]))
