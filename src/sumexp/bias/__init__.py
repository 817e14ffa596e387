r"""The bias of softmax estimators that read fewer than all negatives, and unbiased alternatives.

With :math:`a_i = e^{\hat y^-_i - \hat y^+}` the softmax of the target is :math:`F(a) = 1/(1 + \sum_i a_i)`.

- `proof`: the paper's own proof of its Theorem 3.1, executed in rational arithmetic;
- `reading`: schemes that read negatives one by one, and the exact law of what they have read;
- `certificates`: for a scheme and a box, the functional that proves that no estimator is unbiased;
- `minimax`: the minimax bias with k of n reads, exact up to n = 4,096;
- `estimators`: unbiased estimators that read few negatives on average, with their exact cost and variance;
- `sampled`: the exact bias of the sampled softmax and of its gradient on real logits.

Source: L.-C. Lin, Y. Liu, C.-J. Lin, Sampled Estimators For Softmax Must Be Biased.
"""

from sumexp.bias.certificates import Certificate, certify, cube_difference, mixed_difference
from sumexp.bias.estimators import Draws, Schedule, dyadic, moments, roulette, sample, two_valued_moments, variance
from sumexp.bias.minimax import Approximation, cost_variance_bound, cube, limit, lower_bound, reads_needed
from sumexp.bias.sampled import Bias, sampled_bias

__all__ = [
    "Approximation",
    "Bias",
    "Certificate",
    "Draws",
    "Schedule",
    "certify",
    "cost_variance_bound",
    "cube",
    "cube_difference",
    "dyadic",
    "limit",
    "lower_bound",
    "mixed_difference",
    "moments",
    "reads_needed",
    "roulette",
    "sample",
    "sampled_bias",
    "two_valued_moments",
    "variance",
]
