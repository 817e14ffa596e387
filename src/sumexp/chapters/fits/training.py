r"""Fits of a perturbed softmax to a target by Adam: from samples, as published, and with exact means.

The distribution of a member is :math:`q = \mathbb E\,\mathrm{softmax}((\theta+\sigma\gamma)/\tau)`. With ``samples`` it
is replaced at each step by the mean of n fresh draws, as in the public code. Otherwise q and its Jacobian H are exact
(:mod:`sumexp.perturb.softmax`), and the gradient of an objective F is :math:`H\,\nabla F(q)`. All temperatures, rates
and seeds are trained at once on the same uniform numbers, which fits with different noises and equal seeds share.

Source: Cohen Indelman and Hazan, sections 6.1 and 9.1.
"""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Generator, Tensor

from sumexp import _checks as checks
from sumexp._runtime import NO_CHECKPOINT, Checkpoint, Progress, Result
from sumexp.chapters.fits import objectives, targets
from sumexp.chapters.fits.objectives import Objective
from sumexp.chapters.fits.targets import Name, Target
from sumexp.perturb import softmax
from sumexp.perturb.noises import FAMILIES, Family
from sumexp.perturb.transforms import Continuous

BETAS, EPS = (0.9, 0.999), 1e-8


@dataclass(frozen=True)
class FitConfig:
    """Settings of a fit; the defaults are the public code's, with the paper's number of samples.

    Attributes:
        scale: factor of the noise.
        temperatures: T temperatures.
        rates: R learning rates of Adam.
        samples: draws for each step; None for exact means, which need no seed.
        seeds: S seeds of the draws; ignored with exact means.
        dropped: bound on the mass that truncation drops; None for the public code's classes.

    Raises:
        ValueError: if a list is empty, a number is not positive, or a name is unknown.
    """

    target: Name
    noise: Family
    scale: float = 1.0
    temperatures: tuple[float, ...] = (0.1,)
    rates: tuple[float, ...] = (0.01,)
    samples: int | None = 1000
    steps: int = 200
    seeds: tuple[int, ...] = (0,)
    objective: Objective = "reverse"
    dropped: float | None = None

    def __post_init__(self) -> None:
        checks.choice("noise", self.noise, FAMILIES)
        for field in ("temperatures", "rates", "seeds"):
            if not getattr(self, field):
                raise ValueError(f"{field} is empty; give at least one")
        positive = {"scale": (self.scale,), "temperatures": self.temperatures, "rates": self.rates}
        positive |= {"steps": (self.steps,), "samples": (1 if self.samples is None else self.samples,)}
        for field, numbers in positive.items():
            if not min(numbers) > 0:
                raise ValueError(f"{field} is {getattr(self, field)}; it must be > 0")

    @property
    def law(self) -> Target:
        """The target, truncated."""
        if self.dropped is None:
            return targets.published(self.target)
        return targets.window(self.target, self.dropped)

    @property
    def perturbation(self) -> Continuous:
        """The noise, scaled."""
        return FAMILIES[self.noise](scale=self.scale)

    @property
    def members(self) -> tuple[int, int, int]:
        """Numbers of temperatures, rates and seeds, (T, R, S); with exact means S = 1."""
        return len(self.temperatures), len(self.rates), 1 if self.samples is None else len(self.seeds)


def train(
    config: FitConfig, /, *, device: str = "cpu", progress: Progress = iter, checkpoint: Checkpoint = NO_CHECKPOINT
) -> Result:
    r"""Minimise the objective from :math:`\theta = 0`, where the distribution is uniform.

    Returns:
        arrays: ``objective`` [T, R, S, steps + 1] before every step and at the end, of the draws' mean if there are
        draws; ``theta``, ``law`` [T, R, S, K], the last parameters and their exact distribution; ``final`` [T, R, S],
        its exact objective;
        metrics: ``final``, the smallest of these.
    """
    p = config.law.p.to(device)
    law = _drawn if config.samples is not None else _exact
    generators = [Generator(device).manual_seed(seed) for seed in config.seeds]
    theta = torch.zeros(*config.members, len(p), dtype=torch.float64, device=device)
    rates = torch.tensor(config.rates, dtype=torch.float64, device=device)[:, None, None]
    first, second = torch.zeros_like(theta), torch.zeros_like(theta)
    curve = []
    for step in progress(range(config.steps + 1)):
        reached, gradient = law(theta, p, config, generators)
        curve.append(reached)
        if step < config.steps:
            first = BETAS[0] * first + (1 - BETAS[0]) * gradient
            second = BETAS[1] * second + (1 - BETAS[1]) * gradient.square()
            mean, square = first / (1 - BETAS[0] ** (step + 1)), second / (1 - BETAS[1] ** (step + 1))
            theta = theta - rates * mean / (square.sqrt() + EPS)
    pairs = zip(theta, config.temperatures, strict=True)
    laws = torch.stack([softmax.mean(part, config.perturbation, tau) for part, tau in pairs])
    final = objectives.value(config.objective, laws, p)
    arrays = {"objective": torch.stack(curve, -1), "theta": theta, "law": laws, "final": final}
    return Result({name: array.cpu().numpy() for name, array in arrays.items()}, {"final": final.min().item()})


def _exact(theta: Tensor, p: Tensor, config: FitConfig, generators: list[Generator]) -> tuple[Tensor, Tensor]:
    """Objective [T, R, S] and its gradient [T, R, S, K], by integrals."""
    upstream = partial(objectives.slope, config.objective, p=p)
    both = [
        softmax.mean_and_pull(part, upstream, config.perturbation, tau)
        for part, tau in zip(theta, config.temperatures, strict=True)
    ]
    laws, pulled = (torch.stack(parts) for parts in zip(*both, strict=True))
    return objectives.value(config.objective, laws, p), pulled


def _drawn(theta: Tensor, p: Tensor, config: FitConfig, generators: list[Generator]) -> tuple[Tensor, Tensor]:
    """The same for the mean of fresh draws, in single precision, shared by all temperatures and rates."""
    assert config.samples is not None
    shape = (config.samples, len(p))
    uniform = torch.stack([torch.rand(shape, dtype=torch.float32, generator=g, device=g.device) for g in generators])
    noise = config.perturbation.from_logit(torch.logit(uniform.clamp(2.0**-25, 1 - 2.0**-24)))
    values, gradients = theta.new_empty(config.members), torch.empty_like(theta)
    for t, tau in enumerate(config.temperatures):
        for r in range(len(config.rates)):
            draws = torch.softmax((theta[t, r, :, None].float() + noise) / tau, -1)
            mean = draws.mean(-2)
            along = objectives.slope(config.objective, mean, p.float())
            inner = (draws @ along.unsqueeze(-1)).squeeze(-1)  # of each draw with the upstream gradient, [S, n]
            pulled = mean * along - (inner.unsqueeze(-2) @ draws).squeeze(-2) / config.samples
            gradients[t, r] = pulled / tau
            values[t, r] = objectives.value(config.objective, mean.double(), p)
    return values, gradients
