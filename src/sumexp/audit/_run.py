"""The audit: from counts, a scheme and perhaps scores to what training ends at."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sumexp.audit import _rows as tables
from sumexp.audit._advice import advice, remedy
from sumexp.audit._arguments import Numbers, as_array, as_counts, as_scores, label_counts, serving_counts, whole_number
from sumexp.audit._effects import Truth, effect
from sumexp.audit._faults import faults
from sumexp.audit._numbers import by_number, one_per_cent
from sumexp.audit._rates import Rates, certificate, rank_bound, rates
from sumexp.audit._rows import Rows
from sumexp.audit._setup import AuditError, Law, Setup, Weights, law_of, read_setup
from sumexp.audit._text import nats, percent
from sumexp.audit.choice import Choice, Means, choose
from sumexp.audit.drift import measure
from sumexp.audit.estimates import estimate
from sumexp.audit.evaluation import Evaluation, fitting
from sumexp.audit.results import SMALL, Audit, Row, Verdict, row
from sumexp.audit.serving import bounded, served
from sumexp.samplers import Hits

Floats = NDArray[np.float64]
Result = TypeVar("Result")

SPREADS = (0.0, 1.0, 2.0, 3.0)
"""Assumed spreads of log P(y|x)/pi(y), in nats."""

SHOWN = 2.0
"""The spread at which everything is shown where no scores are given."""


def audit(
    counts: Numbers,
    *,
    sampler: Law = "within-batch",
    weights: Weights = "none",
    hits: Hits = "keep",
    m: int | None = None,
    batch: int | None = None,
    scores: Numbers | tuple[Numbers, Numbers] | None = None,
    log_q: Numbers | str | None = None,
    estimated: str | None = None,
    temperature: float | None = None,
    labels: Numbers | None = None,
    serving: Numbers | None = None,
    cosine: bool = False,
    sampled: Mapping[str, float] | None = None,
    candidates: int = 100,
    candidates_from: Law = "uniform",
    examples: int = 4,
    seed: int = 0,
    memory: int = 1 << 30,
) -> Audit:
    r"""What training with these sampled negatives ends at: its exact minimum against the truth, and what to change.

    The minimum is that of the expected loss over free scores at one x, by the integral of
    `sumexp.negatives.consistency` for every label at once. It depends on :math:`P(y\mid x)`: with ``scores`` the truth
    is their softmax; without them it is assumed, and where the answer depends on the assumption the verdict is
    "cannot tell".

    Args:
        counts: [classes] how often each class is a label, whole numbers.
        sampler: a name (``uniform``, ``log-uniform``, ``unigram:0.75``, ``within-batch``, ``within-batch-union``,
            ``mixed``, ``cross-batch:KEPT``, ``cross-device:DEVICES``, ``union:LAW``, ``distinct:LAW``), a law
            [classes], an object with ``classes`` and ``log_prob``, or a function of ids to log q.
        weights: ``none``, ``constant``, ``importance``, ``negatives``, ``relative``, ``added``, ``tail``, ``arrival``,
            ``tries``.
        hits: draws of the label are kept, masked or redrawn.
        m: negatives of an example; for ``mixed`` the uniform ones, in addition to those of the batch.
        batch: examples of a batch (on one device); ``within-batch`` takes m = batch - 1 from it, ``cross-batch`` adds
            the items kept from earlier batches, ``cross-device`` the batches of the other devices.
        scores: [examples, classes] logits, or embeddings ([examples, d], [classes, d]), whose softmax is P(y|x).
        log_q: [classes] what is subtracted, if it is not the sampler's own; ``"multiset"`` for the law of one draw
            where repetitions are removed.
        estimated: how log q is estimated from the stream of labels, if it is: ``count-min:WIDTH,DEPTH``,
            ``decayed:RATE``, ``gaps:RATE`` or ``clipped:LEAST``, see :func:`sumexp.audit.estimates.estimate`.
        temperature: the scores are divided by it, 1 if not given; without scores it needs ``cosine``.
        labels: classes of some training examples, to compare with the counts: another law is a fault.
        serving: [classes or more] how often each class is a label where the model is served: another law is a drift,
            see :mod:`sumexp.audit.drift`; entries beyond ``counts`` are classes that training never had.
        cosine: whether the scores that are trained are cosines over a temperature: which temperatures can hold the
            counts, see :mod:`sumexp.audit.serving`.
        sampled: metrics among sampled candidates as they were reported, as in ``{"recall@10": 0.7}``.
        candidates: candidates of that evaluation, drawn in addition to the positive.
        candidates_from: what they are drawn from, like ``sampler``; of names those whose draws are independent.
        examples: at most so many of the scores' examples are audited, the first ones.
        seed: of the assumed truths.
        memory: bytes for a step's logits and their gradient, for what to use instead.

    Raises:
        AuditError: (a ValueError) if something given is not what it must be.
    """
    number = as_counts(counts)
    examples, seed = (whole_number(*each) for each in (("examples", examples, 1), ("seed", seed, 0)))
    memory = whole_number("memory", memory, 1)
    prior = number / number.sum(dtype=np.float64)
    table = log_q if log_q is None or isinstance(log_q, str) else as_array("log_q", log_q)
    if estimated is not None:
        if log_q is not None:
            raise AuditError("estimated and log_q are given; the estimate is the table that is subtracted: give one")
        table = estimate(estimated, number, seed)
    setup = read_setup(prior, sampler, weights, hits, m, batch, table)
    if estimated is not None and (setup.is_set or len(setup.m) > 1 or not np.allclose(setup.q[0], prior)):
        raise AuditError(
            f"estimated is {estimated!r}, of the labels' frequencies; the sampler {setup.name} has another law"
        )
    group = tables.groups(number)
    hit_rates = rates(prior, group, setup)
    evaluated = None if sampled is None else _evaluated(sampled, candidates, candidates_from, prior)
    known = None if labels is None else label_counts(labels, len(number))
    served = known if serving is None else serving_counts(serving, len(number))
    drifted = None if served is None else measure(number, served)
    if temperature is not None and scores is None and not cosine:
        raise AuditError(f"temperature is {temperature!r}, but there are no scores that it could divide: give both")
    held = bounded(prior, setup, temperature) if cosine else None
    if scores is None:
        shares, source = None, f"assumed, log P/pi with a spread of {SHOWN:g} nats"
        rows = tables.assumed(number, prior, _log_laws(setup), seed)
        truths = [rows.truth(SHOWN)]
        spread = SHOWN
    else:
        logits = as_scores(scores, len(number))
        laws = tables.posteriors(logits, 1.0 if temperature is None else temperature, len(number))
        by_scores = np.stack([laws[:, group == g].sum(-1) for g in range(3)], -1)
        by_counts = np.array([prior[group == g].sum() for g in range(3)])
        shares = (by_counts, by_scores, len(laws))
        rows, truths = tables.given(number, prior), list(laws[:examples])
        spread = float(np.mean([tables.spread(p, prior) for p in laws]))
        source = f"softmax of the scores of {len(truths)} example{'s' * (len(truths) > 1)}, spread {spread:.2f} nats"
    try:
        done = _audit(
            number, prior, setup, rows, truths, source, spread, hit_rates, shares, known, scores is not None, estimated
        )
        chosen = _choice(prior, setup, batch, memory)
        return replace(done, evaluation=evaluated, choice=chosen, draws=not setup.is_set, drift=drifted, bounded=held)
    except np.linalg.LinAlgError as error:  # a ValueError, in LAPACK's words
        ends = prior[prior > 0]
        raise AuditError(
            f"the minimum was not found in float64: frequent classes are {ends.max() / ends.min():.2g} times as "
            "frequent as rare ones; merge the rarest classes, or add to every count"
        ) from error
    except ValueError as error:
        if isinstance(error, AuditError):
            raise
        raise AuditError(f"the minimum was not found: {error}") from error


def _audit(
    number: NDArray[Any], prior: Floats, setup: Setup, rows: Rows, truths: list[Floats], source: str,
    spread: float, hit_rates: Rates, shares: tuple[Floats, Floats, int] | None, labels: Floats | None, scored: bool,
    estimated: str | None,
) -> Audit:  # fmt: skip
    row_setup = rows.of(setup)
    laws = [Truth(rows, p, row_setup) for p in truths]
    effects = [effect(truth, row_setup) for truth in laws]
    scheme = row(setup.title, effects)
    variants = _alternatives(prior, setup)
    tried = [_found(partial(_row, rows, truths, each, setup, row_setup, laws)) for each in variants]
    others = tuple(each for each in tried if each is not None)
    lost = [each.title for each, done in zip(variants, tried, strict=True) if done is None]
    right_setup = setup.with_weights(*remedy(setup))
    known_rows = {r.title: r.noise for r in (scheme, *others)}
    after = known_rows.get(right_setup.title, math.nan)
    by_spread: tuple[tuple[float, float], ...] = ()
    if not scored and not hit_rates.never_drawn:
        by_spread = tuple(
            (
                s,
                scheme.kl if s == SHOWN else effect(Truth(rows, rows.truth(s), row_setup), row_setup).kl,
            )
            for s in SPREADS
        )
    known = faults(setup, number.astype(np.float64), hit_rates, shares, labels, estimated)
    proved = (
        setup.kind != "union"
        and setup.table is None
        and len(setup.m) == 1
        and (setup.weights, setup.hits) == remedy(setup)
    )
    verdict, sentence = _verdict(scheme, by_spread, hit_rates.never_drawn, hit_rates.never_labels, proved)
    advised = advice(setup, verdict == "right", hit_rates.never_drawn, scheme.noise, after)
    full, enough = one_per_cent(laws[0], rows, row_setup)
    first = effects[0]
    numbers = _found(partial(by_number, laws[0], rows, setup, row_setup, first)) if not hit_rates.never_drawn else ()
    if numbers is None:
        lost.append("other numbers of negatives")
        numbers = ()
    return Audit(
        verdict, sentence + (f"; change {_lines(advised.change)}" if advised.change else ""), len(number),
        int(number.sum()), setup.negatives, setup.asked or round(setup.negatives), source, spread, scheme, others,
        by_spread,
        tuple((each.m, each.kl) for each in numbers), tuple((each.m, each.loss, each.deviation) for each in numbers),
        tuple((each.m, each.bias, each.noise) for each in numbers),
        hit_rates, enough, full, certificate(setup), rank_bound(prior, setup), known, advised,
        tuple(zip(first.popularity.tolist(), first.error.tolist(), first.mass.tolist(), strict=True)),
        served(setup, proved and verdict == "right"),
        _assumptions(setup, None if shares is None else 1 - float(shares[1].sum(-1).mean()))
        + ((f"Not found in float64, and left out: the minimum of {'; '.join(lost)}.",) if lost else ()),
    )  # fmt: skip


def _found(compute: Callable[[], Result]) -> Result | None:
    """What is computed in addition to the reader's own scheme; None where float64 does not find a minimum."""
    try:
        return compute()
    except AuditError:
        raise
    except ValueError:  # LAPACK's are ValueErrors too
        return None


