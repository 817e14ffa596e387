r"""The runs of each profile on the catalogue, and the rule that decides each claim.

**Design.** Each of :func:`methods` trains towers with a bias per item, and those of :func:`bare` also without. A run is
a method, a model and a seed: it trains at each of `RATES`, and its validation pairs pick rate and epoch, so all methods
are tuned alike. The methods of a seed share the split of the pairs, the initial vectors and the order.

**Rules**, written before the runs. Methods are compared by Recall@20 of held pairs, f served; differences are paired by
seed, and `chapters.intervals` alone decides.

- *correction*: towers trained without log q, f served, minus *kept* (log q subtracted from every logit, hits kept), in
  both models: all below.
- *refined*: refined minus kept within `ALIKE` of zero, in both models.
- *drift*: kept with log q added once more, with a bias per item: more of the public pairs and fewer of the held ones.

All other differences decide nothing.

**Prediction** (`outlook`), computed first: the expected Recall@20 at the exact minima, whose order is compared with the
measured one. The comparison by KL was added after the runs.

The rates come from runs of *kept* and *full* with another seed. The plan for ``cpu`` cuts users, items, width and
epochs to half an hour on one core. Seven seeds are the fewest with a sign test at the confidence of three claims; the
last three, and most of the models without a bias per item, were added after runs of the others had been seen.

All of Gowalla (``paper``) comes with the book for :func:`decisive` methods, chosen after the part (``cpu``) had left
*refined* and *drift* open, and with a bias per item for all others but *full*. Where all decisive runs are there, they
decide the claims. Their five seeds allow no sign test: the intervals are 2.25 times Student's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import get_args

from sumexp._runtime import Arrays
from sumexp.chapters.catalogue.baseline import Baseline, judge
from sumexp.chapters.catalogue.forms import FORMS, Form
from sumexp.chapters.catalogue.outlook import Outlook, predict
from sumexp.chapters.catalogue.pairs import Source
from sumexp.chapters.catalogue.training import Config, train
from sumexp.chapters.jobs import Grid, Job, Present

ALIKE = 0.01
"""Differences of recall below one point count as none."""

RATES = (0.02, 0.06)


@dataclass(frozen=True)
class Method:
    """A form, and for ``popularity`` and ``gbce`` its number of draws m."""

    form: Form
    negatives: int = 0


@dataclass(frozen=True)
class Plan:
    """The training runs on a catalogue.

    Attributes:
        least: the fewest training pairs of an item.
        draws: numbers of negatives by popularity.
        uniform: number of negatives of gBCE.
        rates: learning rates that validation pairs choose from.
        contexts: users that the prediction is made for.
    """

    seeds: int
    users: int
    least: int = 1
    dim: int = 32
    batch: int = 128
    epochs: int = 6
    draws: tuple[int, ...] = (16, 64)
    uniform: int = 64
    rates: tuple[float, ...] = RATES
    contexts: int = 4


PLANS: Mapping[str, Mapping[Source, Plan]] = {
    "smoke": {"synthetic": Plan(2, 100, dim=8, batch=64, epochs=2, draws=(16,), uniform=16, rates=(0.06,), contexts=1)},
    "cpu": {"gowalla": Plan(7, 3000, 6, 32, 512, 10, (16, 128, 1024), 256, contexts=16)},
    "paper": {"gowalla": Plan(5, 29_858, 1, 64, 1024, 20, (16, 128, 1024), 256, contexts=16)},
}
"""By profile; where Gowalla is absent, `DRAWN`."""

DRAWN = Plan(3, 400)


def methods(plan: Plan) -> tuple[Method, ...]:
    """All methods of a plan."""
    several: Mapping[Form, tuple[int, ...]] = {"popularity": plan.draws, "gbce": (plan.uniform,)}
    return tuple(Method(form, m) for form in FORMS for m in several.get(form, (0,)))


def bare(plan: Plan) -> tuple[Method, ...]:
    """The methods that are also trained without biases: of several numbers of draws the middle one."""
    left_out = {draws for draws in plan.draws if draws != plan.draws[len(plan.draws) // 2]}
    return tuple(method for method in methods(plan) if method.form != "popularity" or method.negatives not in left_out)


def chosen(profile: str, sources: Sequence[str]) -> dict[Source, Plan]:
    """The available or a synthetic catalogue with its plan; a ValueError for an unknown profile."""
    if profile not in PLANS:
        raise ValueError(f"profile is {profile!r}, expected one of {', '.join(PLANS)}")
    plans = {source: plan for source, plan in PLANS[profile].items() if source in (*sources, "synthetic")}
    return plans or {"synthetic": DRAWN}


def config(source: Source, plan: Plan, method: Method, number: bool, seed: int) -> Config:
    """The run of a method."""
    return Config(
        source, method.form, number, seed, users=plan.users, least=plan.least, dim=plan.dim, batch=plan.batch,
        negatives=method.negatives, epochs=plan.epochs, rates=plan.rates,
    )  # fmt: skip


def configs(source: Source, plan: Plan) -> tuple[Config, ...]:
    """The runs of a plan, seed by seed."""
    models = [(method, True) for method in methods(plan)] + [(method, False) for method in bare(plan)]
    return tuple(config(source, plan, method, number, seed) for seed in range(plan.seeds) for method, number in models)


def by_method(source: Source, plan: Plan) -> tuple[tuple[Config, ...], ...]:
    """The runs of a plan, for each method and model those of all seeds."""
    groups: dict[Config, list[Config]] = {}
    for run in configs(source, plan):
        groups.setdefault(replace(run, seed=0), []).append(run)
    return tuple(map(tuple, groups.values()))


def decisive(source: Source, plan: Plan) -> tuple[Config, ...]:
    """Those of a plan that the rules of the claims compare, seed by seed."""
    forms: tuple[Form, ...] = ("none", "kept", "refined")
    return tuple(run for run in configs(source, plan) if run.form in forms)


def outlook(source: Source, plan: Plan) -> Outlook:
    """The prediction of a plan."""
    return Outlook(source, FORMS, plan.users, plan.least, plan.dim, plan.batch, contexts=plan.contexts)


def baselines(source: Source, plan: Plan) -> tuple[Baseline, ...]:
    """The list of the most frequent items, for each seed."""
    return tuple(Baseline(source, plan.users, plan.least, seed) for seed in range(plan.seeds))


def data(asked: Config | Outlook | Baseline) -> tuple[str, ...]:
    """The data sets that a run reads."""
    return () if asked.source == "synthetic" else (asked.source,)


def seconds(asked: Config) -> dict[str, float]:
    """The rough length of a run; on all of Gowalla training at a rate ends after some 5 epochs.

    A step takes 6 to 19 ms on one core, over all items 1.2 s; on an H200 .5 ms, 1.3 over all items. The evaluation
    after each epoch takes 10 s and 1 s.
    """
    pairs, epochs = {3_000: (20_799, 10), 29_858: (648_104, 5)}.get(asked.users, (10 * asked.users, asked.epochs))
    share, epochs, is_full = asked.users / 29_858, epochs * len(asked.rates), asked.form == "full"
    steps = epochs * pairs / asked.batch
    on_cpu, on_gpu = 5e-3 + 1.4e-2 * share + 1.2 * is_full * share**2, 5e-4 + 8e-4 * is_full
    return {"cpu": on_cpu * steps + 10 * share**2 * epochs, "cuda": on_gpu * steps + share * epochs}


def jobs(profile: str, present: Present) -> tuple[Job, ...]:
    """The runs of a profile: the prediction, the baselines, the training."""
    plans = chosen(profile, [name for name in get_args(Source) if name != "synthetic" and present(name)])
    first = (outlook(source, plan) for source, plan in plans.items())
    lists = (each for source, plan in plans.items() for each in baselines(source, plan))
    then = (each for source, plan in plans.items() for each in configs(source, plan))
    return (
        *(Job(predict, each, data(each)) for each in first),
        *(Job(judge, each, data(each)) for each in lists),
        *(
            Job(train, each, data(each), seconds=seconds(each), condense=partial(_condensed, first=not place))
            for place, each in enumerate(then)
        ),
    )


def _condensed(arrays: Arrays, first: bool) -> Arrays:
    """Without the counts of the items, but for one run: each repeats them."""
    return {name: values for name, values in arrays.items() if first or name != "counts"}


GRIDS: Mapping[str, Grid] = {"catalogue": jobs}
