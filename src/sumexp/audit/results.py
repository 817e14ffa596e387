"""What an audit found: frozen, readable when printed, and as plain values for JSON."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from textwrap import fill, wrap
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sumexp.audit._advice import Advice
from sumexp.audit._effects import GROUPS, Effect
from sumexp.audit._faults import Fault
from sumexp.audit._rates import RankBound, Rates
from sumexp.audit._text import digits, nats, percent, signed
from sumexp.audit.choice import Choice
from sumexp.audit.drift import LINE, Drift
from sumexp.audit.evaluation import Evaluation
from sumexp.audit.serving import Bounded

Floats = NDArray[np.float64]

SMALL = 0.01
"""Nats of divergence below which a minimum is called right: a perplexity one per cent off."""

WIDTH = 84
"""Of what is printed: it fits the column of a notebook's page and half a screen."""

Verdict = Literal["right", "wrong", "cannot tell"]


@dataclass(frozen=True)
class Row:
    """A scheme, over the examples: means, and standard errors of the divergence where there are several.

    Attributes:
        title: the scheme.
        kl: divergence of what is learned from the truth, nats; infinite where a class is never drawn.
        kl_error: its standard error over the examples, or what halving the bins' width still moved, if more.
        gap: the sampled loss at the truth less its least value, nats.
        shift: error of the scores of head, torso and tail, each class counted once, nats.
        weighted: the same, weighted by P.
        truth: true shares of the groups.
        learned: learned shares.
        inside: divergence inside each group, nats.
        displaced: probability that is learned where it is not, or not where it is, in each group.
        overlap: classes of the true top 10 that are learned so.
        loss: mean sampled loss at the true scores, nats.
        deviation: its standard deviation over samples, nats.
        noise: standard deviation of the gradient in the logits over samples.
        weight: gradient weight on the negatives of each group.
        full_weight: the same of the full softmax.
    """

    title: str
    kl: float
    kl_error: float
    gap: float
    shift: tuple[float, ...]
    weighted: tuple[float, ...]
    truth: tuple[float, ...]
    learned: tuple[float, ...]
    inside: tuple[float, ...]
    displaced: tuple[float, ...]
    overlap: float
    loss: float
    deviation: float
    noise: float
    weight: tuple[float, ...]
    full_weight: tuple[float, ...]


def row(title: str, effects: list[Effect]) -> Row:
    """The means over examples."""

    def mean(values: list[float]) -> float:
        return float(np.mean(values))

    def each(values: list[Floats]) -> tuple[float, ...]:
        return tuple(float(x) for x in np.mean(values, axis=0))

    kls = [math.inf if e.unbounded > 0 else e.kl for e in effects]
    many = len(kls) > 1 and math.isfinite(sum(kls))
    error = float(np.std(kls, ddof=1) / math.sqrt(len(kls))) if many else 0.0
    return Row(
        title, mean(kls), max(error, mean([e.kl_error for e in effects])), mean([e.gap for e in effects]),
        each([e.items for e in effects]), each([e.shift for e in effects]), each([e.truth for e in effects]),
        each([e.learned for e in effects]), each([e.inside for e in effects]), each([e.displaced for e in effects]),
        mean([e.overlap for e in effects]),
        mean([e.at_truth.loss for e in effects]), mean([e.at_truth.deviation for e in effects]),
        mean([e.at_truth.noise for e in effects]), each([e.at_truth.weight for e in effects]),
        each([e.at_truth.full_weight for e in effects]),
    )  # fmt: skip


