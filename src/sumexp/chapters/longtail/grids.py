r"""The methods and data sets of each profile, and the rule that decides each claim.

**Design.** One factor at a time varies against a base of m negatives with hits masked: sampling law x weighting, for
the softmax cross entropy and the contrastive loss, each compared with its loss over all labels; three margins; hits
kept; and fewer and more negatives. The methods of a seed are one run with the same batches, draws, initial weights and
number of steps. EXP and STEP have about the same number of steps.

**Rules**, written before the runs. Errors are means over classes, on the test images, of head, torso, tail or all
classes. Differences are paired by seed; `chapters.intervals` alone decides. Only CIFAR-100 at ``cpu`` and ``paper``
decides, EXP and STEP separately.

- *negatives-f-const-tail*: tail error of batch constant minus each other standard scheme: all below.
- *negatives-f-beats-ce*: tail error of batch constant minus the cross entropy: below.
- *negatives-f-tail-weights*: tail error of batch tail minus each other batch scheme, the same for uniform: all below.
- *negatives-f-relative-head*: head error of batch relative minus batch constant: below.
- *negatives-f-q-matters*: tail error, relative minus constant under batch, minus the same under uniform: not zero.
- *negatives-f-limits*: tail error of logit adjustment minus the cross entropy: below; minus batch tail, on the tail and
  on all classes: below; the excess of batch tail with the fewest negatives minus that with the most: above.
- *negatives-fig-3*: mean tail error of the sampled contrastive schemes minus the cross entropy: above; the deviation of
  the contrastive schemes' balanced errors minus that of the softmax schemes': above.
- *negatives-fig-4-5*: balanced error of batch constant minus the cross entropy: below on either imbalance; the mean
  over all schemes and the full loss, contrastive minus softmax: above.
- *negatives-fig-6*: tail and balanced error with the fewest negatives minus the most, mean over schemes: above. The
  figure is about ImageNet-LT, so CIFAR-100 decides nothing.
- *negatives-fig-1* and *negatives-fig-7* need images that we lack.

An interval within `ALIKE` of zero is *no difference* if five times `ALIKE` is left on either side of both errors.

**Changed after the runs**, each time to claim less. A finding whose interval covers zero is undecided, and a claim with
two halves is open while one half is. Where the error to exceed leaves less than `ALIKE` of room, nothing is decided.
The tail weights' rivals are also the cross entropy and, in a second reading, the other law's schemes; both must agree.
"On either imbalance" looks twice, so each interval of *negatives-fig-4-5* has half of the 5 %. Four seeds of ``cpu``
were added to five: nine are the fewest with a sign test at the confidence of nine claims.

**Confirmation**, written after the ``cpu`` runs and before its own: 20 new seeds (`Plan.fresh`) of batch constant and
the cross entropy on EXP decide the first half of *negatives-fig-4-5*, by one interval.

**Prediction** (`chapters.models.sampled.prediction`), computed first: the mean offset of each method on head, torso and
tail, compared by Kendall's tau-b with the measured order, seed by seed.

**Profile** ``paper``: the small network, longer and wider, with all methods on both imbalances, and the paper's
ResNet-56 (`chapters.longtail.residual`) by the published schedule with the methods of Figure 1 alone, on EXP, 5 seeds,
activations in bfloat16 (`networks`); nobody has run it. At the measured rate (`seconds`) these ten methods take .66
hours of an H200; all 49 would take 3.2, and 10.8 on both imbalances. The ResNet-56 decides only rules all of whose
methods it has: the first five. Of networks of 20 layers on digits, trained by four methods with 8 seeds each, bfloat16
moved the mean error by -.025 to -.005, and the seeds of a method deviate by .007 to .030.
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
from sumexp.datasets.labelled import Imbalance

IMBALANCES: tuple[Imbalance, ...] = ("exp", "step")

ALIKE = 0.01
"""Differences of errors below one point count as none."""

FIGURE_1: tuple[Method, ...] = (
    Method(),
    Method(weighting="logit-adjusted"),
    *(Method("softmax", law, weighting, 32) for law in LAWS for weighting in SCHEMES),
)
"""The methods of the paper's Figure 1 on CIFAR-100-LT."""


@dataclass(frozen=True)
class Plan:
    """The training runs on a data set.

    Attributes:
        negatives: the base m, and the others.
        epochs: of EXP, and of STEP.
        fresh: number of seeds that confirm.
    """

    seeds: int
    negatives: tuple[int, ...]
    epochs: tuple[int, int]
    filters: int = 50
    hidden: int = 64
    batch: int = 128
    fresh: int = 0


_DIGITS = Plan(5, (8, 2, 24), (20, 9), filters=20, hidden=32, batch=32)
_WIDER = Plan(9, (32, 8, 96), (60, 26), filters=200, hidden=256)
FIRST_FRESH = 1000
"""The first of the seeds that confirm."""

