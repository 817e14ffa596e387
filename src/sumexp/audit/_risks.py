r"""The exact sampled risk over bins of classes, with its derivatives, and its minimum by Newton's method.

As in `sumexp.negatives.consistency`, weights are products :math:`e^{a_y+b_{y'}}`, and with :math:`c_y = e^{a_y-f_y}`,
:math:`z_{y'} = e^{b_{y'}+f_{y'}}` all labels share one grid,

.. math:: R(f) = \sum_y P_y \int_0^\infty e^{-s/c_y}\big(1-e^{-\Lambda_y(s)}\big)\frac{ds}s, \qquad
          e^{-\Lambda_y(s)} = \mathbb E_y e^{-sZ}.

Negatives come from *pools*: m draws with replacement from q, :math:`\Lambda = -m\log(1-T)` with
:math:`T = \sum_y q_y(1-e^{-sz_y})`, several pools adding up; or from one set, of which each class is a member
independently, :math:`\Lambda = T = -\sum_y\log(1-\alpha_y(1-e^{-sz_y}))`. A bin of n classes enters
with n; a hit that is left out takes one class's part away. There the gradient and the matrix of second derivatives are
sums over the nodes: products of matrices [bins, nodes].

The second moment of the loss is that of `sumexp.negatives.gradients`, with :math:`t = s/c_y`:
:math:`\mathbb E\ell^2 = -2\int(\log t+\gamma)\,e^{-t}\,(1-e^{-\Lambda_y})\,dt/t`.
"""

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from sumexp.expectations import rule
from sumexp.samplers import Hits

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Binned:
    """A sampled loss on bins of classes, K bins and I pools."""

    count: Floats  # [K] members
    p: Floats  # [K] the true probability P(y|x) of each member, positive
    q: Floats  # [I, K] probability that a draw of the pool is a given member, or that the set holds it
    m: Floats  # [I] draws from each pool; unused for a set
    coins: bool  # whether the negatives are one set of independent members (I = 1)
    log_a: Floats  # [K] the label's factor of the weights
    log_b: Floats  # [K] the negative's factor
    hits: Hits  # whether draws of the positive are kept, masked or redrawn


STRIDE = 4.0
"""The largest change of a score per step of the search, in nats."""

_grid = cache(rule)  # a rule searches hundreds of steps, and few ends differ


class Nodes(NamedTuple):
    """The quantities of a loss on the grid; [K, nodes], or [1, nodes] if labels do not differ."""

    log_t: Floats  # of each label's s/c_y
    t: Floats  # the same, not its logarithm
    kernel: Floats  # weights of the labels' integrals
    s: Floats  # sz of each class
    first: list[Floats]  # of each pool the derivative of a member's part of T in its score
    second: list[Floats]  # the second derivative
    slope: list[Floats]  # of each pool the derivative of Lambda in T
    none: Floats  # E e^{-sZ}
    some: Floats  # 1 less that