def _evaluated(sampled: Mapping[str, float], candidates: int, source: Law, prior: Floats) -> Evaluation:
    law = None if isinstance(source, str) and source == "uniform" else law_of(source, prior)
    evaluation = fitting(sampled, len(prior), candidates, law=law)
    return replace(evaluation, sampler=source) if isinstance(source, str) else evaluation


def _choice(prior: Floats, setup: Setup, batch: int | None, memory: int) -> Choice:
    """What to use for the reader's numbers; a batch that is not given has one example more than there are negatives."""
    number = setup.asked or max(1, round(setup.negatives))
    means: Means = "batch" if setup.name.startswith(("within-batch", "cross-")) else "draws"
    labels = prior[prior > 0]
    skew = max(0.0, -math.log(len(labels) * labels.min()))
    return choose(len(labels), number + 1 if batch is None else batch, number, skew, memory, means)


def _row(rows: Rows, truths: list[Floats], variant: Setup, setup: Setup, row_setup: Setup, laws: list[Truth]) -> Row:
    """Another scheme; where it has the negatives of the reader's (``row_setup`` on rows), in the cells there are."""
    alike = variant.q is setup.q and variant.table is setup.table
    row_variant = row_setup.with_weights(variant.weights, variant.hits) if alike else rows.of(variant)
    variant_truths = laws if alike else [Truth(rows, p, row_variant) for p in truths]
    return row(variant.title, [effect(law, row_variant) for law in variant_truths])


