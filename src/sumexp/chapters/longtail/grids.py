r"""The methods and pictures of each profile, and the comparison that decides each claim.

**The factorial.** One factor at a time is varied against one base, m negatives with hits left out: the law of the
negatives x their weighting for the softmax cross entropy and for the contrastive loss, both compared with their losses
over all labels; three margins over all labels; hits kept; and fewer and more negatives, for every law and weighting.
All methods of a seed are one run, with the same batches, draws, initial weights and number of steps; seeds are runs of
their own. Both imbalances, EXP and STEP, have about the same number of steps.

**What decides what**, written down before the runs (after a pilot of six epochs of one seed, which chose network, rate
and length, and is no part of them). Errors are means over classes, on the test pictures, of the head, torso or tail as
published, or of all classes. Differences are paired by seed; what an interval over seeds decides, and at which
confidence, is said by `chapters.intervals` alone, for the register and for the tables of the chapter. On top of that
the test pictures are one sample of 100 a class, the same for all. Only profiles ``cpu`` and ``paper`` on CIFAR-100
decide, on EXP and on STEP, each by itself; digits do not.

- *negatives-f-const-tail*: tail error of batch constant minus that of each other standard scheme (batch importance and
  relative, uniform constant, importance and relative): all below.
- *negatives-f-beats-ce*: tail error of batch constant minus that of the cross entropy: below.
- *negatives-f-tail-weights*: tail error of batch tail minus that of each other batch scheme, and the same for uniform:
  all below. It is about sampled schemes only (D15).
- *negatives-f-relative-head*: head error of batch relative minus that of batch constant: below.
- *negatives-f-q-matters*: on the tail, relative minus constant under batch, minus the same under uniform: not zero.
  Theory says above.
- *negatives-f-limits*: tail error of logit adjustment minus that of the cross entropy: below; minus that of batch tail,
  on the tail and on all classes alike: below; and of the excess of batch tail over logit adjustment, that of the fewest
  negatives minus that of the most: above. Each is a finding of its own; with one that is not reproduced the claim is
  not.
- *negatives-fig-3*: the mean tail error of the sampled contrastive schemes minus that of the cross entropy: above; the
  deviation among the contrastive schemes' balanced errors minus that among the softmax schemes': above.
- *negatives-fig-4-5*: balanced error of batch constant minus that of the cross entropy: below (it "can" improve: on
  either imbalance); the mean over all schemes and the full loss of contrastive minus softmax: above.
- *negatives-fig-6*: tail and balanced error with the fewest negatives minus those with the most, mean over the schemes:
  above. It speaks of ImageNet-LT, so that CIFAR-100 is only shown and decides nothing.
- *negatives-fig-1* and *negatives-fig-7* ask for the images of ImageNet-LT and iNaturalist 2018. We have neither; the
  residual network on CIFAR-100 stands in for them.

**No difference** is said where an interval lies within `ALIKE` of zero and there is room for one: five times as much
on either side of both errors. Of each interval the chapter says what difference the design could have seen: the one
that shows with probability 0.8 at the spread that was measured. What is not seen, and is smaller than the design could
see, is called open and never "not reproduced".

**Changed after the runs**, each time to say less: (1) A finding of which an interval lies on both sides of zero is
undecided wherever it was not said above, and a claim with two halves, *negatives-fig-3* and *negatives-fig-4-5*, is
open while one half is. (2) On the tail the cross entropy of profile ``cpu`` errs on 98 % (EXP) and 99.9 % (STEP). Where
less than `ALIKE` is left above what is to be exceeded, nothing is decided: a worse method could not have been seen.
(3) "On either imbalance" looks twice, so that each interval of *negatives-fig-4-5* has half of the 5 %. With (2) and
(3) both halves that had been decided otherwise, one by -0.7 and one by -0.4 points, are open. (4) Four seeds of profile
``cpu`` were added to five: nine are the fewest with a sign test at the confidence of nine claims.

**A confirmation**, written down after the runs of profile ``cpu`` and before any of its own. On EXP five seeds have the
balanced error of batch constant 0.45 points below that of the cross entropy, from 0.81 to 0.09 by itself, and on both
sides of zero with (3): too few to tell for *negatives-fig-4-5*. So on EXP alone these two methods are trained with 20
seeds that no run has had, `Plan.fresh`, and these alone decide its first half, "can improve": the seeds that raised the
question do not count, and STEP, where the error is 2.2 points higher, does not speak against what can be. One
difference, paired by seed, in one interval, looked at once, when all are there: below zero the half holds, above it
is not reproduced, else it is open, and so it is within `ALIKE` of zero (5): the pictures of the test are one sample, of
which such a difference has a deviation of up to 0.6 points (by the spread over classes of a group, which has more in
it), while the paper's are the same. At the spread that was measured, 0.29 points, 20 seeds show 0.19 points with
probability 0.8, and ten would show 0.29. The second half stays with the runs above.

**The prediction** (`chapters.models.sampled.prediction`) comes before: for each method the mean offset of the head,
torso and tail. It is a run of its own, the first of the grid. How often it is right: Kendall's tau-b over the methods
of the softmax loss for each group, seed by seed;
and of all pairs whose measured difference has an interval off zero, the share that is predicted rightly.
Pairs that the prediction has as ties are counted apart.

**Is it consistent?** Relative weights with hits kept are, for every m; with hits masked they are not. Masked minus kept
on head and tail, at each m: where the interval is off zero, masking shows.

**The profile** ``paper`` trains the paper's network where the pictures of 32 x 32 are, CIFAR-100's archive: a ResNet-56
with the published schedule, 256 epochs on either imbalance, 5 seeds of every method of the factorial, of which each is
a run (`chapters.longtail.residual`). So STEP has 2.3 times as many steps as EXP, as published. The comparisons that
decide are the same, paired by seed. Nobody has run it: no GPU and no archive were at hand, so that nothing is known of
it but that the network is the paper's, that it trains, and what it costs by its operations. Should a loss diverge,
which the published rate without a warm-up does not rule out for importance weights of the contrastive loss, the run
ends with an error that names the method, and the claims stay as they are until all runs are there. Where only the
reduced pictures are, ``paper`` trains the small network longer and wider, on 8 seeds. Where EXP's tail of 32 x 32 is
there and not the archive (``cifar-100-lt``, another choice of as many pictures of each class), the grid asks for the
paper's network on it too, `tailed`: what it finds on EXP goes before that of the small network in the register. STEP
cannot be cut of it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from sumexp import _checks as checks
from sumexp._runtime import Task
from sumexp.chapters.jobs import Grid, Job, Present
from sumexp.chapters.longtail import residual, training
from sumexp.chapters.longtail.config import Source, Stack
from sumexp.chapters.longtail.images import counts
from sumexp.chapters.longtail.residual import Residual
from sumexp.chapters.models.sampled.comparison import Values
from sumexp.chapters.models.sampled.methods import LAWS, MARGINS, SCHEMES, Method
from sumexp.chapters.models.sampled.prediction import Forecast, predict
from sumexp.chapters.models.sampled.prediction import seconds as predicting
from sumexp.datasets.labelled import Imbalance

IMBALANCES: tuple[Imbalance, ...] = ("exp", "step")

ALIKE = 0.01
"""A difference of errors below one point is none."""


@dataclass(frozen=True)
class Plan:
    """What is trained on a data set.

    Attributes:
        seeds: how many.
        negatives: the base m, and the others.
        epochs: of EXP, and of STEP.
        filters: of the features.
        hidden: width of the hidden layer.
        batch: pictures of a step.
        blocks: of each stage of a residual network; 0 for the small network on fixed features.
        fresh: how many seeds confirm.
    """

    seeds: int
    negatives: tuple[int, ...]
    epochs: tuple[int, int]
    filters: int = 50
    hidden: int = 64
    batch: int = 128
    blocks: int = 0
    fresh: int = 0


_DIGITS = Plan(5, (8, 2, 24), (20, 9), filters=20, hidden=32, batch=32)
_RESIDUAL = Plan(5, (32, 8, 96), (256, 256), blocks=9)
_WIDER = Plan(8, (32, 8, 96), (60, 26), filters=200, hidden=256)
FIRST_FRESH = 1000
"""The first of the seeds that confirm."""

PLANS: Mapping[str, Mapping[Source, Plan]] = {
    "smoke": {"digits": Plan(2, (8, 2), (5, 3), filters=8, hidden=16, batch=32, fresh=2)},
    "cpu": {source: Plan(9, (32, 8, 96), (20, 9), fresh=20) for source in ("cifar-100", "cifar-100-small")},
    "paper": {"cifar-100": _RESIDUAL, "cifar-100-small": _WIDER},
}
"""By profile and data set; of CIFAR-100 one form is trained on, the archive if it is there. Without it, `_DIGITS`."""

Config: TypeAlias = Stack | Residual


def methods(negatives: Sequence[int]) -> tuple[Method, ...]:
    """The methods of the factorial, those of the softmax first, at the base m and at others.

    At the other m hits are kept for relative weights alone.
    """
    base, *others = negatives
    crossed = [(law, weighting) for law in LAWS for weighting in SCHEMES]
    return (
        *(Method(weighting=margin) for margin in MARGINS),
        *(Method("softmax", law, weighting, base) for law, weighting in crossed),
        *(Method("softmax", law, weighting, base, "keep") for law, weighting in crossed),
        *(Method("softmax", law, weighting, m) for m in others for law, weighting in crossed),
        *(Method("softmax", law, "relative", m, "keep") for m in others for law in LAWS),
        Method("contrastive"),
        *(Method("contrastive", law, weighting, base) for law, weighting in crossed),
    )


def chosen(profile: str, sources: Sequence[str]) -> tuple[Source, Plan]:
    """The data set of a profile and its plan; a ValueError for an unknown profile."""
    checks.choice("profile", profile, PLANS)
    for source, plan in PLANS[profile].items():
        if source in sources or source == "digits":
            return source, plan
    return "digits", _DIGITS


def task(plan: Plan) -> Task[Any]:
    """What trains the runs of a plan."""
    return residual.train if plan.blocks else training.train


def configs(source: Source, plan: Plan) -> tuple[Config, ...]:
    """The runs of a plan: for both imbalances every seed, of a residual network every method by itself.

    Raises:
        ValueError: if a residual network is asked for on reduced pictures.
    """
    seeds = range(plan.seeds)
    each = [(p, epochs, seed) for p, epochs in zip(IMBALANCES, plan.epochs, strict=True) for seed in seeds]
    return _configs(source, plan, methods(plan.negatives), each)


def tailed(plan: Plan = _RESIDUAL) -> tuple[Residual, ...]:
    """The runs of the paper's network on the ready-made tail of 32 x 32: EXP alone."""
    return tuple(
        Residual("cifar-100-lt", "exp", method, seed, blocks=plan.blocks, epochs=plan.epochs[0], batch=plan.batch)
        for seed in range(plan.seeds)
        for method in methods(plan.negatives)
    )


