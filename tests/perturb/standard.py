"""The noise distributions of the package, each once: every rule is tested with all of them, so a new one goes here."""

from sumexp.perturb.noises import Cauchy, Exponential, Gaussian, Gumbel, Logistic, Uniform
from sumexp.perturb.transforms import Continuous

CONTINUOUS: tuple[Continuous, ...] = (Gumbel(), Gaussian(), Logistic(), Exponential(), Uniform(), Cauchy())
FINITE = tuple(noise for noise in CONTINUOUS if noise.finite_max)
"""Those whose maximum has a mean."""
