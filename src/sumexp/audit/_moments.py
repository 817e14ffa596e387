r"""What sampling does to the loss and its gradient at given scores: means, biases and deviations over all labels.

The integrals are those of `sumexp.negatives.gradients`, for all labels at once: with :math:`t = s/c_y`,

.. math:: \mathbb E g_l &= \int (-\partial_{T}e^{-\Lambda_y})\,\partial_{f_l}T\;e^{-s/c_y}\frac{ds}s, \\
          \mathbb E\ell^2 &= -2\int(\log t+\gamma)\,e^{-t}\,(1-e^{-\Lambda_y})\,\frac{dt}t .
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sumexp.audit._risks import SetState, State
from sumexp.audit._terms import take

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
    if isinstance(state, SetState):
        return _of_sets(state, group, groups)
    b = state.problem
    mass = b.count * b.p
    at = state.nodes
    second = -2 * (at.kernel * at.some * (at.log_t + np.euler_gamma)).sum(-1)
    alone = at.kernel * at.none
    mean = np.zeros((len(mass), len(mass)))  # [label, class]: one member's expected coordinate
    squares = np.zeros(len(mass))  # sum over the classes other than the label
    total = np.zeros(len(mass))  # of the label's coordinate, minus that sum
    for i, first in enumerate(at.first):
        pull = alone * at.slope[i]
        mean += pull @ first.T
        single = first * at.s
        alike = (pull * (b.count @ single - single)).sum(-1)
        squares += alike
        total += alike
        for j, other in enumerate(at.first):
            pairs = alone * at.slope[i] * at.slope[j]
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
    return _moments(state, group, groups, mean, second, squares, total)


def _of_sets(state: SetState, group: NDArray[np.int64], groups: int) -> Moments:
    r"""The same for a set of a fixed law, with :math:`\mathbb E\,X_lX_k/(1+X)^2` from pairs of its members."""
    n = state.problem.count[:, None]
    size = len(n)
    mean, squares, total, second, losses = np.zeros((size, size)), *np.zeros((4, size))
    for parts, t, kernel, left in state.parts():
        losses += (kernel * left).sum(1)
        second -= 2 * (kernel * left * (np.log(np.maximum(t, 1e-300)) + np.euler_gamma)).sum(1)
        for terms in parts:
            v = terms.part * take(kernel, terms.time)
            e = terms.pull
            joint = v * terms.rate
            mean += joint.real @ e.real.T - joint.imag @ e.imag.T
            # sums over the classes other than the label, which is a member of its own bin
            power_1, power_2 = ((n * each).sum(0) - each for each in (e, e * e))
            single = (n * e * terms.s).sum(0) - e * terms.s
            alike, pairs = joint * single, joint * (power_1**2 - power_2)
            if terms.own is not None:
                x = terms.turn
                mean -= v.real @ x.real.T - v.imag @ x.imag.T
                first, both = ((n * each).sum(0) - each for each in (x, e * x))
                alike -= v * ((n * x * terms.s).sum(0) - x * terms.s)
                pairs -= 2 * v * (power_1 * first - both)
            squares += alike.real.sum(1)
            total += (alike + pairs).real.sum(1)
    state.losses = losses
    return _moments(state, group, groups, mean, second, squares, total)


def _moments(
    state: State, group: NDArray[np.int64], groups: int, mean: Floats, second: Floats, squares: Floats, total: Floats
) -> Moments:
    """Averages over labels, from the mean of each coordinate [label, class] and the second moments [label]."""
    b, losses = state.problem, state.losses
    mass = b.count * b.p
    others = b.count * mean
    others[np.diag_indices(len(mass))] -= np.diag(mean)
    variance = squares - (others * mean).sum(-1) + total - others.sum(-1) ** 2
    member = np.eye(groups)[group]
    f = state.scores - state.scores.max()
    softmax = np.exp(f) / (b.count @ np.exp(f))
    return Moments(
        float(mass @ losses),
        float(np.sqrt(mass @ np.maximum(second - losses**2, 0.0))),
        float(np.sqrt(mass @ np.maximum(variance, 0.0))),
        mass @ (others @ member),
        (b.count * softmax) @ member - (mass * softmax) @ member,
    )
