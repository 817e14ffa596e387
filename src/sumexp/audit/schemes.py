r"""The exact minima, with free scores, of named losses that are not weighted softmaxes.

==========  ======================================================================  ====================================
name        loss                                                                    scores f at the minimum
==========  ======================================================================  ====================================
baseline    log q subtracted from the negatives only, without log m, hits masked    `sumexp.negatives.published`
refined     the same as "Correcting the LogQ Correction" has it                     `sumexp.negatives.published`
binary      :math:`-\log\sigma(f_y)-\sum_n\log(1-\sigma(f_n))` over m draws from q  :math:`\log P_i/N_i`
gbce:T      the same with :math:`\beta` before the first term, uniform others       `sumexp.nce.pairs.gbce`
siglip      sigmoids over all pairs of a batch                                      `sumexp.nce.pairs.sigmoid_pairs`
hard:BETA   negatives weighted by :math:`e^{\beta f}` over the mean weight            `sumexp.negatives.hard`
==========  ======================================================================  ====================================

:math:`N_i` is how often class i is a negative of the context in the mean: :math:`mq_i` with hits kept,
:math:`mq_i(1-P_i)` with hits masked, :math:`mq_i\sum_{y\ne i}P_y/(1-q_y)` with hits drawn again. The mean loss is a sum
over classes, :math:`-P_i\log\sigma(f_i)-N_i\log(1-\sigma(f_i))`, least where the odds :math:`e^{f_i}` are
:math:`P_i/N_i`.

*baseline* is audited as weights ``negatives`` with hits masked, which it is. *refined* takes an integral for each
number of draws that may be no hits; given that number it is weights ``importance`` with hits drawn again, which is what
to ask for where there are many classes. *hard* is the loss of Robinson et al. (2021) with ``tau_plus`` 0 and hits
kept; it is not convex, and its minimum is the lowest that the search finds. Left out are the debiased variants,
negatives that are sets, and several positives of a context.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from sumexp.audit import _rows as tables
from sumexp.audit._arguments import Numbers, as_counts, as_laws
from sumexp.audit._effects import Effect, described
from sumexp.audit._faults import faults
from sumexp.audit._run import SHOWN, SPREADS
from sumexp.audit._setup import AuditError, Law, Setup, parameter, rates, read_setup, whole_number
from sumexp.audit._text import digits
from sumexp.audit.results import Audit, Line, row
from sumexp.nce.pairs import gbce
from sumexp.negatives.hard import MOST_BETA, MOST_DRAWS, hard_minimum
from sumexp.negatives.published import NEGLIGIBLE, stationary
from sumexp.samplers import Hits

Floats = NDArray[np.float64]

NAMES = ("baseline", "refined", "binary", "gbce:T", "siglip", "hard:BETA")

MOST_TERMS = 10_000
"""Classes times numbers of draws that are no hits, for refined: some five seconds."""

MOST_CLASSES = 200
"""Of hard, whose integral is classes times some ten thousand nodes: some ten seconds."""

NOT_CONVEX = Line("search", None, "the loss is not convex: a lower minimum than the one found is not excluded")

HITS: dict[str, tuple[Hits, ...]] = {
    "refined": ("mask",), "binary": ("keep", "mask", "redraw"), "gbce": ("redraw",), "siglip": ("keep", "mask"),
    "hard": ("keep",),
}  # fmt: skip
"""The rules for hits of each loss, the first by default."""

SERVED = {
    ("siglip", "keep"): "add log pi to the scores",
    ("siglip", "mask"): "take P = m pi e^f / (1 + m pi e^f), with m = batch - 1",
    ("gbce", "redraw"): "take P = e^f / (e^f + b / a), with a = m / (classes - 1) and b = 1 - T (1 - a)",
    ("binary", "keep"): "add log q to the scores",
    ("binary", "mask"): "take P = m q e^f / (1 + m q e^f)",
}
"""The probability by the scores, where it is known, by loss and rule for hits."""


def learned(
    counts: Numbers,
    scheme: str,
    *,
    sampler: Law | None = None,
    hits: Hits | None = None,
    m: int | None = None,
    batch: int | None = None,
    scores: Numbers | tuple[Numbers, Numbers] | None = None,
    temperature: float | None = None,
    examples: int = 4,
    seed: int = 0,
) -> Audit:
    """The minimum of a named loss with free scores, against the truth.

    Args:
        counts: [classes] how often each class is a label.
        scheme: ``refined``, ``binary``, ``gbce:T``, ``siglip`` or ``hard:BETA``; ``baseline`` is
            :func:`sumexp.audit.audit` with weights ``negatives`` and hits masked.
        sampler: draws one by one; by default that of the loss.
        hits: the rule for draws of the label; by default that of the loss.
        m: negatives per example.
        batch: examples per batch, which gives m.
        scores: whose softmax is P(y|x); assumed by default.
        temperature: divides the scores, 1 by default.
        examples: the most examples to audit.
        seed: of the assumed truths.

    Raises:
        AuditError: if the loss is unknown, does not take such negatives, or an argument is invalid.

    >>> import numpy as np
    >>> from sumexp.audit.schemes import learned
    >>> learned(np.array([5, 3, 2]), "siglip", batch=8, scores=np.log([[0.5, 0.3, 0.2]])).served
    'add log pi to the scores'
    """
    number = as_counts(counts)
    name, setup = _read(scheme, number, sampler, hits, m, batch)
    prior = number / number.sum(dtype=np.float64)
    group, part = tables.groups(number), number > 0
    minimum = _minimum(name, scheme, setup, prior, part)
    examples, seed = whole_number("examples", examples, 1), whole_number("seed", seed, 0)
    laws = as_laws(scores, temperature, len(number))
    if laws is None:
        z = np.random.default_rng(seed).standard_normal(len(prior))
        truths, spread = [prior * np.exp(sigma * z) for sigma in SPREADS], SHOWN
        source = f"assumed, log P/pi with a spread of {SHOWN:g} nats"
    else:
        truths, spread = list(laws[:examples]), float(np.mean([tables.spread(p, prior) for p in laws]))
        source = f"softmax of the scores of {len(truths)} example{'s' * (len(truths) > 1)}"
    effects = [_against(law[part] / law[part].sum(), minimum, group[part], prior[part]) for law in truths]
    kls = [each.kl for each in effects]
    by_spread = tuple(zip(SPREADS, kls, strict=True)) if laws is None else ()
    shown = [effects[SPREADS.index(SHOWN)]] if laws is None else effects
    title = f"{scheme}, {setup.name}, m = {digits(setup.negatives, 6)}, hits {setup.hits}"
    served = SERVED.get((name, setup.hits), "")
    remedy = f"to have probabilities, {served}" if served else "train a softmax with log q subtracted from every logit"
    hit_rates = rates(prior, setup)
    scores_line = faults(setup, prior, group, hit_rates, laws, True)[-1:]
    first = shown[0]
    return Audit(
        len(number), int(number.sum()), int(part.sum()), setup.negatives, source, spread, False,
        remedy, row(title, shown), (), by_spread, (), hit_rates, scores_line,
        tuple(zip(first.popularity.tolist(), first.error.tolist(), first.mass.tolist(), strict=True)), served,
        ("Scores are free at each x, and negatives are independent draws.",), (NOT_CONVEX,) * (name == "hard"),
    )  # fmt: skip


def _read(
    scheme: str, number: NDArray[np.int64], sampler: Law | None, hits: Hits | None, m: int | None, batch: int | None
) -> tuple[str, Setup]:
    """The loss without its parameter, and its negatives."""
    name, _, rest = scheme.partition(":")
    if name not in HITS or (rest and name not in ("gbce", "hard")):
        raise AuditError(f"no scheme {scheme!r}; there are {', '.join(NAMES)}")
    hits = HITS[name][0] if hits is None else hits
    if hits not in HITS[name]:
        raise AuditError(f"hits are {hits!r}; in the loss {name} they are {' or '.join(HITS[name])}")
    needed = {"gbce": "uniform", "siglip": "within-batch"}.get(name)
    if needed is not None and not (sampler is None or (isinstance(sampler, str) and sampler == needed)):
        raise AuditError(f"the sampler is {sampler!r}; the negatives of {name} are {needed}: leave it out")
    law = needed if needed is not None else "within-batch" if sampler is None else sampler
    prior = number / number.sum(dtype=np.float64)
    setup = read_setup(prior, law, "none", hits, m, batch)
    if setup.is_set or len(setup.m) > 1:
        raise AuditError(f"the sampler is {setup.name!r}; {name} is known only for negatives drawn one by one")
    return name, setup


def _minimum(
    name: str, scheme: str, setup: Setup, prior: Floats, part: NDArray[np.bool_]
) -> Callable[[Floats], Floats]:
    """A function from the truth, on classes with labels, to the scores at the minimum, up to a constant."""
    q, m = setup.q[0][part], setup.negatives
    never = int((q == 0).sum())
    if never:
        raise AuditError(f"{never:,} classes with labels are never negatives, so their scores grow forever")
    if name == "binary":
        return lambda p: np.asarray(np.log(p) - np.log(_expected(p, q, m, setup.hits)))
    if name == "siglip":
        return lambda p: np.asarray(np.log(p / prior[part]) - (np.log1p(-p) if setup.hits == "mask" else 0.0))
    if name == "gbce":
        t = parameter(scheme, "the calibration of gbce", "gbce:0.75", most=1.0)

        def calibrated(p: Floats) -> Floats:
            law = np.zeros(len(part))  # classes without labels are negatives too
            law[part] = p
            return np.asarray(gbce(_log(law), round(m), t).numpy()[part])

        return calibrated
    if not part.all():
        raise AuditError(f"{int((~part).sum()):,} classes have no label; leave them out of the counts for {name}")
    if name == "hard":
        beta = parameter(scheme, "the hardness of hard", "hard:1", most=MOST_BETA)
        if len(q) > MOST_CLASSES or m > MOST_DRAWS:
            raise AuditError(
                f"hard takes {MOST_CLASSES:,} classes and {MOST_DRAWS:,} negatives at most, not {len(q):,} and "
                f"{m:,.6g}: merge rare classes, or see sumexp.negatives.tilted for the limit of many negatives"
            )
        return lambda p: np.asarray(hard_minimum(_log(p), _log(q), round(m), beta).numpy())
    from scipy.stats import binom  # half a second of every start, and seldom asked for

    terms = len(q) * min(m, float(binom.isf(NEGLIGIBLE, round(m), q.max())) + 1)
    if terms > MOST_TERMS:
        raise AuditError(
            f"refined takes {len(q):,} classes times {terms / len(q):,.0f} numbers of draws, more than {MOST_TERMS:,}; "
            "given the number of draws that are no hits it is weights importance with hits redrawn: audit that"
        )
    return lambda p: np.asarray(stationary("refined", _log(p), _log(q), round(m)).numpy())


def _expected(p: Floats, q: Floats, m: float, hits: Hits) -> Floats:
    """The mean number of times that each class is a negative of the context."""
    if hits == "redraw":
        each = p / (1 - q)
        return np.asarray(m * q * (each.sum() - each))
    return np.asarray(m * q * (1 - p if hits == "mask" else 1.0))


def _against(p: Floats, minimum: Callable[[Floats], Floats], group: NDArray[np.int64], prior: Floats) -> Effect:
    """The effect of a minimum: divergence, and errors and shares by group."""
    try:
        scores = minimum(p)
    except ValueError as wrong:
        raise AuditError(f"the minimum was not found: {wrong}") from wrong
    error = scores - np.log(p)
    error -= p @ error
    top = [set(np.argsort(-x, kind="stable")[:10].tolist()) for x in (p, scores)]
    return replace(described(np.ones(len(p)), p, error, group, prior), overlap=len(top[0] & top[1]))


def _log(p: Floats) -> torch.Tensor:
    with np.errstate(divide="ignore"):
        return torch.from_numpy(np.log(p / p.sum()))