def _alternatives(prior: Floats, setup: Setup) -> list[Setup]:
    """Five others: three that treat the same negatives otherwise, uniform ones, and some uniform ones mixed in.

    For one negative there are four: it has no halves.
    """
    m = max(1, round(setup.negatives))
    same: list[tuple[Weights, Hits]] = (
        [("relative", "mask"), ("importance", "mask"), ("none", "mask"), ("relative", "keep")]
        if setup.kind == "union"
        else [("arrival", "mask"), ("relative", "mask"), ("importance", "mask"), ("none", "mask")]
        if setup.kind == "distinct"
        else [("relative", "keep"), ("relative", "mask"), ("importance", "mask"), ("none", "keep")]
    )
    setups = [setup.with_weights(*treatment) for treatment in same]
    setups.append(replace(read_setup(prior, "uniform", "relative", "keep", m, None), name=f"uniform, m = {m:,}"))
    some = max(1, m // 2)
    mixed = read_setup(prior, "mixed", "relative", "keep", some, max(2, m - some + 1))
    if m > 1:
        setups.append(replace(mixed, name="half in-batch, half uniform"))
    return [each for each in setups if each.title != setup.title][:5]


def _verdict(
    scheme: Row, by_spread: tuple[tuple[float, float], ...], never: int, labels: float, proved: bool
) -> tuple[Verdict, str]:
    """The verdict and why; ``proved`` where a theorem says that the minimum is the truth, whatever it is."""
    if never:
        return (
            "wrong",
            f"{never:,} classes with {percent(labels, 2)} of the labels are never negatives, so their scores grow "
            "forever",
        )
    kls = [kl for _, kl in by_spread] or [scheme.kl]
    moved = max(range(3), key=lambda g: scheme.displaced[g])
    name = ("frequent", "middling", "rare")[moved]
    flow = abs(scheme.learned[moved] - scheme.truth[moved])
    items = (
        f"{name} items get {percent(scheme.learned[moved])} of the probability instead of "
        f"{percent(scheme.truth[moved])}"
        if flow >= scheme.displaced[moved]
        else f"the error is largest among {name} items, where {percent(scheme.displaced[moved], 2)} of P is misplaced"
    )
    if max(kls) < SMALL:
        # other truths than those assumed can have other answers, unless a theorem covers them all
        where = f" for spreads of log P/pi up to {SPREADS[-1]:g} nats" if by_spread and not proved else ""
        return "right", f"the loss converges to the truth within {SMALL:g} nats of KL{where} ({nats(max(kls))})"
    if min(kls) >= SMALL:
        where = f" if log P/pi has a spread of {SHOWN:g} nats; the other spreads up to {SPREADS[-1]:g} are wrong too"
        return "wrong", f"{items}{where if by_spread else ''}"
    least = min(s for s, kl in by_spread if kl >= SMALL)
    return (
        "cannot tell",
        f"counts alone do not decide, give scores; KL from the truth is {nats(min(kls))} to {nats(max(kls))} nats for "
        f"spreads of log P/pi from {SPREADS[0]:g} to {SPREADS[-1]:g} nats, and above the limit of {SMALL:g} from "
        f"{least:g} on",
    )


def _lines(change: str) -> str:
    number = change.count(";") + 1
    return "one line" if number == 1 else f"{('', 'one', 'two', 'three')[number]} things"


def _assumptions(setup: Setup, outside: float | None) -> tuple[str, ...]:
    """In sentences; ``outside`` is what the scores give to classes without labels, None without scores."""
    sentences = [
        "Scores are free at each x: a model that cannot represent the minimum mixes contexts.",
        "The batches' labels are independent draws with the counted frequencies.",
        "The truth is the softmax of your scores; scores learned by a wrong scheme are themselves shifted."
        if outside is not None
        else "P(y|x) is proportional to pi(y) exp(sigma z), z independent and normal: an assumption, not your data.",
    ]
    of_sets = (
        "; of a set the part that only its exact law shows is refined by itself, to the same end."
        if setup.is_set
        else "."
    )
    sentences.append(
        "Classes that are alike share a bin, and bins are doubled until the divergence moves by less than .5 %, "
        "or 1,280 of them (2 % and 320 for other numbers of negatives): the ± is that last move, a "
        "measured error and no bound" + of_sets
    )
    if setup.name.startswith("cross-"):
        sentences.append(
            "Labels of other batches and devices have the same law, and their embeddings are as those of now."
        )
    if outside is not None and outside > 1e-9:
        sentences.append(
            f"Classes whose count is 0 are left out, with the {percent(outside, 2)} that the scores give them."
        )
    return tuple(sentences)


def _log_laws(setup: Setup) -> list[Floats]:
    """What can tell classes of one count apart: laws of one draw, of which those of sets are smooth, and a table."""
    with np.errstate(divide="ignore"):
        logs = [np.log(law) for law in (setup.q if setup.law is None else [setup.law])]
    return logs if setup.table is None else [*logs, setup.table]
