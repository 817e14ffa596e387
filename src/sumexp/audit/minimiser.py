r"""The minimum of the exact sampled risk over bins of classes, by Newton's method with the whole matrix.

As in `sumexp.negatives.consistency`, weights are products :math:`e^{a_y+b_{y'}}`, and with :math:`c_y = e^{a_y-f_y}`,
:math:`z_{y'} = e^{b_{y'}+f_{y'}}` all labels share one grid,

.. math:: R(f) = \sum_y P_y \int_0^\infty e^{-s/c_y}\big(1-e^{-\Lambda_y(s)}\big)\frac{ds}s, \qquad
          e^{-\Lambda_y(s)} = \mathbb E_y e^{-sZ}.

Negatives come from *pools*: m draws with replacement from q, :math:`\Lambda = -m\log(1-T)` with
:math:`T = \sum_y q_y(1-e^{-sz_y})`, several pools adding up; or from one set that holds each class by a coin of its own,
:math:`\Lambda = T = -\sum_y\log(1-\alpha_y(1-e^{-sz_y}))`. A bin of n classes enters with n; a hit that is left out
takes one class's part away. There the gradient and the matrix of second derivatives are sums over the nodes: products of
matrices [bins, nodes].
"""  # noqa: E501

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from sumexp.expectations import rule
from sumexp.samplers import Hits

Floats = NDArray[np.float64]

STRIDE = 4.0
"""The most by which a step may move a score, in nats."""


@dataclass(frozen=True)
class Binned:
    r"""A sampled loss on bins of classes, K bins and I pools.

    Attributes:
        count: [K] members.
        p: [K] the true probability :math:`P(y\mid x)` of each member, positive.
        q: [I, K] probability that a draw of the pool is a given member; of a coin, that it comes up.
        m: [I] draws from each pool; of no account for coins.
        coins: whether the negatives are one set of independent coins (I = 1).
        log_a: [K] the label's factor of the weights.
        log_b: [K] the negative's factor.
        hits: draws of the positive are counted, left out or made again.
    """

    count: Floats
    p: Floats
    q: Floats
    m: Floats
    coins: bool
    log_a: Floats
    log_b: Floats
    hits: Hits


