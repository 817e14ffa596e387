r"""The distributions that perturbed softmaxes and argmaxes can represent, exactly.

For parameters :math:`\theta` and i.i.d. perturbations :math:`\gamma_j`:

- `noises`: Gumbel, Gaussian, logistic, exponential, uniform, Cauchy and discrete noise;
- `softmax`: :math:`\mathbb E\,\mathrm{softmax}((\theta+\gamma)/\tau)`, its potential, Hessian and variance;
- `argmax`: :math:`\mathbb P(i = \arg\max_j(\theta_j+\gamma_j))`, its potential and Jacobian;
- `batched`: the same for many rows at once, to the precision that training needs;
- `discrete`: the argmax with ties, its sub-differential, in rational arithmetic;
- `inversion`: from probabilities to parameters;
- `uniform`: two classes with uniform noise, in rational arithmetic;
- `representation`: parameter sets that represent every law, or each law once;
- `learner`: exact-gradient descent on a half space.

:mod:`sumexp.distributions` has both laws as ``torch.distributions``.

Source: H. Cohen Indelman, T. Hazan, On the Statistical Representation Properties of the Perturb-Softmax and the
Perturb-Argmax Probability Distributions.
"""

from sumexp.perturb.inversion import argmax_parameters, softmax_parameters
from sumexp.perturb.learner import Descent, descend
from sumexp.perturb.noises import Cauchy, Discrete, Exponential, Gaussian, Gumbel, Logistic, Uniform, point_mass, signs
from sumexp.perturb.representation import HalfSpace, nearest_attained, smallest_eigenvalue
from sumexp.perturb.transforms import Noise

__all__ = [
    "Cauchy",
    "Descent",
    "Discrete",
    "Exponential",
    "Gaussian",
    "Gumbel",
    "HalfSpace",
    "Logistic",
    "Noise",
    "Uniform",
    "argmax_parameters",
    "descend",
    "nearest_attained",
    "point_mass",
    "signs",
    "smallest_eigenvalue",
    "softmax_parameters",
]
