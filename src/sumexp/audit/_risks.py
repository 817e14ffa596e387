r"""The exact sampled risk over bins of classes, with its derivatives.

As in `sumexp.negatives.consistency`, weights are products :math:`e^{a_y+b_{y'}}`, and with :math:`c_y = e^{a_y-f_y}`,
:math:`z_{y'} = e^{b_{y'}+f_{y'}}` all labels share one grid,

.. math:: R(f) = \sum_y P_y \int_0^\infty e^{-s/c_y}\big(1-e^{-\Lambda_y(s)}\big)\frac{ds}s, \qquad
          e^{-\Lambda_y(s)} = \mathbb E_y e^{-sZ}.

Negatives come from *pools*: m draws with replacement from q, :math:`\Lambda = -m\log(1-T)` with
:math:`T = \sum_y q_y(1-e^{-sz_y})`, several pools adding up; or from one set, of coins or of a law of `sumexp.audit._sets`; for coins
:math:`\Lambda = T = -\sum_y\log(1-\alpha_y(1-e^{-sz_y}))`. A bin of n classes enters with n; a hit that is left out
takes one class's part away. There the gradient and the matrix of second derivatives are sums over the nodes: products of
matrices [bins, nodes].
"""  # noqa: E501

import math
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sumexp.audit._sets import Fixed, transform
from sumexp.audit._terms import Terms, by_time, take
from sumexp.expectations import rule
from sumexp.samplers import Hits

Floats = NDArray[np.float64]