class State:
    """The risk and its derivatives at scores f [K], computed lazily."""

    noise = 1e-14  # relative error of the risk by rounding

    def __init__(self, problem: Binned, scores: Floats, tol: float = 1e-9) -> None:
        self.problem, self.scores, self.tol = problem, scores, tol
        self.left_out = 0.0 if problem.hits == "keep" else 1.0

    @cached_property
    def nodes(self) -> Nodes:
        """Everything on the grid."""
        problem, scores = self.problem, self.scores
        log_c, log_z = problem.log_a - scores, problem.log_b + scores
        draws = problem.count.sum() if problem.coins else problem.m.sum()
        largest = log_z.max() + log_c.max() + math.log(draws)
        grid = _grid(self.tol, math.ceil(max(largest, 0.0) + float(np.ptp(log_c))))
        u = grid.nodes().numpy() + log_c.max()
        log_t = u - log_c[:, None]
        t = np.exp(np.minimum(log_t, 690.0))
        s = np.exp(np.minimum(u + log_z[:, None], 340.0))  # whose square is a float too; exp(-s) is 0 long before
        return Nodes(log_t, t, grid.step * np.exp(-t), s, *self._pools(s))

    def _pools(self, s: Floats) -> tuple[list[Floats], list[Floats], list[Floats], Floats, Floats]:
        """For each pool the derivatives of its parts and of Lambda; both functions of Lambda itself."""
        b, left_out = self.problem, self.left_out
        gone, lost = np.exp(-s), -np.expm1(-s)
        moving = s * gone
        firsts, seconds, slopes = [], [], []
        exponent = np.zeros((1, s.shape[1]))
        for q, m in zip(b.q[:, :, None], b.m, strict=True):
            if b.coins:
                certain = q >= 1  # the class is always drawn: its part is s itself
                q = np.where(certain, 0.0, q)
                left = 1 - q * lost
                part = np.where(certain, s, -np.log1p(-q * lost))
                first = np.where(certain, s, q * moving / left)
                second = np.where(certain, s, q * (1 - s) * moving / left + first**2)
                total = (b.count @ part)[None]
                exponent = exponent + (total - part if left_out else total)
                slope = np.ones((1, 1))
            else:
                part, first = q * lost, q * moving
                second = (1 - s) * first
                total = (b.count @ part)[None]
                remaining = (1 - b.count @ q) + (b.count @ (q * gone))[None]
                if left_out:
                    total, remaining = total - part, remaining + part
                scale = 1 - q if b.hits == "redraw" else np.ones((1, 1))
                if b.hits == "redraw":
                    total, remaining = total / scale, (remaining - q) / scale
                remaining = np.maximum(remaining, 1e-100)
                few = total < 0.5
                exponent = exponent - m * np.where(few, np.log1p(-np.where(few, total, 0.0)), np.log(remaining))
                slope = m / remaining / scale
            firsts.append(first)
            seconds.append(second)
            slopes.append(slope)
        return firsts, seconds, slopes, np.exp(-exponent), -np.expm1(-exponent)

    @cached_property
    def weight(self) -> Floats:
        """The weights of a bin's labels on each node."""
        return np.asarray((self.problem.count * self.problem.p)[:, None] * self.nodes.kernel)

    @property
    def losses(self) -> Floats:
        """The expected sampled loss of each label, [K]."""
        return np.asarray((self.nodes.kernel * self.nodes.some).sum(-1))

    @property
    def risk(self) -> float:
        """The expected sampled loss over the labels, in nats."""
        return float((self.weight * self.nodes.some).sum())

    def derivatives(self) -> tuple[Floats, Floats]:
        """The gradient [K] and the matrix of second derivatives [K, K] of the risk in the bins' scores."""
        b, left_out, at = self.problem, self.left_out, self.nodes
        count = b.count[:, None]
        down = -at.t * self.weight
        lost = down * at.some
        gradient = lost.sum(-1)
        diagonal = ((1 - at.t) * lost).sum(-1)
        size = len(b.count)
        matrix = np.zeros((size, size))
        alone = self.weight * at.none
        pulls = [alone * slope for slope in at.slope]
        many = [count * first for first in at.first]
        for i, (first, second, pull) in enumerate(zip(at.first, at.second, pulls, strict=True)):
            others = count * pull.sum(0) - left_out * pull
            gradient += (first * others).sum(-1)
            diagonal += (second * others).sum(-1)
            cross = down * (at.none * at.slope[i])
            left = 2 * cross  # the factor of the pool's parts, for the matrix and its transpose together
            diagonal -= 2 * left_out * (cross * first).sum(-1)
            for j, other in enumerate(at.first):
                # m (m - 1) pairs of different draws
                share = 1 - 1 / b.m[i] if i == j and not b.coins else 1.0
                pairs = pull * (share * at.slope[j])
                left = left - many[j] * pairs.sum(0)
                if left_out:
                    pairs = pairs * other
                    left = left + 2 * pairs
                    diagonal -= (pairs * first).sum(-1)
            matrix += left @ many[i].T
        matrix[np.diag_indices(size)] += diagonal
        return gradient, (matrix + matrix.T) / 2

    @property
    def deviation(self) -> float:
        """Root of the loss's mean variance over the negatives, in nats."""
        at = self.nodes
        second = -2 * (at.kernel * at.some * (at.log_t + np.euler_gamma)).sum(-1)
        return float(np.sqrt((self.problem.count * self.problem.p) @ np.maximum(second - self.losses**2, 0.0)))

    def moved(self, step: Floats) -> "State":
        """The state after a step."""
        return State(self.problem, self.scores + step)


def minimise(problem: Binned, start: Floats | None = None, tol: float = 1e-5) -> State:
    """The state at the scores of least risk, whose mean over the labels is that of log p; the search starts there.

    Raises:
        ValueError: if the steps keep moving a score by more than ``tol`` nats: the minimum may be at infinity.
    """
    mass = problem.count * problem.p
    root = np.sqrt(mass)
    flat = root / np.linalg.norm(root)
    truth = np.log(problem.p)
    current = State(problem, truth if start is None else start)
    for _ in range(80):
        gradient, matrix = current.derivatives()
        step = -_solve(matrix / np.outer(root, root) + np.outer(flat, flat), gradient / root) / root
        change = float(np.abs(step).max())
        if change <= tol:  # quadratic convergence: after this step the quadrature's error is larger
            current = current.moved(step)
            break
        step *= min(1.0, STRIDE / change)
        risk = current.risk
        for halvings in range(40):
            trial = current.moved(0.5**halvings * step)
            if trial.risk <= risk + current.noise * abs(risk):
                break
        current = trial
    else:
        raise ValueError(f"the search still moves a score by {change:.1e} nats; is the minimum finite?")
    return current.moved(np.full(len(mass), -float(mass @ (current.scores - truth) / mass.sum())))


def _solve(matrix: Floats, right: Floats) -> Floats:
    try:
        return np.asarray(cho_solve(cho_factor(matrix), right))
    except np.linalg.LinAlgError:  # rounding: a little of the diagonal makes it positive again
        return np.asarray(cho_solve(cho_factor(matrix + 1e-9 * np.diag(np.diag(matrix))), right))
