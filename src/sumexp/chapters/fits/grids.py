"""The runs of the chapter: the published comparison, and those that explain it; unknown profiles are a ValueError."""

import math
from collections.abc import Mapping
from itertools import product
from typing import Literal

from sumexp import _checks as checks
from sumexp.chapters.fits import reach, targets, training
from sumexp.chapters.fits.targets import Name
from sumexp.chapters.fits.training import FitConfig
from sumexp.chapters.jobs import Grid, Job, Present
from sumexp.perturb.noises import FAMILIES, Family

Matching = Literal["unit", "variance", "gain"]
TEMPERATURES = (0.1, 1.0)
RATES = (0.01, 0.03, 0.1, 0.3, 1.0)
SEEDS = {"smoke": 2, "cpu": 5, "paper": 100}
MORE = {"discrete": 3, "binomial": 3, "negative-binomial": 2}
"""Factors on the number of seeds, where fewer cannot distinguish the families or Table 1 from our numbers."""
STEPS = {"smoke": 20, "cpu": 200, "paper": 200}
COLD = {"smoke": 1.0, "cpu": 0.1, "paper": 0.1}
"""The published temperature; ``smoke`` has no time to tabulate a low one."""
DEVIATIONS: dict[Family, float] = {
    "gaussian": 1.0,
    "gumbel": math.pi / math.sqrt(6),
    "logistic": math.pi / math.sqrt(3),
}
"""Standard deviations of the noises of scale 1."""


def sampled(target: Name, noise: Family, profile: str = "cpu") -> FitConfig:
    """The published protocol: draws, the public code's temperature, rate 0.01, several seeds."""
    checks.choice("profile", profile, STEPS)
    seeds = tuple(range(SEEDS[profile] * MORE.get(target, 1)))
    return FitConfig(target, noise, temperatures=(COLD[profile],), seeds=seeds, steps=STEPS[profile])


def matched(target: Name, noise: Family, matching: Matching, profile: str = "cpu") -> FitConfig:
    r"""Exact means, the public code's temperature, rate 0.01, with one quantity equal for all noise families.

    ``"unit"`` has scale 1, ``"variance"`` the Gumbel's variance :math:`\pi^2/6`, ``"gain"`` the Gumbel's first step, by
    a rate divided by the family's gain.
    """
    checks.choice("profile", profile, STEPS)
    settings = {"scale": 1.0, "rate": 0.01}
    if matching == "variance":
        settings["scale"] = DEVIATIONS["gumbel"] / DEVIATIONS[noise]
    elif matching == "gain":
        classes = len(targets.published(target).p)
        gumbel, other = (reach.gain(FAMILIES[family](), COLD[profile], classes) for family in ("gumbel", noise))
        settings["rate"] *= gumbel / other
    return FitConfig(
        target,
        noise,
        settings["scale"],
        temperatures=(COLD[profile],),
        rates=(settings["rate"],),
        samples=None,
        steps=STEPS[profile],
    )


def tuned(target: Name, noise: Family, profile: str = "cpu") -> FitConfig:
    """Exact means, all temperatures and rates."""
    checks.choice("profile", profile, STEPS)
    temperatures, rates = ((COLD[profile],), RATES[::3]) if profile == "smoke" else (TEMPERATURES, RATES)
    return FitConfig(target, noise, temperatures=temperatures, rates=rates, samples=None, steps=STEPS[profile])


def grid(profile: str) -> tuple[FitConfig, ...]:
    """All runs that the chapter asks for."""
    configs: list[FitConfig] = []
    for target, noise in product(targets.NAMES, FAMILIES):
        configs += [sampled(target, noise, profile), tuned(target, noise, profile)]
        configs += [matched(target, noise, matching, profile) for matching in ("unit", "variance", "gain")]
    return tuple(dict.fromkeys(configs))


def seconds(config: FitConfig) -> dict[str, float]:
    """The rough length of a fit by its exponentials, of draws or of 400 nodes; a step takes an H200 at least 7.5 ms."""
    each, rate = (400, 1.8e7) if config.samples is None else (config.samples, 4.2e7)
    terms = math.prod(config.members) * config.steps * each * len(config.law.p)
    return {"cpu": terms / rate, "cuda": 7.5e-3 * config.steps + 6e-11 * terms}


def jobs(profile: str, present: Present) -> tuple[Job, ...]:
    """All runs that the chapter asks for; none reads a data set."""
    return tuple(Job(training.train, config, seconds=seconds(config)) for config in grid(profile))


GRIDS: Mapping[str, Grid] = {"fits": jobs}