def confirmation(source: Source, plan: Plan) -> tuple[Config, ...]:
    """The runs that confirm: on EXP the cross entropy and batch constant, with seeds that no other run has."""
    seeds = range(FIRST_FRESH, FIRST_FRESH + plan.fresh)
    return _configs(source, plan, confirmed(plan), [("exp", plan.epochs[0], seed) for seed in seeds])


def confirmed(plan: Plan) -> tuple[Method, Method]:
    """The methods of which the confirmation asks whether the second errs less."""
    return Method(), Method("softmax", "batch", "constant", plan.negatives[0])


def _configs(
    source: Source, plan: Plan, own: tuple[Method, ...], each: Sequence[tuple[Imbalance, int, int]]
) -> tuple[Config, ...]:
    """The runs of some methods, of each imbalance, number of epochs and seed."""
    batch = plan.batch
    if plan.blocks:
        if source == "cifar-100-small":
            raise ValueError("the residual network is trained on pictures of 32 x 32; cifar-100-small has 16 x 16")
        return tuple(
            Residual(source, imbalance, method, seed, blocks=plan.blocks, epochs=epochs, batch=batch)
            for imbalance, epochs, seed in each
            for method in own
        )
    return tuple(
        Stack(source, imbalance, own, seed, filters=plan.filters, hidden=plan.hidden, epochs=epochs, batch=batch)
        for imbalance, epochs, seed in each
    )


