r"""What sampling does to the loss and its gradient at given scores: means, biases and deviations over all labels.

The integrals are those of `sumexp.negatives.gradients`, for all labels at once: with :math:`t = s/c_y`,

.. math:: \mathbb E g_l = \int (-\partial_{T}e^{-\Lambda_y})\,\partial_{f_l}T\;e^{-s/c_y}\frac{ds}s, \qquad
          \mathbb E\ell^2 = -2\int(\log t+\gamma)\,e^{-t}\,(1-e^{-\Lambda_y})\,\frac{dt}t .
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sumexp.audit.minimiser import State

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """Averages over labels from P, at given scores.

    Attributes:
        loss: mean of the sampled loss, in nats.
        deviation: root of its mean variance over the samples, in nats.
        noise: root of the mean summed variance of the gradient in the logits over the samples.
        weight: [groups] expected gradient weight on the negatives of each group.
        full_weight: [groups] the same of the full softmax.
    """

    loss: float
    deviation: float
    noise: float
    weight: Floats
    full_weight: Floats


def moments(state: State, group: NDArray[np.int64], groups: int = 3) -> Moments:
    """Loss and gradient at the state's scores.

    Args:
        state: problem and scores.
        group: [bins] the group of each bin.
        groups: their number.
    """
    b = state.problem
    mass = b.count * b.p
    second = -2 * (state.kernel * state.some * (state.log_t + np.euler_gamma)).sum(-1)
    losses = state.losses
    alone = state.kernel * state.none
    mean = np.zeros((len(mass), len(mass)))  # [label, class]: one member's expected coordinate
    squares = np.zeros(len(mass))  # sum over the classes other than the label
    total = np.zeros(len(mass))  # of the label's coordinate, minus that sum
    for i, first in enumerate(state.first):
        pull = alone * state.slope[i]
        mean += pull @ first.T
        single = first * state.s
        alike = (pull * (b.count @ single - single)).sum(-1)
        squares += alike
        total += alike
        for j, other in enumerate(state.first):
            pairs = alone * state.slope[i] * state.slope[j]
            if i == j and not b.coins:
                pairs = pairs * (1 - 1 / b.m[i])
            both = first * other
            same = b.count @ both - both
            many = (b.count @ first - first) * (b.count @ other - other)
            if b.coins:
                total += (pairs * (many - same)).sum(-1)
            else:
                squares += (pairs * same).sum(-1)
                total += (pairs * many).sum(-1)
    others = b.count * mean
    others[np.diag_indices(len(mass))] -= np.diag(mean)
    variance = squares - (others * mean).sum(-1) + total - others.sum(-1) ** 2
    member = np.eye(groups)[group]
    f = state.scores - state.scores.max()
    softmax = np.exp(f) / (b.count @ np.exp(f))
    return Moments(
        float(mass @ losses),
        float(np.sqrt(max(0.0, mass @ np.maximum(second - losses**2, 0.0)))),
        float(np.sqrt(max(0.0, mass @ np.maximum(variance, 0.0)))),
        mass @ (others @ member),
        (b.count * softmax) @ member - (mass * softmax) @ member,
    )
