r"""What perturbed softmaxes and argmaxes can represent, exactly.

For parameters :math:`\theta` and i.i.d. perturbations :math:`\gamma_j`:

- `noises`: Gumbel, Gaussian, logistic, exponential, uniform, Cauchy and discrete noise;
- `softmax`: :math:`\mathbb E\,\mathrm{softmax}((\theta+\gamma)/\tau)`, its potential, Hessian and second moments.

Source: H. Cohen Indelman, T. Hazan, On the Statistical Representation Properties of the Perturb-Softmax and the
Perturb-Argmax Probability Distributions.
"""
