"""The runs of the chapter: the published comparison, and those that explain it; unknown profiles are a ValueError."""

import math
from collections.abc import Mapping
from itertools import product
from typing import Literal

from sumexp import _checks as checks
from sumexp.chapters.fits import reach, targets, training
from sumexp.chapters.fits.targets import Name
from sumexp.chapters.fits.training import NOISES, Family, FitConfig
from sumexp.chapters.jobs import Grid, Job, Present

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
        gumbel, own = (reach.gain(NOISES[family](), COLD[profile], classes) for family in ("gumbel", noise))
        settings["rate"] *= gumbel / own
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
    for target, noise in product(targets.NAMES, NOISES):
        configs += [sampled(target, noise, profile), tuned(target, noise, profile)]
        configs += [matched(target, noise, matching, profile) for matching in ("unit", "variance", "gain")]
    return tuple(dict.fromkeys(configs))


def jobs(profile: str, present: Present) -> tuple[Job, ...]:
    """All runs that the chapter asks for; none reads a data set."""
    return tuple(Job(training.train, config, seconds=training.seconds(config)) for config in grid(profile))


GRIDS: Mapping[str, Grid] = {"fits": jobs}