class State:
    """What the risk and its derivatives are made of at scores f [K]; all arrays [K, nodes] unless said otherwise."""

    def __init__(self, problem: Binned, scores: Floats, tol: float = 1e-9) -> None:
        self.problem, self.scores = problem, scores
        log_c, log_z = problem.log_a - scores, problem.log_b + scores
        draws = problem.count.sum() if problem.coins else problem.m.sum()
        largest = log_z.max() + log_c.max() + math.log(draws)
        grid = rule(tol, max(largest, 0.0) + float(np.ptp(log_c)))
        self.step = grid.step
        u = grid.nodes().numpy() + log_c.max()
        self.log_t = u - log_c[:, None]
        self.t = np.exp(np.minimum(self.log_t, 690.0))
        self.kernel = grid.step * np.exp(-self.t)
        self.s = np.exp(np.minimum(u + log_z[:, None], 340.0))  # whose square is a float too; exp(-s) is 0 long before
        self.own = 0.0 if problem.hits == "keep" else 1.0
        self._pools()

    def _pools(self) -> None:
        """For each pool its parts e_k, their derivatives, and Lambda with its derivatives for each label."""
        b = self.problem
        gone, lost = np.exp(-self.s), -np.expm1(-self.s)
        moving = self.s * gone
        self.first, self.second, self.slope = [], [], []
        exponent = np.zeros_like(self.t)
        for q, m in zip(b.q[:, :, None], b.m, strict=True):
            if b.coins:
                certain = q >= 1  # among so many draws that the class is always there: its part is s itself
                q = np.where(certain, 0.0, q)
                left = 1 - q * lost
                part = np.where(certain, self.s, -np.log1p(-q * lost))
                first = np.where(certain, self.s, q * moving / left)
                second = np.where(certain, self.s, q * (1 - self.s) * moving / left + first**2)
                exponent = exponent + b.count @ part - self.own * part
                slope = np.ones_like(part)
            else:
                part, first, second = q * lost, q * moving, q * (1 - self.s) * moving
                total = b.count @ part - self.own * part
                remaining = (1 - b.count @ q) + b.count @ (q * gone) + self.own * part
                scale = 1 - q if b.hits == "redraw" else np.ones_like(q)
                if b.hits == "redraw":
                    total, remaining = total / scale, (remaining - q) / scale
                remaining = np.maximum(remaining, 1e-100)
                few = total < 0.5
                exponent = exponent - m * np.where(few, np.log1p(-np.where(few, total, 0.0)), np.log(remaining))
                slope = m / remaining / scale
            self.first.append(first)
            self.second.append(second)
            self.slope.append(slope)
        self.none = np.exp(-exponent)  # E exp(-sZ)
        self.some = -np.expm1(-exponent)

    @cached_property
    def weight(self) -> Floats:
        """What the labels of a bin weigh on each node."""
        return np.asarray((self.problem.count * self.problem.p)[:, None] * self.kernel)

    @property
    def losses(self) -> Floats:
        """The expected sampled loss of each label, [K]."""
        return np.asarray((self.kernel * self.some).sum(-1))

    @property
    def risk(self) -> float:
        """The expected sampled loss over the labels, in nats."""
        return float((self.weight * self.some).sum())

    def derivatives(self) -> tuple[Floats, Floats]:
        """The gradient [K] and the matrix of second derivatives [K, K] of the risk in the bins' scores."""
        b, own = self.problem, self.own
        count = b.count[:, None]
        down, down2 = -self.t * self.weight, (self.t - 1) * self.t * self.weight
        gradient = (down * self.some).sum(-1)
        diagonal = (down2 * self.some).sum(-1)
        size = len(b.count)
        matrix = np.zeros((size, size))
        alone = self.weight * self.none
        for i, (first, second) in enumerate(zip(self.first, self.second, strict=True)):
            pull = alone * self.slope[i]
            others = count * pull.sum(0) - own * pull
            gradient += (first * others).sum(-1)
            diagonal += (second * others).sum(-1)
            cross = down * self.none * self.slope[i]
            many = count * first
            matrix += cross @ many.T + many @ cross.T
            diagonal -= 2 * own * (cross * first).sum(-1)
            for j, other in enumerate(self.first):
                # a draw is no pair with itself: m (m - 1) of them
                pairs = alone * self.slope[i] * self.slope[j] * (1 - 1 / b.m[i] if i == j and not b.coins else 1.0)
                twice = count * other
                matrix -= (many * pairs.sum(0)) @ twice.T
                if own:
                    matrix += many @ (pairs * other).T + (pairs * first) @ twice.T
                    diagonal -= (pairs * first * other).sum(-1)
        matrix[np.diag_indices(size)] += diagonal
        return gradient, (matrix + matrix.T) / 2


def minimise(problem: Binned, start: Floats | None = None, tol: float = 1e-5) -> State:
    """The state at the scores of least risk, whose mean over the labels is that of log p.

    Args:
        problem: the loss.
        start: [K] scores to start at; log p if not given.
        tol: largest change of a score by the last step, in nats.

    Raises:
        ValueError: if the steps do not come below ``tol``: the minimum may lie at infinity.
    """
    mass = problem.count * problem.p
    root = np.sqrt(mass)
    flat = root / np.linalg.norm(root)
    truth = np.log(problem.p)
    state = State(problem, truth if start is None else start)
    for _ in range(80):
        gradient, matrix = state.derivatives()
        scaled = matrix / np.outer(root, root) + np.outer(flat, flat)
        step = -_solve(scaled, gradient / root) / root
        change = float(np.abs(step).max())
        if change <= tol:  # the steps square their size, so that this last one leaves the error of the quadrature
            state = State(problem, state.scores + step)
            break
        step *= min(1.0, STRIDE / change)
        risk = state.risk
        for halvings in range(40):
            trial = State(problem, state.scores + 0.5**halvings * step)
            if trial.risk <= risk + 1e-14 * abs(risk):
                break
        state = trial
    else:
        raise ValueError(f"the search still moves a score by {change:.1e} nats; is the minimum finite?")
    return State(problem, state.scores - mass @ (state.scores - truth) / mass.sum())


def _solve(matrix: Floats, right: Floats) -> Floats:
    try:
        return np.asarray(cho_solve(cho_factor(matrix), right))
    except np.linalg.LinAlgError:  # rounding: a little of the diagonal makes it positive again
        return np.asarray(cho_solve(cho_factor(matrix + 1e-9 * np.diag(np.diag(matrix))), right))