PART = 1 << 16
"""Terms of a part of a set's grid: few enough to stay near the processor, enough to be worth a call."""


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
        fixed: the law of the set, where it is one of those of `sumexp.audit._sets`; q are then inclusion probabilities,
            and the minimum over coins that come up as often is where the search begins.
    """

    count: Floats
    p: Floats
    q: Floats
    m: Floats
    coins: bool
    log_a: Floats
    log_b: Floats
    hits: Hits
    fixed: Fixed | None = None


_grid = cache(rule)  # looked for among hundreds of steps, and few ends differ


class Nodes(NamedTuple):
    r"""What a loss of pools or coins is made of on the grid; [K, nodes], or [1, nodes] where labels do not differ.

    Attributes:
        log_t: of each label's :math:`s/c_y`.
        t: the same, not its logarithm.
        kernel: weights of the labels' integrals.
        s: :math:`sz` of each class.
        first: of each pool the derivative of a member's part of T in its score.
        second: the second derivative.
        slope: of each pool the derivative of Lambda in T.
        none: :math:`\mathbb E e^{-sZ}`.
        some: 1 less that.
    """

    log_t: Floats
    t: Floats
    kernel: Floats
    s: Floats
    first: list[Floats]
    second: list[Floats]
    slope: list[Floats]
    none: Floats
    some: Floats


class State:
    """The risk and its derivatives at scores f [K]; what they are made of is computed when it is first asked for.

    Attributes:
        noise: relative error of the risk by rounding and by what is left out of the sums.
        slack: by how much more than asked a step may move a score at the end, where it gains less than that error.
    """

    noise, slack = 1e-14, 1.0

    def __init__(self, problem: Binned, scores: Floats, tol: float = 1e-9) -> None:
        self.problem, self.scores, self.tol = problem, scores, tol
        self.own = 0.0 if problem.hits == "keep" else 1.0

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
        b, own = self.problem, self.own
        gone, lost = np.exp(-s), -np.expm1(-s)
        moving = s * gone
        firsts, seconds, slopes = [], [], []
        exponent = np.zeros((1, s.shape[1]))
        for q, m in zip(b.q[:, :, None], b.m, strict=True):
            if b.coins:
                certain = q >= 1  # among so many draws that the class is always there: its part is s itself
                q = np.where(certain, 0.0, q)
                left = 1 - q * lost
                part = np.where(certain, s, -np.log1p(-q * lost))
                first = np.where(certain, s, q * moving / left)
                second = np.where(certain, s, q * (1 - s) * moving / left + first**2)
                total = (b.count @ part)[None]
                exponent = exponent + (total - part if own else total)
                slope = np.ones((1, 1))
            else:
                part, first = q * lost, q * moving
                second = (1 - s) * first
                total = (b.count @ part)[None]
                remaining = (1 - b.count @ q) + (b.count @ (q * gone))[None]
                if own:
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
        """What the labels of a bin weigh on each node."""
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
        b, own, at = self.problem, self.own, self.nodes
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
            others = count * pull.sum(0) - own * pull
            gradient += (first * others).sum(-1)
            diagonal += (second * others).sum(-1)
            cross = down * (at.none * at.slope[i])
            left = 2 * cross  # what is multiplied by the pool's parts, of the matrix and its transpose together
            diagonal -= 2 * own * (cross * first).sum(-1)
            for j, other in enumerate(at.first):
                # a draw is no pair with itself: m (m - 1) of them
                share = 1 - 1 / b.m[i] if i == j and not b.coins else 1.0
                pairs = pull * (share * at.slope[j])
                left = left - many[j] * pairs.sum(0)
                if own:
                    pairs = pairs * other
                    left = left + 2 * pairs
                    diagonal -= (pairs * first).sum(-1)
            matrix += left @ many[i].T
        matrix[np.diag_indices(size)] += diagonal
        return gradient, (matrix + matrix.T) / 2

    def gradient(self) -> Floats:
        """The gradient [K] alone."""
        return self.derivatives()[0]

    def prepare(self) -> None:
        """Compute what the risk and the derivatives have in common, before the first of them is asked for."""

    def moved(self, step: Floats) -> "State":
        """The state after a step that is too small to matter for the losses."""
        return State(self.problem, self.scores + step)


class SetState(State):
    """The same for a set of a fixed law: losses are sums over its terms, part by part of the grid."""

    noise, slack = 1e-9, 1e3

    def __init__(self, problem: Binned, scores: Floats, tol: float = 1e-5) -> None:
        assert problem.fixed is not None
        self.problem, self.scores, self.law = problem, scores, problem.fixed
        # weights that know the time have it in either factor: [K, times], or [K, 1]
        coin = self.law.log_coin
        a, b = (np.zeros(1), np.zeros(1)) if coin.shape[1] > 1 or self.law.tries else (problem.log_a, problem.log_b)
        self.log_c = a[:, None] + coin - scores[:, None]
        self.log_z = b[:, None] - coin + scores[:, None]
        draws = math.log(problem.count.sum())
        largest = float((self.log_z.max(0) + self.log_c.max(0)).max()) + draws
        grid = _grid(tol, math.ceil(max(largest, 0.0) + float(np.ptp(self.log_c))))
        self.step = grid.step
        self.digits = 8 - math.log(tol)  # variances are differences of numbers a thousand times as large
        self.u = grid.nodes().numpy() + float(self.log_c.max())
        self.own = 0.0 if problem.hits == "keep" else 1.0

    @cached_property
    def base(self) -> Floats:
        """The probability of each time node for each label, [K, times]."""
        none = np.zeros((len(self.scores), self.law.nodes))
        return by_time(transform(self.law, none, self.problem.hits == "keep", self.digits), none.shape)

    def parts(self) -> Iterator[tuple[list[Terms], Floats, Floats, Floats]]:
        """Some nodes of the grid at a time: terms, and [K, nodes x times] t = s/c, the kernel and what is lost."""
        bins, times = self.base.shape
        some = max(1, PART // (bins * times * self.law.angles))
        for u in np.split(self.u, range(some, len(self.u), some)):
            t, s = (
                np.broadcast_to(np.exp(np.minimum(u[:, None] + x[:, None], most)), (bins, len(u), times))
                for x, most in ((-self.log_c, 690.0), (self.log_z, 340.0))
            )
            t, s = t.reshape(bins, -1), s.reshape(bins, -1)
            terms = transform(self.law, s, self.problem.hits == "keep", self.digits)
            yield terms, t, self.step * np.exp(-t), np.tile(self.base, len(u)) - by_time(terms, t.shape)

    @cached_property
    def losses(self) -> Floats:
        """The expected sampled loss of each label, [K]."""
        return np.asarray(sum((kernel * left).sum(1) for _, _, kernel, left in self.parts()))

    @property
    def risk(self) -> float:
        """The expected sampled loss over the labels, in nats."""
        return float((self.problem.count * self.problem.p) @ self.losses)

    def prepare(self) -> None:
        """Go over the nodes once, for the losses and the derivatives."""
        _ = self._derivatives

    def moved(self, step: Floats) -> State:
        """The state after a step that is too small to matter for the losses, which it keeps."""
        shifted = copy(self)
        shifted.__dict__.pop("_derivatives", None)
        shifted.scores = self.scores + step
        shifted.log_c, shifted.log_z = self.log_c - step[:, None], self.log_z + step[:, None]
        return shifted

    def gradient(self) -> Floats:
        """The gradient [K] of the risk in the bins' scores, in one pass with the losses."""
        b, own = self.problem, self.own
        n, mass = b.count[:, None], (b.count * b.p)[:, None]
        gradient, losses = np.zeros(len(b.count)), np.zeros(len(b.count))
        for parts, t, kernel, left in self.parts():
            losses += (kernel * left).sum(1)
            gradient -= (mass * t * kernel * left).sum(1)
            for terms in parts:
                v = take(mass * kernel, terms.time) * terms.part
                whole = v * terms.rate
                push = (n * whole.sum(0) - own * whole) * terms.pull
                if terms.own is not None:
                    push -= (n * v.sum(0) - own * v) * terms.turn
                gradient += push.real.sum(1)
        self.losses = losses
        return gradient

    def derivatives(self) -> tuple[Floats, Floats]:
        """The gradient [K] and the matrix of second derivatives [K, K] of the risk in the bins' scores.

        Those of weights that know the number of tries are not here: the search takes their gradient alone.
        """
        assert not self.law.tries
        return self._derivatives

    @cached_property
    def _derivatives(self) -> tuple[Floats, Floats]:
        b, own = self.problem, self.own
        n, mass = b.count[:, None], (b.count * b.p)[:, None]
        size = len(b.count)
        gradient, diagonal, losses = np.zeros(size), np.zeros(size), np.zeros(size)
        matrix = np.zeros((size, size))
        for parts, t, kernel, left in self.parts():
            losses += (kernel * left).sum(1)
            lost = mass * t * kernel * left
            gradient -= lost.sum(1)
            diagonal += ((t - 1) * lost).sum(1)
            for terms in parts:
                v, times = take(mass * kernel, terms.time) * terms.part, take(t, terms.time)
                r, e = terms.own, terms.pull
                whole = v * terms.rate
                joint, own_part = n * whole.sum(0), own * whole
                push = joint - own_part
                again = push - own_part
                if r is not None:
                    both, twice = v * r, n * v.sum(0) * r
                    push += own * both - twice
                    again += 4 * own * both - 2 * twice
                    own_part -= own * both
                    matrix -= (v * (own * e - times)).view(np.float64) @ (n * e * r).conj().view(np.float64).T
                pushed = e * push
                gradient += pushed.real.sum(1)
                diagonal += (pushed.real * (1 - terms.s)).sum(1) + (e * (e * again + 2 * times * own_part)).real.sum(1)
                first = (e * joint / 2 - pushed - times * whole).view(np.float64)
                matrix += first @ (n * e).conj().view(np.float64).T
        self.losses = losses
        matrix += matrix.T
        matrix[np.diag_indices(size)] += diagonal
        return gradient, matrix


def state(problem: Binned, scores: Floats) -> State:
    """The state that suits the problem's law."""
    return State(problem, scores) if problem.fixed is None else SetState(problem, scores)