@dataclass(frozen=True)
class Audit:
    """The result of :func:`sumexp.audit.audit`; nats where nothing else is said.

    Attributes:
        verdict: whether the minimum is the truth, within .01 nats; "cannot tell" where it depends on P(y|x).
        sentence: the verdict in one sentence.
        classes: number of classes.
        labels: number of counted labels.
        negatives: of one example, expected where it is random.
        asked: the number that was given: of draws, where repetitions are removed.
        source: what stands for the truth: scores, or an assumed spread.
        spread: of log P(y|x)/pi(y), in nats.
        scheme: the reader's.
        alternatives: others, at the same number of negatives.
        by_spread: spread and divergence, where no scores were given.
        by_m: number of negatives (of draws, where repetitions are removed) and divergence, of the first example.
        loss_by_m: the same numbers, with the mean sampled loss at the truth less the full loss, and its deviation.
        gradient_by_m: the same numbers, with the length of the mean gradient in the scores at the truth, where the full
            loss has none, and the root of its summed variance, of one training example.
        rates: accidental hits.
        one_per_cent: draws from which importance weights' mean loss is within 1 % of the full loss; of distinct ids
            their number; None if over 2^24, for sets 2^14.
        full_loss: the full cross entropy at the truth.
        certificate: what InfoNCE can certify, nats of mutual information.
        rank_bound: whether the loss bounds the log rank.
        faults: those known.
        advice: what to change.
        curve: mean frequency, error of the score, and share of P, of each bin of the first example.
        served: which scores to serve for which metric; empty where the minimum is neither log P nor log P/q.
        assumptions: what all of it rests on.
        choice: what to use for these numbers.
        evaluation: what metrics among sampled candidates leave open, if any were given.
        draws: whether negatives are draws with replacement, and not a set.
        drift: how the labels served, or those of examples, differ from the counts, if any were given.
        bounded: what cosines over a temperature can hold, if that was asked.
    """

    verdict: Verdict
    sentence: str
    classes: int
    labels: int
    negatives: float
    asked: int
    source: str
    spread: float
    scheme: Row
    alternatives: tuple[Row, ...]
    by_spread: tuple[tuple[float, float], ...]
    by_m: tuple[tuple[int, float], ...]
    loss_by_m: tuple[tuple[int, float, float], ...]
    gradient_by_m: tuple[tuple[int, float, float], ...]
    rates: Rates
    one_per_cent: int | None
    full_loss: float
    certificate: float
    rank_bound: RankBound
    faults: tuple[Fault, ...]
    advice: Advice
    curve: tuple[tuple[float, float, float], ...]
    served: str
    assumptions: tuple[str, ...]
    choice: Choice | None = None
    evaluation: Evaluation | None = None
    draws: bool = True
    drift: Drift | None = None
    bounded: Bounded | None = None

    def lines(self) -> tuple[str, ...]:
        """The five lines that matter, and one more each for drift and for cosines."""
        s = self.scheme
        shares = ", ".join(f"{g} {signed(x)}" for g, x in zip(GROUPS, s.shift, strict=True))
        names = [f.name for f in self.faults if f.found]
        change = self.advice.change
        price = f" ({noise(self.advice.variance)})" if change and self.advice.variance > 0 else ""
        more = (("drift", self.drift), ("bounded", self.bounded))
        drifts = self.drift is not None and self.drift.found
        advised = f"{change}{price}" if change else f"change nothing{' in training' if drifts else ''}"
        served = f"; if you serve labels like those given, add {LINE} to the scores" if drifts else ""
        return (
            f"{self.verdict.capitalize()}: {self.sentence}{'; for labels as they were counted' if drifts else ''}",
            f"minimum   {nats(s.kl)} nats of KL from the truth (0 is best), where the loss is {nats(s.gap)} nats "
            "lower than "
            f"at the truth; {s.overlap:.3g} of the true top 10 stay there; scores too high (+) or too low (-): "
            f"{shares} nats",
            f"negatives {digits(self.negatives, 6)} per example, {percent(self.rates.any_hit, 2)} of examples with an "
            "accidental "
            f"hit; InfoNCE certifies at most {self.certificate:.2f} nats of mutual information",
            f"faults    {'; '.join(names) if names else 'no known fault found'}",
            *(f"{name:10s}{value}" for name, value in more if value is not None),
            f"advice    {advised}{served}",
        )

    def __str__(self) -> str:
        head = f"{self.classes:,} classes, {self.labels:,} labels; {self.scheme.title}; truth: {self.source}"
        lines = [*map(folded, (head, *self.lines())), "", *_schemes((self.scheme, *self.alternatives)), ""]
        if self.by_spread:
            spreads = "   ".join(f"{s:g}: {nats(k)}" for s, k in self.by_spread)
            lines += [f"KL (nats) by spread of log P(y|x)/pi(y):   {spreads}", ""]
        if self.evaluation is not None:
            evaluation = self.evaluation
            lines += [
                folded(f"full-catalogue metrics compatible with yours on {evaluation.among}: {evaluation.ends}"),
                "",
            ]
        if self.by_m:
            lines += [*_numbers(self.by_m, self.loss_by_m, self.gradient_by_m), ""]
        if self.choice is not None:
            lines += [folded(f"recommended for these numbers: {self.choice.use}; {self.choice.because}"), ""]
        faults = [folded(f"fault     {f.name}: {f.says}") for f in self.faults if f.found]
        lines += [*faults, ""] if faults else []
        if self.served:
            lines += [folded(f"served    {self.served}"), ""]
        if self.drift is not None and self.drift.found:
            lines += [*self.drift.lines.splitlines(), ""]
        return "\n".join([*lines, *(folded(f"assumed   {a}") for a in self.assumptions)])

    def plain(self) -> dict[str, object]:
        """All of it as plain values, for JSON; what is infinite or no number is null."""
        return {name: _plain(value) for name, value in asdict(self).items()}


