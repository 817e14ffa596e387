"""The result of an audit: its lines, one verdict from all of them, and plain values for JSON."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from textwrap import fill, wrap
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sumexp.audit._effects import GROUPS, Effect
from sumexp.audit._setup import Rates
from sumexp.audit._text import digits, nats, percent, signed

Floats = NDArray[np.float64]

SMALL = 0.01
"""Nats of divergence below which a minimum is right: one per cent of perplexity."""

WIDTH = 84
"""Width of the printed text: it fits a notebook's page and half a screen."""

Verdict = Literal["right", "wrong", "cannot tell"]


@dataclass(frozen=True)
class Line:
    """A line of an audit, such as a fault or a drift.

    Attributes:
        name: its first words.
        found: whether the fault is present; None if the input cannot show it.
        says: one sentence.
        fix: the change, if it is found.
        nats: its cost as a divergence, or an upper bound; 0 without a cost.
        sure: whether the cost is not only an upper bound.
        source: the theorem, or the place in the book.
        code: lines of code for the fix.
        instead: whether the fix replaces the change of the scheme.
    """

    name: str
    found: bool | None
    says: str
    fix: str = ""
    nats: float = 0.0
    sure: bool = True
    source: str = ""
    code: str = ""
    instead: bool = False


@dataclass(frozen=True)
class Row:
    """A scheme: means over the examples, and the standard error of the divergence.

    Attributes:
        title: the scheme.
        kl: divergence of the learned law from the truth, nats; infinite if a label is never drawn.
        kl_error: its standard error over the examples, or its change at the last doubling of the bins, if larger.
        gap: the sampled loss at the truth minus its minimum, nats; NaN for named losses.
        shift: error of the scores of head, torso and tail, each class counted once, nats.
        truth: true shares of the groups.
        learned: learned shares.
        displaced: misplaced probability in each group.
        overlap: number of classes of the true top 10 among the learned top 10.
        loss: mean sampled loss at the true scores, nats; NaN for named losses.
        deviation: its standard deviation over samples, nats; NaN for named losses.
    """

    title: str
    kl: float
    kl_error: float
    gap: float
    shift: tuple[float, ...]
    truth: tuple[float, ...]
    learned: tuple[float, ...]
    displaced: tuple[float, ...]
    overlap: float
    loss: float
    deviation: float


def row(title: str, effects: Sequence[Effect]) -> Row:
    """The means over examples."""

    def each(values: list[Floats]) -> tuple[float, ...]:
        return tuple(float(x) for x in np.mean(values, axis=0))

    kls = [math.inf if e.unbounded > 0 else e.kl for e in effects]
    error = float(np.std(kls, ddof=1) / math.sqrt(len(kls))) if len(kls) > 1 and math.isfinite(sum(kls)) else 0.0
    numbers = np.array(
        [[k, e.kl_error, e.gap, e.overlap, e.loss, e.deviation] for k, e in zip(kls, effects, strict=True)]
    )
    kl, moved, gap, overlap, loss, deviation = numbers.mean(0).tolist()
    return Row(
        title, kl, max(error, moved), gap, each([e.items for e in effects]),
        each([e.truth for e in effects]), each([e.learned for e in effects]), each([e.displaced for e in effects]),
        overlap, loss, deviation,
    )  # fmt: skip


class ByNumber(NamedTuple):
    """The results for a number of negatives.

    Attributes:
        m: the number; of draws, where repetitions are removed.
        kl: divergence at the minimum, nats.
        loss: mean sampled loss at the true scores minus the full loss there, nats.
        deviation: standard deviation of the sampled loss there, nats.
    """

    m: int
    kl: float
    loss: float
    deviation: float


class Decision(NamedTuple):
    """The verdict, why, and what to change (empty for nothing)."""

    verdict: Verdict
    sentence: str
    change: str


