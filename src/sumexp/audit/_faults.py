"""Known faults, each tested on what was given; what cannot be tested says so."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sumexp.audit._rates import Rates
from sumexp.audit._setup import Setup
from sumexp.audit._text import digits, percent
from sumexp.audit.estimates import cost

Floats = NDArray[np.float64]

DEVIATIONS = 6.0
"""Standard deviations of Pearson's statistic beyond which labels do not match the counts."""

LEAST = 1e-3
"""Nats beyond which the error of an estimate is a fault."""

CUT = 1 << 24
"""Classes beyond which float32 weights no longer add up, and torch.multinomial takes no more."""


THEOREM = "theorem on the scheme that is right for every m, chapter 'What a negative sampler optimises'"
WILD = "section 'Seen in the wild', chapter 'What a negative sampler optimises'"


CLAIMS = {THEOREM: "sumexp-consistent"}
"""Entries of the register, by source."""


@dataclass(frozen=True)
class Fault:
    """One known fault.

    Attributes:
        name: what it is.
        found: whether it is there; None where what was given cannot show it.
        says: what was seen, in one sentence.
        source: where it is proved or was met.
        claim: the entry of the book's register that proves it; empty where it was met only.
    """

    name: str
    found: bool | None
    says: str
    source: str
    claim: str = ""


def faults(
    setup: Setup,
    counts: Floats,
    rates: Rates,
    shares: tuple[Floats, Floats, int] | None,
    labels: Floats | None,
    estimated: str | None = None,
) -> tuple[Fault, ...]:
    """All of them, the most harmful first.

    Args:
        setup: the scheme.
        counts: [classes] how often each class is a label.
        rates: what the counts decide.
        shares: the shares of head, torso and tail by the counts [3], by each example's scores [examples, 3], and the
            number of examples; None without scores.
        labels: [classes] how often each class is a label among the examples; None if labels were not given.
        estimated: how the table was estimated, if it was.
    """
    prior = counts / counts.sum()
    skew = _skew(prior, setup)
    with np.errstate(invalid="ignore"):
        off = setup.table - setup.log_q if setup.table is not None else np.zeros(1)
    off = off[np.isfinite(off)]
    span = float(np.ptp(off)) if len(off) else 0.0
    slope = (
        _slope(setup) if setup.table is not None and setup.weights in ("relative", "negatives", "importance") else 1.0
    )
    alone = setup.weights in ("importance", "negatives")
    plain = setup.weights in ("none", "constant")
    lost = not setup.is_set and setup.weights == "relative" and setup.hits != "keep"
    kept = setup.is_set and setup.hits == "keep"
    order = "log-uniform" in setup.name and _unsorted(prior)
    added = (
        "log q is added to the logits: the scores end at log P - 2 log q."
        if setup.weights == "added"
        else f"your table falls as log q rises (slope {slope:.2f}): its sign is wrong."
    )
    return (
        _fault("log q added", setup.weights == "added" or slope < 0, added, WILD),
        _fault(
            "no correction", plain and skew > 0.01,
            f"negatives follow q and nothing is subtracted; log q varies by {skew:.1f} nats between classes.", THEOREM,
        ),
        _fault(
            "log q on the negatives only", alone, f"the positive's logit is not corrected: {_many(setup)}.", THEOREM,
        ),
        _fault(
            "masked hits with relative weights", lost and setup.negatives > 1,
            f"accidental hits are masked though draws are with replacement ({percent(rates.any_hit, 2)} of examples "
            "have one): "
            "keep them.",
            THEOREM,
        ),
        _fault("hits kept in a set", kept, "a set of distinct ids must leave the label out.", THEOREM),
        _fault(
            "a table of other probabilities", span > 1e-3 and estimated is None,
            f"what you subtract differs from the true log q by up to {digits(span, 2)} nats between classes"
            + (" (for a set it is the inclusion probability that counts)." if setup.is_set else "."), THEOREM,
        ),
        _estimated(prior, setup, estimated),
        _fault(
            "classes never drawn", rates.never_drawn > 0,
            f"{rates.never_drawn:,} classes with {percent(rates.never_labels, 2)} of the labels are never negatives: "
            "their scores grow forever.", WILD,
        ),
        _fault(
            "ids not sorted by frequency", order,
            "log-uniform samples low ids most often, but your counts do not decrease with the id.", WILD,
        ),
        _fault(
            "a table cut off", len(prior) > CUT,
            f"{len(prior):,} classes: torch.multinomial takes at most 2^24, and float32 sums lose rare ones well "
            "before that.", WILD,
        ),
        _counts(prior, counts, shares, labels),
    )  # fmt: skip


def _many(setup: Setup) -> str:
    """What correcting the negatives alone tends to as their number grows, with the true log q."""
    without = setup.hits != "keep"
    if (setup.weights == "importance") == without:
        return "right only in the limit of many negatives"
    if setup.weights == "importance":
        return "biased with many negatives too, since hits count the positive twice: mask them"
    return (
        "biased with many negatives too: without log m, and without hits, p (1 - p) tends to a multiple of P, and "
        "scores "
        "diverge where a class has half of P or more"
    )