def gathered(runs: Iterable[tuple[Config, ArrayLike]]) -> dict[Imbalance, dict[Method, Values]]:
    """The errors of each imbalance and method [seeds, C], from the ``errors`` [methods, C] of each config's run.

    Raises:
        ValueError: if a table is not of as many methods, or a method has fewer seeds than another.
    """
    by_imbalance: dict[Imbalance, dict[Method, list[Values]]] = {}
    for config, errors in runs:
        table = np.asarray(errors, dtype=np.float64)
        if table.ndim != 2 or len(table) != len(config.methods):
            raise ValueError(f"a table of shape {table.shape} for {len(config.methods)} methods; expected [methods, C]")
        of_imbalance = by_imbalance.setdefault(config.imbalance, {})
        for method, row in zip(config.methods, table, strict=True):
            of_imbalance.setdefault(method, []).append(row)
    for imbalance, methods in by_imbalance.items():
        if len(numbers := sorted({len(rows) for rows in methods.values()})) > 1:
            raise ValueError(f"of imbalance {imbalance} some methods have {numbers[0]} seeds and some {numbers[-1]}")
    return {
        imbalance: {method: np.array(rows) for method, rows in methods.items()}
        for imbalance, methods in by_imbalance.items()
    }


def forecasts(source: Source, plan: Plan) -> tuple[Forecast, ...]:
    """The predictions that come before the runs, one of each imbalance."""
    return tuple(
        Forecast(tuple(counts(source, imbalance).tolist()), methods(plan.negatives)) for imbalance in IMBALANCES
    )


