r"""The methods and data of each profile, and the rule that decides each claim.

**Design.** Cross entropy and contrastive loss x all labels, uniform and within-batch negatives x constant, importance
and relative weights, as published, and the tail weights; m = 64, hits masked. A run is a method and a seed; runs of one
seed share initial weights, order, draws and the validation pairs that pick learning rate and epoch.

**Rules**, written before the runs. Recall is over the test pairs of a group's labels, pooled; head, torso and tail by
the 66 % and 33 % quantiles of the training frequencies. Differences are paired by seed, and `chapters.intervals` alone
decides. The test examples are one sample, the same for all: drawing them again moves a difference of tail recalls by
.002 to .005 (standard deviation), which no interval over seeds contains. Delicious decides.

- *negatives-f-within-tail*: tail recall at 10 of batch minus uniform at the same weights: all above. (Written before
  the runs with tuned rates; at one untuned rate the sign for relative weights depended on the rate. Added after them:
  minus the cross entropy, a second reading, which must agree.)
- *negatives-f-uniform-head*, *negatives-fig-8*: for uniform sampling with each of the three weights and the cross
  entropy, recall at 10 on head minus torso, and on torso minus tail: all above.
- *negatives-fig-2*, *negatives-fig-9-10*, *negatives-f-trade-off*: open; the chapter gives the numbers.

An interval within `ALIKE` of zero is *no difference* where there is room (`chapters.intervals.outcome`).

**Predictions**, written before the runs. The offset of each method for the training frequencies predicts the order of
recall at 10 on head, torso and tail. The method whose offset is nearer to 0 has the higher precision at 5, and the
one whose offset is nearer to -log p of the propensities the higher propensity-scored precision at 5
(`chapters.retrieval.summary`). Kendall's tau over the softmax methods measures both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from sumexp import _checks as checks
from sumexp.chapters.jobs import Grid, Job, Present
from sumexp.chapters.models.sampled.methods import LAWS, SCHEMES, Loss, Method
from sumexp.chapters.retrieval.informed import Informed, explain
from sumexp.chapters.retrieval.outlook import Outlook, predict
from sumexp.chapters.retrieval.training import Config, Source, train

ALIKE = 0.01
"""Differences of recall below one point count as none."""

LOSSES: tuple[Loss, ...] = ("softmax", "contrastive")


@dataclass(frozen=True)
class Plan:
    """The training runs on a data set.

    Attributes:
        seeds: of the softmax loss; 7 are the fewest with a sign test at the confidence of three claims.
        negatives: m.
        contrastive: number of seeds of the contrastive loss, which decides no claim.
        informed: number of features of `chapters.retrieval.informed`.
    """

    seeds: int
    negatives: int
    epochs: int
    width: int = 512
    batch: int = 256
    rates: tuple[float, ...] = (0.01, 0.03)
    contrastive: int = 3
    informed: int = 6


_WORDS = Plan(5, 64, 2, width=64, rates=(0.1, 0.3))
PLANS: Mapping[str, Mapping[Source, Plan]] = {
    "smoke": {"shakespeare": Plan(2, 16, 1, width=16, batch=1024, rates=(0.3,), contrastive=2, informed=1)},
    "cpu": {"delicious": Plan(7, 64, 2), "bibtex": Plan(7, 64, 8)},
    "paper": {"delicious": Plan(8, 64, 20), "bibtex": Plan(8, 64, 100)},
}
"""By profile and data set; without either data set, `_WORDS`."""

_PAIRS: Mapping[Source, int] = {"delicious": 246_000, "bibtex": 11_700, "shakespeare": 25_000}
"""Training pairs, rounded."""


def methods(negatives: int) -> tuple[Method, ...]:
    """The methods of the factorial."""
    return tuple(
        method
        for loss in LOSSES
        for method in (Method(loss), *(Method(loss, law, w, negatives) for law in LAWS for w in SCHEMES))
    )


def chosen(profile: str, sources: Sequence[str]) -> dict[Source, Plan]:
    """The data sets of a profile and their plans; a ValueError for an unknown profile."""
    checks.choice("profile", profile, PLANS)
    available = {source: plan for source, plan in PLANS[profile].items() if source in (*sources, "shakespeare")}
    return available or {"shakespeare": _WORDS}


def configs(source: Source, plan: Plan, some: Sequence[Method] = ()) -> tuple[Config, ...]:
    """The runs of a plan: each method, by default all of the factorial, with each of its seeds."""
    return tuple(
        Config(source, method, seed, plan.width, plan.epochs, plan.batch, plan.rates)
        for method in some or methods(plan.negatives)
        for seed in range(plan.contrastive if method.loss == "contrastive" else plan.seeds)
    )


def outlook(source: Source, plan: Plan) -> Outlook:
    """The prediction that comes before the runs."""
    return Outlook(source, methods(plan.negatives))


def explained(source: Source, plan: Plan) -> Informed:
    """The offsets for informative examples, added after the runs to explain them."""
    sampled = tuple(method for method in methods(plan.negatives) if method.loss == "softmax" and method.law != "all")
    return Informed(source, sampled, plan.informed)


def data(config: Config | Outlook | Informed) -> tuple[str, ...]:
    """The data sets that a run or a prediction reads from the disk."""
    return () if config.source == "shakespeare" else (config.source,)


def seconds(config: Config) -> dict[str, float]:
    """The rough length of a run: a step takes 5 ms on one core, 15 with all labels, and 1.1 ms on an H200."""
    steps = len(config.rates) * config.epochs * _PAIRS[config.source] / config.batch
    return {"cpu": (0.015 if config.method.law == "all" else 0.005) * steps, "cuda": 2 + 1.1e-3 * steps}


def jobs(profile: str, present: Present) -> tuple[Job, ...]:
    """The runs of a profile on the available data sets: predictions, training, explanations."""
    plans = chosen(profile, [name for name in get_args(Source) if present(name)])
    first = (outlook(source, plan) for source, plan in plans.items())
    trained = (config for source, plan in plans.items() for config in configs(source, plan))
    last = (explained(source, plan) for source, plan in plans.items())
    return (
        *(Job(predict, config, data(config)) for config in first),
        *(Job(train, config, data(config), seconds=seconds(config)) for config in trained),
        *(Job(explain, config, data(config)) for config in last),
    )


GRIDS: Mapping[str, Grid] = {"retrieval": jobs}