def _fault(name: str, present: bool, says: str, source: str) -> Fault:
    return Fault(
        name, bool(present), says if present else "not found in what was given.", source, CLAIMS.get(source, "")
    )


def _estimated(prior: Floats, setup: Setup, estimated: str | None) -> Fault:
    name, source = "estimated q", "theorem on the scheme that is right for every m, with an error in log q"
    part = (prior > 0) & (setup.q.max(0) > 0)
    if setup.is_set or setup.table is None or not part.any():
        return Fault(name, None, "no estimate of log q was given.", source)
    delta, p = setup.table[part] - setup.log_q[part], prior[part] / prior[part].sum()
    spread = float(np.sqrt(max(0.0, p @ delta**2 - (p @ delta) ** 2)))
    nats = cost(delta, p)
    return Fault(
        name, nats >= LEAST,
        f"{estimated or 'your table'} has an error in log q of {digits(spread, 2)} nats (standard deviation over the "
        "labels). "
        f"Subtracted from every logit, with hits kept, it costs {digits(nats, 2)} nats of KL where P(y|x) is "
        "the popularity.",
        source,
        "sumexp-consistent",
    )  # fmt: skip


def _counts(prior: Floats, counts: Floats, shares: tuple[Floats, Floats, int] | None, labels: Floats | None) -> Fault:
    name, source = "counts that do not match the labels", "the law of total probability: the mean of P(y|x) is pi(y)"
    if labels is not None:
        known = float(labels[prior > 0].sum())
        z = homogeneity(labels, counts)
        return Fault(
            name, z > DEVIATIONS,
            f"Pearson's statistic of {int(labels.sum()):,} labels and the counts is {z:.1f} standard deviations "
            "above its mean; "
            f"{int(labels.sum() - known):,} of the labels belong to classes whose count is 0.", source,
        )  # fmt: skip
    if shares is None:
        return Fault(name, None, "neither labels nor scores were given.", source)
    by_counts, by_scores, examples = shares
    mean = by_scores.mean(0)
    off = int(np.abs(mean - by_counts).argmax())
    group, gap = ("head", "torso", "tail")[off], mean[off] - by_counts[off]
    if examples < 30:
        return Fault(
            name, None, f"{examples} examples are too few; give 30 or more to compare with the counts.", source
        )
    error = float(by_scores[:, off].std(ddof=1) / np.sqrt(examples))
    return Fault(
        name, abs(gap) > 5 * error and abs(gap) > 0.02,
        f"the scores give the {group} {100 * mean[off]:.1f} % of the labels, the counts {100 * by_counts[off]:.1f} % "
        f"(standard error {100 * error:.1f}).", source,
    )  # fmt: skip


def homogeneity(first: Floats, second: Floats) -> float:
    r"""By how many standard deviations Pearson's statistic of two samples of counts exceeds its mean.

    Mean and variance are exact for two samples of one law, given how often each class is there in both together; for a
    sample and what it was taken from the statistic is smaller.

    Args:
        first: [classes] whole numbers, not all 0.
        second: the same of the other sample.

    Source: Dawson, A simplified expression for the variance of the chi-squared function on a contingency table (1954).
    """
    both = first + second
    seen = both > 0
    first, both = first[seen], both[seen]
    rows, columns, total = np.array([first.sum(), both.sum() - first.sum()]), len(both), both.sum()
    if columns < 2 or total < 4:
        return 0.0
    statistic = total**2 / rows.prod() * (((first - rows[0] * both / total) ** 2 / both).sum())
    v1, v2 = (total - 2) / (total - 1), (columns - 1) * (total - columns) / (total - 1)
    w1 = (total * (1 / rows).sum() - 4) / (total - 2)
    w2 = (total * (1 / both).sum() - columns**2) / (total - 2)
    variance = 2 * total / (total - 3) * (v1 - w1) * (v2 - w2) + total**2 / (total - 1) * w1 * w2
    mean = total / (total - 1) * (columns - 1)
    return float((statistic - mean) / np.sqrt(variance)) if variance > 0 else 0.0


def _skew(prior: Floats, setup: Setup) -> float:
    log_q = setup.log_q[(prior > 0) & (setup.q.max(0) > 0)]
    return float(np.ptp(log_q)) if len(log_q) else 0.0


def _slope(setup: Setup) -> float:
    """The slope of the user's table on the true log q."""
    x, y = setup.log_q, setup.table
    assert y is not None
    part = np.isfinite(x) & np.isfinite(y)
    x, y = x[part] - x[part].mean(), y[part] - y[part].mean()
    return float(x @ y / (x @ x)) if x @ x > 1e-12 else 1.0


def _unsorted(prior: Floats) -> bool:
    """Whether the order of the ids costs more than .05 nats of the labels' cross entropy to a log-uniform law."""
    log_q = np.log(np.log1p(1 / np.arange(1.0, len(prior) + 1)))
    return bool((np.sort(prior)[::-1] - prior) @ log_q > 0.05)