def data(config: Config) -> tuple[str, ...]:
    """The data sets that the training of a run reads from the disk."""
    return () if config.source == "digits" else (config.source,)


def seconds(config: Config) -> dict[str, float]:
    """The length of a run.

    A residual network of 56 layers takes 4.3 s a step of 128 images on one core, and 9.5 ms on an H200. The small one
    takes 13 ms a step and 1.2 ms for each method on one core, and .055 ms for each method on an H200.
    """
    shape = residual.shape(config.source) if isinstance(config, Residual) else config.source
    steps = config.epochs * (int(counts(shape, config.imbalance).sum()) // config.batch)
    if isinstance(config, Residual):
        return {"cpu": 4.3 * steps * config.blocks / 9, "cuda": 0.0095 * steps}
    each = 0.013 + 0.0012 * len(config.methods) * config.hidden / 64
    return {"cpu": 2 + steps * each, "cuda": 2 + 5.5e-5 * len(config.methods) * steps}


def jobs(profile: str, present: Present) -> tuple[Job, ...]:
    """The runs of a profile on the pictures that are there, the predictions first."""
    source, plan = chosen(profile, [name for name in get_args(Source) if present(name)])
    trained = [(task(plan), one) for one in (*configs(source, plan), *confirmation(source, plan))]
    if profile == "paper" and not plan.blocks and present("cifar-100-lt"):
        trained += [(residual.train, one) for one in tailed()]
    predicted = (
        Job(predict, one, seconds=predicting(len(one.counts), len(one.methods))) for one in forecasts(source, plan)
    )
    return (*predicted, *(Job(train, one, data(one), seconds=seconds(one)) for train, one in trained))


GRIDS: Mapping[str, Grid] = {"longtail": jobs}
