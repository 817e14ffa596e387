r"""The stacks of each profile, their data and cost, and the rule that decides each question.

**Design.** Training divergence (``softmax``, as published; ``exact``, of the law that the noise induces) x temperature
x noise, with the same epochs and paired seeds. Gumbel noise of unit scale has one divergence, so `CORE` has three
families; they are crossed with every temperature of the profile: fixed ones, and the public schedule, compressed into
the run. `SIDE` has other variances and logistic noise, each with both divergences, at the public schedule. The two
published families also train `LONGER` times as long. A stack is one data set and one length; at ``paper`` it has up to
`Plan.width` models of several temperatures.

**Rules**, written before the runs. Differences are Gaussian minus Gumbel, both of unit scale, in nats per image, with
95 % intervals over seeds (paired) and, separately, over test images.

- *perturb-f-vae*: by the training loss of the last epoch ("better") and in the mean over all ("faster"), published
  divergence, on MNIST, Fashion-MNIST and Omniglot separately. The paper's temperature is lost in our text: the claim
  holds if the interval lies below zero at every temperature, is not reproduced if it lies above at every one, and is
  open otherwise.
- *Is the Gaussian better?*: by loss, published number, true bound and importance-weighted estimate on test images, at
  each temperature, and at the temperatures that validation images pick. Better or worse: both intervals lie on that
  side of zero.
- The same at the public schedule after `LONGER` times as many epochs, by number of importance samples (equal for both),
  and at ``cpu`` after the 300 epochs of ``paper``, by intervals over seeds alone (added after the short runs).
- *Noise or divergence?*: Gumbel noise of the unit Gaussian's variance minus Gumbel of unit scale, at the public
  schedule. (Added after a first look at the digits.)
- The same differences for every family of `SIDE`. (Written before its runs, after those at the public schedule.)

Six seeds are the fewest with a sign test at 95 %; the last two of ``cpu`` were added, in separate stacks, after the
runs of the first four had been seen. ``smoke`` decides no claim. ``paper`` trains MNIST, Fashion-MNIST and Omniglot for
300 epochs with 8 seeds: about half an hour on an H200 by :func:`seconds`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, get_args

from sumexp import _checks as checks
from sumexp.chapters.jobs import Grid, Job, Present
from sumexp.chapters.vae.baseline import Constant, judge
from sumexp.chapters.vae.comparison import condensed
from sumexp.chapters.vae.config import Divergence, Member, Source, Stack, Temperature, fixed, public
from sumexp.chapters.vae.training import train
from sumexp.perturb.noises import Family

MATCHED = math.sqrt(math.pi**2 / 6)
"""The scale at which a Gaussian has the variance of the standard Gumbel."""

GUMBEL, GAUSSIAN, EXACT = Member("gumbel"), Member("gaussian"), Member("gaussian", divergence="exact")
CORE = (GUMBEL, GAUSSIAN, EXACT)
"""The families that are crossed with every temperature."""

_SIDE: tuple[tuple[Family, float], ...] = (
    ("gumbel", 1 / MATCHED),
    ("gaussian", MATCHED),
    ("logistic", 1.0),
    ("logistic", MATCHED * math.sqrt(3) / math.pi),
)
SIDE = tuple(Member(noise, scale, kind) for noise, scale in _SIDE for kind in get_args(Divergence))
"""The families that are added at the public schedule: other variance, and logistic noise."""

LONGER = 3
"""How many times as long the longer runs are."""

TEMPERATURES = (0.1, 0.15, 0.25, 0.4, 0.6, 1.0)


@dataclass(frozen=True)
class Plan:
    """The training runs on a data set.

    Attributes:
        epochs: of every run but the longer ones.
        temperatures: the fixed ones.
        side: whether `SIDE` is trained, at the public schedule.
        longer: whether the longer runs are trained.
        settings: other fields of the stacks.
        importance: samples for the estimate of -log p(x) at the public schedule, where it is shown to have converged.
        width: the most models of a stack that has several temperatures; by default each stack has one.
        together: the seeds of one stack; 0 means all.
    """

    epochs: int
    seeds: int
    temperatures: Sequence[float] = ()
    side: bool = False
    longer: bool = False
    settings: Mapping[str, Any] | None = None
    importance: int = 100
    width: int = 0
    together: int = 0


_TINY = {"batch": 200, "hidden": 30, "samples": 2, "importance": 3, "test_images": 60}
_SMALL = {"samples": 10, "importance": 100, "test_images": 1000}
_PAPER = Plan(300, 8, TEMPERATURES, True, False, {**_SMALL, "importance": 1000, "test_images": 2000}, 5000, 144)
PLANS: Mapping[str, Mapping[Source, Plan]] = {
    "smoke": {"digits": Plan(1, 2, (0.25, 1.0), True, True, _TINY, 10)},
    "cpu": {
        "digits": Plan(20, 6, (0.1, 0.25, 0.4, 1.0), True, True, _SMALL, 300, together=4),
        "mnist": Plan(7, 6, TEMPERATURES[1:], True, True, _SMALL, 300, together=4),
        "fashion-mnist": Plan(3, 6, settings=_SMALL, together=4),
        "omniglot": Plan(3, 6, settings=_SMALL, together=4),
    },
    "paper": {"mnist": _PAPER, "fashion-mnist": _PAPER, "omniglot": _PAPER},
}
"""By profile and data set; where MNIST is absent ``paper`` trains what ``cpu`` does."""

_SIZES: Mapping[Source, tuple[int, int]] = {
    "digits": (64, 1_200),
    "mnist": (784, 50_000),
    "fashion-mnist": (784, 50_000),
    "omniglot": (784, 23_000),
}
"""Pixels, and number of training images."""


def grid(profile: str, sources: Sequence[str]) -> tuple[Stack, ...]:
    """The stacks of a profile; a ValueError for an unknown profile."""
    checks.choice("profile", profile, PLANS)
    available = {*sources, "digits"}
    plans = {source: plan for source, plan in PLANS[profile].items() if source in available}
    plans = plans or {"digits": PLANS["cpu"]["digits"]}
    return tuple(stack for source, plan in plans.items() for stack in stacks(source, plan))


def stacks(source: Source, plan: Plan) -> tuple[Stack, ...]:
    """The stacks of a plan on a data set, the public schedule first."""
    together = plan.together or plan.seeds
    groups = (range(plan.seeds)[start : start + together] for start in range(0, plan.seeds, together))
    return tuple(stack for seeds in groups for stack in _stacks(source, plan, seeds))


def _stacks(source: Source, plan: Plan, seeds: range) -> tuple[Stack, ...]:
    """The stacks of some seeds."""

    def stack(
        families: Sequence[Member], temperatures: Sequence[Temperature], epochs: int = plan.epochs, **settings: Any
    ) -> Stack:
        members = (
            replace(member, temperature=tau, seed=seed) for member in families for tau in temperatures for seed in seeds
        )
        return Stack(source, tuple(members), epochs=epochs, **{**(plan.settings or {}), **settings})

    def wide(families: Sequence[Member], temperatures: Sequence[Temperature]) -> Iterator[Stack]:
        at_once = max(1, plan.width // (len(families) * len(seeds)))
        for start in range(0, len(temperatures), at_once):
            yield stack(families, temperatures[start : start + at_once])

    schedule, longer = (public(epochs * steps(source)) for epochs in (plan.epochs, LONGER * plan.epochs))
    constant = [fixed(tau) for tau in reversed(plan.temperatures)]
    return (
        stack(CORE, [schedule], importance=plan.importance),
        *wide(CORE, constant),
        *([stack(CORE[:2], [longer], LONGER * plan.epochs)] if plan.longer else []),
        *([stack(SIDE, [schedule])] if plan.side else []),
    )


def steps(source: Source, batch: int = 100) -> int:
    """The steps of an epoch."""
    return math.ceil(_SIZES[source][1] / batch)


def published(source: Source) -> Stack:
    """`CORE` at the public schedule, trained as long as the public code trains: the first stack of ``paper``."""
    return stacks(source, _PAPER)[0]


def constants(asked: Sequence[Stack]) -> tuple[Constant, ...]:
    """The constant model on the images of some stacks."""
    return tuple(dict.fromkeys(Constant(stack.source, stack.test_images) for stack in asked))


def data(asked: Stack | Constant) -> tuple[str, ...]:
    """The data sets that the training of a stack, or the constant model, reads from the disk."""
    return () if asked.source == "digits" else (asked.source,)


def seconds(stack: Stack) -> dict[str, float]:
    """The rough length of a run: ms per step and member on one core, and of a captured step on an H200."""
    count, total = len(stack.members), stack.epochs * steps(stack.source, stack.batch)
    return {"cpu": total * count * (3e-3 + 5e-6 * _SIZES[stack.source][0]), "cuda": total * (2.2e-4 + 1.7e-5 * count)}


def jobs(profile: str, present: Present) -> tuple[Job, ...]:
    """The runs of a profile on the available data sets."""
    asked = grid(profile, [name for name in get_args(Source) if present(name)])
    first = {stack.source: stack for stack in reversed(asked)}
    cases = {source: _cases(stack) for source, stack in first.items()}
    in_full = [profile != "paper" and _cases(stack) == cases[stack.source] for stack in asked]
    slim = [
        partial(condensed, shown=judged and first[stack.source] is stack, judged=judged)
        for stack, judged in zip(asked, in_full, strict=True)
    ]
    return (
        *(Job(judge, constant, data(constant), condense=lambda _: {}) for constant in constants(asked)),
        *(Job(train, run, data(run), seconds=seconds(run), condense=of) for run, of in zip(asked, slim, strict=True)),
    )


def _cases(stack: Stack) -> set[Member]:
    return {replace(member, seed=0) for member in stack.members}


GRIDS: Mapping[str, Grid] = {"vae": jobs}
