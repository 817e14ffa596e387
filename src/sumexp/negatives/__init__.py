"""The expected losses with sampled negatives, and their minima.

- `schemes`: the sampling distribution and weights of a label, with both conventions for the positive;
- `implicit`: the exact expectation of the sampled cross entropy, its variance, and Jensen's bound;
- `gradients`: exact mean, bias and variance of the stochastic gradient, by class or by group of classes;
- `decoupled`: the sampled decoupled loss, whose mean and variance are closed forms;
- `asymptotics`: the expansion of the implicit loss and of its squared error in powers of 1/m;
- `population`: losses over a population, whose minima show the classes that they favour;
- `consistency`: the minima of all losses, and the losses that are consistent.

Source: A. S. Rawat et al., Disentangling Labeling and Sampling Bias for Learning in Large-output Spaces.
"""

from sumexp.negatives.asymptotics import Expansion, expansion
from sumexp.negatives.gradients import GradientMoments, gradient_moments, group_moments
from sumexp.negatives.implicit import ImplicitLoss, implicit_loss
from sumexp.negatives.population import Losses, margin_losses
from sumexp.negatives.schemes import Scheme, exclude, log_prior, model_based, scheme, targeting, uniform

__all__ = [
    "Expansion",
    "GradientMoments",
    "ImplicitLoss",
    "Losses",
    "Scheme",
    "exclude",
    "expansion",
    "gradient_moments",
    "group_moments",
    "implicit_loss",
    "log_prior",
    "margin_losses",
    "model_based",
    "scheme",
    "targeting",
    "uniform",
]