@dataclass(frozen=True)
class Audit:
    """The result of :func:`sumexp.audit.audit`; nats unless stated otherwise.

    Attributes:
        classes: number of classes.
        labels: number of counted labels.
        labelled: number of classes with a label.
        negatives: per example; the expected number if it is random.
        source: of the truth: scores, or an assumed spread.
        spread: of log P(y|x)/pi(y).
        proved: whether a theorem says that the minimum is the truth, for every truth.
        remedy: the change of the scheme; empty if the scheme is the theorem's.
        scheme: the user's.
        alternatives: other schemes with the same number of negatives.
        by_spread: spread and divergence, without scores.
        numbers: divergence and loss for other numbers of negatives, of the first example.
        rates: accidental hits.
        faults: the known ones.
        curve: mean frequency, error of the score, and share of P, of each bin of the first example.
        served: the scores to serve by metric; empty if nothing exact is known.
        assumptions: of the whole.
        more: lines of other calls: drift, cosines, sampled metrics.
    """

    classes: int
    labels: int
    labelled: int
    negatives: float
    source: str
    spread: float
    proved: bool
    remedy: str
    scheme: Row
    alternatives: tuple[Row, ...]
    by_spread: tuple[tuple[float, float], ...]
    numbers: tuple[ByNumber, ...]
    rates: Rates
    faults: tuple[Line, ...]
    curve: tuple[tuple[float, float, float], ...]
    served: str
    assumptions: tuple[str, ...]
    more: tuple[Line, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Whether training converges to the truth within .01 nats; "cannot tell" if that depends on P(y|x)."""
        return decide(self).verdict

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        return decide(self).sentence

    @property
    def change(self) -> str:
        """The change; empty for none."""
        return decide(self).change

    def with_lines(self, *lines: Line) -> "Audit":
        """The same audit with the lines of other calls, which its verdict and advice take into account."""
        return replace(self, more=(*self.more, *lines))

    def lines(self) -> tuple[str, ...]:
        """Five lines, and one for each other call."""
        s, decision = self.scheme, decide(self)
        shares = ", ".join(f"{g} {signed(x)}" for g, x in zip(GROUPS, s.shift, strict=True))
        gap = "" if math.isnan(s.gap) else f", where the loss is {nats(s.gap)} nats lower than at the truth"
        error = f" ± {nats(s.kl_error)}" if s.kl_error > max(1e-3, 0.05 * s.kl) else ""
        names = "; ".join(f.name for f in self.faults if f.found) or "no known fault found"
        unseen = "".join(f"; not tested: {f.name}, {f.says}" for f in self.faults if f.found is None)
        return (
            f"{decision.verdict.capitalize()}: {decision.sentence}",
            f"minimum   {nats(s.kl)}{error} nats of KL from the truth (0 is best){gap}; {s.overlap:.3g} of the "
            f"true top {min(10, self.labelled)} stay there; scores too high (+) or too low (-): {shares} nats",
            f"negatives {digits(self.negatives, 6)} per example, {percent(self.rates.any_hit, 2)} of examples with an "
            "accidental hit",
            f"faults    {names}{unseen}",
            *(f"{line.name:9s} {line.says}" for line in self.more),
            f"advice    {decision.change or 'change nothing'}",
        )

    @property
    def short(self) -> str:
        """What was audited, and :meth:`lines`, folded."""
        head = f"audited   {self.classes:,} classes, {self.labels:,} labels; {self.scheme.title}; truth: {self.source}"
        return "\n".join(map(folded, (head, *self.lines())))

    def __str__(self) -> str:
        lines = [self.short, "", *_schemes((self.scheme, *self.alternatives)), ""]
        if self.by_spread:
            spreads = "   ".join(f"{s:g}: {nats(k)}" for s, k in self.by_spread)
            lines += [f"KL (nats) by spread of log P(y|x)/pi(y):   {spreads}", ""]
        if self.numbers:
            lines += [*_numbers(self.numbers), ""]
        faults = [folded(f"fault     {f.name}: {f.says} ({f.source})") for f in self.faults if f.found]
        lines += [*faults, ""] if faults else []
        if self.served:
            lines += [folded(f"served    {self.served}"), ""]
        for line in self.more:
            lines += [*line.code.splitlines(), ""] if line.found and line.code else []
        return "\n".join([*lines, *(folded(f"assumed   {a}") for a in self.assumptions)])

    def plain(self) -> dict[str, object]:
        """All of it as plain values, for JSON; NaN and infinite numbers are null."""
        return {name: _plain(value) for name, value in (decide(self)._asdict() | asdict(self)).items()}


def decide(audit: Audit) -> Decision:
    """The one verdict, from every line of the output.

    It is right only if the minimum is within :data:`SMALL` of every truth tried, and no line found costs more. The
    advice is "change nothing" only if it is right and no line found has a fix. Of the fixes that replace the change of
    the scheme the first stands alone: each adds or subtracts log q, and that is done once.
    """
    lines = [line for line in (*audit.faults, *audit.more) if line.found]

    def price(line: Line) -> tuple[bool, bool, float]:
        return line in audit.faults, line.sure, line.nats

    costly = max((line for line in lines if line.nats >= SMALL), key=price, default=None)
    kls = [kl for _, kl in audit.by_spread] or [audit.scheme.kl]
    ends_right = max(kls) < SMALL
    instead = next((line for line in lines if line.instead), None)
    steps = [line.fix for line in lines if line.fix and (line is instead or not line.instead)]
    if not ends_right and audit.remedy and instead is None:
        steps.insert(0, audit.remedy)
    change = "; ".join(dict.fromkeys(steps))
    if costly is not None and (ends_right or costly in audit.faults):
        but = f"; the loss by itself converges to the truth ({nats(max(kls))})" * ends_right
        size = f"{'' if costly.sure else 'up to '}{nats(costly.nats)} nats of KL"
        reason = f"{costly.name}: {costly.says}" if costly in audit.faults else f"the line {costly.name!r} costs {size}"
        return Decision("wrong" if costly.sure else "cannot tell", reason + but, change)
    if ends_right:
        limited = bool(audit.by_spread) and not audit.proved
        at = f" for spreads of log P/pi up to {audit.by_spread[-1][0]:g} nats" if limited else ""
        reason = f"the loss converges to the truth within {SMALL:g} nats of KL{at} ({nats(max(kls))})"
        return Decision("right", reason, change)
    if min(kls) >= SMALL or (costly is not None and costly.sure):
        return Decision("wrong", _misplaced(audit), change)
    least = min(s for s, kl in audit.by_spread if kl >= SMALL)
    return Decision(
        "cannot tell",
        f"counts alone do not decide, give scores; KL from the truth is {nats(min(kls))} to {nats(max(kls))} nats for "
        f"spreads of log P/pi up to {audit.by_spread[-1][0]:g} nats, and above {SMALL:g} from {least:g} on",
        change,
    )


def _misplaced(audit: Audit) -> str:
    """Which group has the wrong probability."""
    s = audit.scheme
    moved = max(range(3), key=lambda g: s.displaced[g])
    name, flow = ("frequent", "middling", "rare")[moved], abs(s.learned[moved] - s.truth[moved])
    where = f" if log P/pi has a spread of {audit.spread:g} nats" if audit.by_spread else ""
    if flow >= s.displaced[moved]:
        learned, true = percent(s.learned[moved]), percent(s.truth[moved])
        return f"{name} items get {learned} of the probability instead of {true}{where}"
    share = percent(s.displaced[moved], 2)
    return f"the error is largest among {name} items, where {share} of P is misplaced{where}"


def folded(line: str, indent: int = 10) -> str:
    """A line, folded at `WIDTH` with an indent."""
    return line if len(line) <= WIDTH else fill(line, WIDTH, subsequent_indent=" " * indent, break_long_words=False)


def _schemes(rows: Sequence[Row]) -> list[str]:
    """The table of schemes; a long title takes several lines."""
    lines = [
        "in nats: KL from the truth; loss at the truth minus the least; errors of scores",
        f"{'scheme':32s} {'KL':>9s} {'loss':>8s} {'head':>7s} {'torso':>7s} {'tail':>7s} {'top10':>5s}",
    ]
    for each in rows:
        first, *rest = wrap(each.title, 32, subsequent_indent="  ")
        shift = " ".join(f"{signed(x):>7s}" for x in each.shift)
        gap = "" if math.isnan(each.gap) else nats(each.gap)
        lines += [f"{first:32s} {nats(each.kl):>9s} {gap:>8s} {shift} {each.overlap:5.3g}", *rest]
    return lines


def _numbers(numbers: Sequence[ByNumber]) -> list[str]:
    """The table of numbers of negatives, of the first example."""
    lines = ["negatives        KL    loss minus full loss, at the truth ± over negatives (nats)"]
    for m, kl, loss, deviation in numbers:
        lines.append(f"{m:9,} {nats(kl):>9s} {nats(loss):>22s} ± {digits(deviation, 2)}")
    return lines


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {key: _plain(x) for key, x in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(x) for x in value]
    if isinstance(value, np.ndarray):
        return [_plain(x) for x in value.tolist()]
    return None if isinstance(value, float) and not math.isfinite(value) else value