PLANS: Mapping[str, Mapping[Source, Plan]] = {
    "smoke": {"digits": Plan(2, (8, 2), (3, 2), filters=8, hidden=16, batch=64, fresh=2)},
    "cpu": {source: Plan(9, (32, 8, 96), (20, 9), fresh=20) for source in ("cifar-100", "cifar-100-small")},
    "paper": {"cifar-100": _WIDER, "cifar-100-small": _WIDER},
}
"""By profile and data set; CIFAR-100's archive is preferred. Without CIFAR-100, `_DIGITS`."""

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


def configs(source: Source, plan: Plan) -> tuple[Stack, ...]:
    """The runs of a plan: for both imbalances every seed, with all methods."""
    compared = methods(plan.negatives)
    each = zip(IMBALANCES, plan.epochs, strict=True)
    return tuple(_stack(source, plan, p, compared, seed, n) for p, n in each for seed in range(plan.seeds))


def confirmation(source: Source, plan: Plan) -> tuple[Stack, ...]:
    """The runs that confirm: on EXP the cross entropy and batch constant, with fresh seeds."""
    seeds = range(FIRST_FRESH, FIRST_FRESH + plan.fresh)
    return tuple(_stack(source, plan, "exp", confirmed(plan), seed, plan.epochs[0]) for seed in seeds)


def confirmed(plan: Plan) -> tuple[Method, Method]:
    """The two methods of the confirmation, which asks whether the second has the smaller error."""
    return Method(), Method("softmax", "batch", "constant", plan.negatives[0])


def _stack(
    source: Source, plan: Plan, imbalance: Imbalance, compared: tuple[Method, ...], seed: int, epochs: int
) -> Stack:
    return Stack(source, imbalance, compared, seed, plan.filters, plan.hidden, epochs, plan.batch)


def networks(present: Present) -> tuple[Residual, ...]:
    """The runs of the paper's network on EXP: from the archive, else from the ready-made tail, else none."""
    sources: tuple[residual.Source, ...] = ("cifar-100", "cifar-100-lt")
    for source in filter(present, sources):
        return tuple(Residual(source, methods=FIGURE_1, seed=seed, precision="bfloat16") for seed in range(5))
    return ()


def task(config: Config) -> Task[Any]:
    """What trains a run."""
    return residual.train if isinstance(config, Residual) else training.train


def gathered(runs: Iterable[tuple[Config, ArrayLike]]) -> dict[Imbalance, dict[Method, Values]]:
    """The errors of each imbalance and method [seeds, C], from the ``errors`` [methods, C] of each config's run."""
    rows: dict[Imbalance, dict[Method, list[ArrayLike]]] = {}
    for config, errors in runs:
        for method, row in zip(config.methods, np.asarray(errors), strict=True):
            rows.setdefault(config.imbalance, {}).setdefault(method, []).append(row)
    return {key: {method: np.array(seeds, float) for method, seeds in each.items()} for key, each in rows.items()}


def forecasts(source: Source, plan: Plan) -> tuple[Forecast, ...]:
    """The predictions before the runs, one for each imbalance."""
    return tuple(
        Forecast(tuple(counts(source, imbalance).tolist()), methods(plan.negatives)) for imbalance in IMBALANCES
    )


def data(config: Config) -> tuple[str, ...]:
    """The data sets that the training of a run reads from the disk."""
    return () if config.source == "digits" else (config.source,)


def seconds(config: Config) -> dict[str, float]:
    """The length of a run.

    A step of 128 images takes a residual network of 56 layers 4.3 s on one core. Seven side by side in bfloat16 take
    15.5 ms on an H200 (torch 2.11, deterministic convolutions, a CUDA graph), 2.2 ms each. The small network takes 13
    ms a step and 1.2 ms for each method on one core, and .055 ms for each method on an H200.
    """
    steps = config.epochs * (int(counts(config.source, config.imbalance).sum()) // config.batch)
    count = len(config.methods)
    if isinstance(config, Residual):
        return {"cpu": 4.3 * steps * count, "cuda": 0.0022 * steps * count}
    each = 0.013 + 0.0012 * count * config.hidden / 64
    return {"cpu": 2 + steps * each, "cuda": 2 + 5.5e-5 * count * steps}


def jobs(profile: str, present: Present) -> tuple[Job, ...]:
    """The runs of a profile on the available images, the predictions first."""
    source, plan = chosen(profile, [name for name in get_args(Source) if present(name)])
    predicted = (Job(predict, forecast) for forecast in forecasts(source, plan))
    trained: list[Config] = [*configs(source, plan), *confirmation(source, plan)]
    if profile == "paper":
        trained += networks(present)
    return (*predicted, *(Job(task(config), config, data(config), seconds(config)) for config in trained))


GRIDS: Mapping[str, Grid] = {"longtail": jobs}