def folded(line: str, indent: int = 10) -> str:
    """A line, folded where it is longer than `WIDTH`; what goes on is indented."""
    return line if len(line) <= WIDTH else fill(line, WIDTH, subsequent_indent=" " * indent, break_long_words=False)


def _schemes(rows: Sequence[Row]) -> list[str]:
    """A line of numbers for each scheme; a long title takes several lines."""
    lines = [f"{'scheme':28s} {'KL':>9s} {'loss':>8s} {'head':>7s} {'torso':>7s} {'tail':>7s} {'top10':>5s} noise"]
    for each in rows:
        first, *rest = wrap(each.title, 28, subsequent_indent="  ")
        shift = " ".join(f"{signed(x):>7s}" for x in each.shift)
        numbers = f"{nats(each.kl):>9s} {nats(each.gap):>8s} {shift} {each.overlap:5.3g} {each.noise:5.3f}"
        lines += [f"{first:28s} {numbers}", *rest]
    return lines


def _numbers(
    kls: Sequence[tuple[int, float]], losses: Sequence[Sequence[float]], gradients: Sequence[Sequence[float]]
) -> list[str]:
    """What other numbers of negatives give, of the first example: mean and deviation of loss and gradient."""
    lines = ["negatives        KL    loss minus full loss, at the truth     gradient at the truth"]
    for (m, kl), (_, bias, deviation), (_, pull, noise) in zip(kls, losses, gradients, strict=True):
        loss = f"{nats(bias):>22s} ± {digits(deviation, 2):<15s}"
        lines.append(f"{m:9,} {nats(kl):>9s} {loss} {nats(pull):>12s} ± {digits(noise, 2)}")
    return lines


def noise(ratio: float) -> str:
    """The gradient noise after a change relative to today's, in words that say which side is worse."""
    side = "noisier" if ratio > 1.005 else "less noisy" if ratio < 0.995 else "as noisy as now"
    return f"gradient noise {digits(ratio, 2)} times that of today: {side}"


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {key: _plain(x) for key, x in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(x) for x in value]
    if isinstance(value, np.ndarray):
        return [_plain(x) for x in value.tolist()]
    return None if isinstance(value, float) and not math.isfinite(value) else value
