r"""Unbiased estimators of the softmax that read few negatives on average, with their cost and variance.

Read the negatives in a random order. With :math:`F_j = 1/(1 + \frac nj \sum_{i\le j} a_{\pi(i)})` after j reads and
levels :math:`1 \le j_1 < \dots < j_L = n`, draw the last level J, :math:`P(J \ge l) = s_l`, and return

.. math:: T = F_{j_1} + \sum_{l=2}^J \frac{D_l}{s_l}, \qquad D_l = F_{j_l} - F_{j_{l-1}},

a *Russian roulette*: :math:`\mathbb E T = F_n = F`, as the sum telescopes. With levels 1, 2, 4, ... differences may be
*antithetic*, :math:`D_l = F_{2m}(A \cup B) - \tfrac12(F_m(A) + F_m(B))`, of the same mean and of second order.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise
from math import comb, factorial, inf, log, prod

import torch
from torch import Tensor

from sumexp import expectations
from sumexp._checks import argument, attributes, typed, whole
from sumexp.bias.rational import Point, Rational, exact, positive

MOST_ORDERS = 50_000
"""The largest number of random orders that are enumerated."""


@dataclass(frozen=True)
class Schedule:
    r"""Numbers of negatives to read, and their probabilities.

    Attributes:
        levels: numbers of reads :math:`j_1 < \dots < j_L`; the last is n.
        survival: :math:`s_l = P(J \ge l)`, beginning with 1, never increasing, positive.
        antithetic: whether differences are antithetic; then each level is twice the one before.
    """

    levels: tuple[int, ...]
    survival: tuple[Fraction, ...]
    antithetic: bool = False

    def __post_init__(self) -> None:
        attributes(self)
        vars(self).update(levels=tuple(map(int, self.levels)), survival=tuple(map(exact, self.survival)))
        levels, survival = self.levels, self.survival
        if not levels or list(levels) != sorted(set(levels)) or levels[0] < 1:
            raise ValueError(f"levels are {levels}; they must be positive and increasing, the last one n")
        if len(survival) != len(levels):
            raise ValueError(f"{len(levels)} levels but {len(survival)} survival probabilities; give one for each")
        if survival[0] != 1 or survival[-1] <= 0 or any(s < t for s, t in pairwise(survival)):
            raise ValueError(
                f"survival is {', '.join(map(str, survival))}; it must begin with 1, never increase and stay positive: "
                "an estimator that never reads all n negatives is biased"
            )
        if self.antithetic and any(b != 2 * a for a, b in pairwise(levels)):
            raise ValueError(f"levels are {levels}; antithetic differences need each level to be twice the one before")

    @property
    def n(self) -> int:
        """The number of negatives."""
        return self.levels[-1]

    @property
    def cost(self) -> Fraction:
        r"""The expected number of reads, exactly: :math:`j_1 + \sum_{l\ge2} (j_l - j_{l-1}) s_l`."""
        steps = zip(self.levels, self.levels[1:], self.survival[1:], strict=False)
        return self.levels[0] + sum(((b - a) * s for a, b, s in steps), Fraction(0))

    def stops(self) -> Iterator[tuple[int, Fraction]]:
        """The index J - 1 of the last level in `levels`, and its probability."""
        for place, (s, t) in enumerate(zip(self.survival, (*self.survival[1:], Fraction(0)), strict=True)):
            yield place, s - t


@typed
def roulette(survival: Sequence[Rational]) -> Schedule:
    r"""Every number of reads is a level: after j - 1 reads go on to the j-th with probability :math:`s_j/s_{j-1}`.

    Raises:
        ValueError: if survival is empty, does not begin with 1, increases or reaches 0.
    """
    return Schedule(tuple(range(1, len(survival) + 1)), tuple(map(exact, survival)))


@typed
def dyadic(n: int, rate: float, antithetic: bool = True) -> Schedule:
    r"""Levels 1, 2, 4, ..., n, :math:`s_l = 2^{-rl}`: :math:`1+\frac12\log_2 n` reads at r = 1, under 2.3 at r = 3/2.

    Raises:
        ValueError: if n is no power of two (pad with negatives a = 0), or r is negative or so large that an s_l is 0.
    """
    n = whole("n", n, 1)
    if n & (n - 1):
        raise ValueError(f"n is {n}; it must be a power of two: pad with negatives of logit -inf")
    if not 0 <= rate < inf:
        raise ValueError(f"rate is {rate}; it must not be negative, nor infinite")
    depth = n.bit_length()
    survival = tuple(Fraction(2.0 ** (-float(rate) * l)) for l in range(depth))  # noqa: E741
    return Schedule(tuple(2**l for l in range(depth)), survival, antithetic)  # noqa: E741


def partial(a: Sequence[Rational], n: int) -> Fraction:
    """F_j = 1/(1 + n/j sum a) after reading ``a``, j of n negatives."""
    return 1 / (1 + Fraction(n, len(a)) * sum(a, start=Fraction(0)))


def block_means(schedule: Schedule, blocks: Sequence[Sequence[Rational]]) -> list[Fraction]:
    """F at the first level, then each D_l, for the blocks read, one per level."""
    n, seen = schedule.n, list(blocks[0])
    result = [partial(seen, n)]
    for block in blocks[1:]:
        before = partial(seen, n)
        if schedule.antithetic:
            before = (before + partial(block, n)) / 2
        seen += block
        result.append(partial(seen, n) - before)
    return result


def _orders(values: Point, sizes: Sequence[int]) -> Iterator[tuple[Point, ...]]:
    """All ways to read the values in blocks of these sizes, equally likely; order within a block does not matter."""
    if not sizes:
        yield ()
        return
    places = range(len(values))
    for chosen in combinations(places, sizes[0]):
        rest = tuple(values[i] for i in places if i not in chosen)
        for later in _orders(rest, sizes[1:]):
            yield (tuple(values[i] for i in chosen), *later)


def law(schedule: Schedule, a: Sequence[Rational]) -> dict[tuple[Fraction, int], Fraction]:
    """The exact joint law of (T, number of reads), by enumeration of all orders, up to n = 8 or so.

    Raises:
        ValueError: if ``a`` is negative somewhere or not of length n, or has over 50,000 orders.
    """
    values, sizes = positive("a", a, zero=True), [b - a for a, b in pairwise((0, *schedule.levels))]
    if len(values) != schedule.n:
        raise ValueError(f"a has {len(values)} entries, but the schedule is for n = {schedule.n}")
    if (orders := factorial(len(values)) // prod(map(factorial, sizes))) > MOST_ORDERS:
        raise ValueError(
            f"n is {len(values)}: {orders} orders are more than the {MOST_ORDERS} that are enumerated; use variance "
            "(plain differences, any a), or two_valued_moments if a has two values"
        )
    result: defaultdict[tuple[Fraction, int], Fraction] = defaultdict(Fraction)
    weight = Fraction(1, orders)
    for blocks in _orders(values, sizes):
        total, terms = Fraction(0), block_means(schedule, blocks)
        for place, p in schedule.stops():
            total += terms[place] / schedule.survival[place]
            result[total, schedule.levels[place]] += weight * p
    return {outcome: p for outcome, p in result.items() if p}  # equal survival: a level where none stops


@typed
def moments(schedule: Schedule, a: Sequence[Rational]) -> tuple[Fraction, Fraction]:
    """Exact mean and variance of T; limits and errors are those of `law`."""
    joint = law(schedule, a)
    first = sum((p * t for (t, _), p in joint.items()), Fraction(0))
    second = sum((p * t * t for (t, _), p in joint.items()), Fraction(0))
    return first, second - first**2


def mean_square_errors(levels: Sequence[int], log_a: Tensor, tol: float = 1e-12) -> Tensor:
    r""":math:`v_j = \mathbb E(F_j - F)^2` [..., len(levels)] for j negatives read without replacement, by quadrature.

    Each of ``levels`` is from 1 to n; the other arguments are those of `variance`.

    Raises:
        ValueError: if a level is out of range, or n and the level are too large for the recursion.
    """
    n, log_a = log_a.shape[-1], log_a.to(torch.float64)
    errors = []
    for level in levels:
        if not 1 <= level <= n:
            raise ValueError(f"levels has {level}; of {n} negatives 1..{n} can be read")
        drawn = expectations.expect(expectations.without_replacement(log_a + log(n / level), level), tol)
        errors.append(drawn.probability_variance + drawn.probability_gap.square())
    return torch.stack(errors, -1)


@typed
def variance(schedule: Schedule, log_a: Tensor, tol: float = 1e-12) -> Tensor:
    r"""The variance of a plain roulette, exact by quadrature, for any a: with v from `mean_square_errors`,

    .. math:: \operatorname{Var} T = \sum_{l=2}^L v_{j_{l-1}}\Big(\frac1{s_l} - \frac1{s_{l-1}}\Big) .

    For :math:`\mathbb E[D_l^2 + 2 D_l \sum_{m>l} D_m] = \mathbb E[D_l^2 + 2 D_l(F - F_{j_l})] = v_{j_{l-1}} - v_{j_l}`.

    ``log_a`` [..., n] are logits of the negatives minus that of the target, ``tol`` is the relative error of each v,
    next to what rounding log a + log(n/j) changes if all negatives are nearly equal.

    Raises:
        ValueError: if the schedule is antithetic, or is for another n, or the largest sum of a exceeds e^700.
    """  # noqa: D415
    if schedule.antithetic:
        raise ValueError("the formula needs plain differences; take moments (small n) or two_valued_moments")
    if log_a.shape[-1:] != (schedule.n,):
        raise ValueError(f"log_a has shape {tuple(log_a.shape)}, but the schedule is for n = {schedule.n} negatives")
    if len(schedule.levels) == 1:
        return torch.zeros(log_a.shape[:-1], dtype=torch.float64, device=log_a.device)
    return roulette_variance(schedule, mean_square_errors(schedule.levels[:-1], log_a, tol))


def roulette_variance(schedule: Schedule, errors: Tensor) -> Tensor:
    """`variance` from the `mean_square_errors` [..., L - 1] of all levels but the last, for many schedules at once."""
    steps = [float(1 / t - 1 / s) for s, t in pairwise(schedule.survival)]
    return errors @ errors.new_tensor(steps)


@typed
def two_valued_moments(schedule: Schedule, high: Rational, low: Rational, count: int) -> tuple[Fraction, Fraction]:
    """Exact mean and variance of T where ``count`` of the n entries of a are ``high`` and the others ``low``."""
    (h,), (b,) = positive("high", [high], zero=True), positive("low", [low], zero=True)
    n, levels = schedule.n, schedule.levels
    if not 0 <= count <= n:
        raise ValueError(f"count is {count}; of n = {n} negatives 0..{n} can be high")

    def f(c: int, size: int) -> Fraction:
        return 1 / (1 + Fraction(n, size) * (c * h + (size - c) * b))

    def step(place: int, c: int, new: int) -> Fraction:
        before, level = levels[place - 1], levels[place]
        seen = f(c, before)
        return f(c + new, level) - ((seen + f(new, level - before)) / 2 if schedule.antithetic else seen)

    # backwards: rest[c] = E[D_{l+1} + ... + D_L | c high ones among those of level l]; cross = E of D_l^2 + 2 D_l rest
    rest = {c: Fraction(0) for c in range(count + 1)}
    second = Fraction(0)
    for place in range(len(levels) - 1, 0, -1):
        before, level = levels[place - 1], levels[place]
        next_rest: dict[int, Fraction] = {}
        cross = Fraction(0)
        for c in range(min(count, before) + 1):
            arrival = Fraction(comb(before, c) * comb(n - before, count - c), comb(n, count))
            if not arrival:
                continue
            next_rest[c] = Fraction(0)
            for new in range(min(count - c, level - before) + 1):
                ways = comb(level - before, new) * comb(n - level, count - c - new)
                p = Fraction(ways, comb(n - before, count - c))
                d, after = step(place, c, new), rest.get(c + new, Fraction(0))
                next_rest[c] += p * (d + after)
                cross += arrival * p * d * (d + 2 * after)
        second += cross / schedule.survival[place]
        rest = next_rest
    first = Fraction(0)
    for c in range(min(count, levels[0]) + 1):
        p = Fraction(comb(levels[0], c) * comb(n - levels[0], count - c), comb(n, count))
        start, after = f(c, levels[0]), rest.get(c, Fraction(0))
        first += p * (start + after)
        second += p * start * (start + 2 * after)
    return first, second - first**2


@dataclass(frozen=True)
class Draws:
    """Unbiased estimates T of the target's softmax, and the number of negatives that each read; [batch] each."""

    value: Tensor
    reads: Tensor


@typed
def sample(
    schedule: Schedule,
    read: Callable[[Tensor, Tensor], Tensor],
    batch: int,
    *,
    generator: torch.Generator,
    device: torch.device | str = "cpu",
) -> Draws:
    r"""Draw unbiased estimates of the softmax, reading only the negatives that they need.

    Args:
        schedule: see `roulette` and `dyadic`.
        read: from (rows [b], indices [b, j]) to :math:`\log a` [b, j], the logits of these negatives minus that of
            their row's target; for a table ``lambda rows, indices: log_a[rows.unsqueeze(-1), indices]``.
        batch: number of rows; each draws its order and number of reads.
        generator: on ``device``.
        device: of the results.

    Raises:
        ValueError: if ``batch`` is negative, or ``read`` returns a wrong shape or, on a CPU, NaN.
    """
    if batch < 0:
        raise ValueError(f"batch is {batch}; it must not be negative")
    survival = torch.tensor([float(s) for s in schedule.survival], dtype=torch.float64, device=device)
    levels = torch.tensor(schedule.levels, device=device)
    coin = torch.rand(batch, dtype=torch.float64, generator=generator, device=device)
    last = (coin.unsqueeze(-1) < survival).sum(-1) - 1
    value = torch.zeros(batch, dtype=torch.float64, device=device)
    for place in sorted(set(last.tolist())):
        rows = (last == place).nonzero().squeeze(-1)
        indices = distinct_indices(schedule.n, schedule.levels[place], len(rows), generator, device)
        log_a = read(rows, indices)
        argument("what read returned", log_a, Tensor)
        if log_a.shape != indices.shape:
            raise ValueError(f"read returned shape {tuple(log_a.shape)} for indices {tuple(indices.shape)}; match them")
        value[rows] = _estimate(schedule, place, log_a.to(torch.float64))
    return Draws(value, levels[last])


def _estimate(schedule: Schedule, place: int, log_a: Tensor) -> Tensor:
    """T from log a in the order read, [b, levels[place]]."""

    def f(low: int, high: int) -> Tensor:
        return torch.sigmoid(-(log_a[:, low:high].logsumexp(-1) + log(schedule.n / (high - low))))

    levels = schedule.levels
    total = f(0, levels[0])
    for l in range(1, place + 1):  # noqa: E741
        before, level = levels[l - 1], levels[l]
        seen = (f(0, before) + f(before, level)) / 2 if schedule.antithetic else f(0, before)
        total = total + (f(0, level) - seen) / float(schedule.survival[l])
    return total


def distinct_indices(
    n: int, count: int, rows: int, generator: torch.Generator, device: torch.device | str = "cpu"
) -> Tensor:
    """For each row a uniformly random ordered sample of ``count`` distinct indices below n, int64 [rows, count]."""
    if not 0 <= count <= n:
        raise ValueError(f"count is {count}; only 0..{n} distinct indices below {n} can be drawn")
    if 4 * count > n:
        # In single precision ties would not be rare, and their order is no random one.
        order = torch.rand(rows, n, dtype=torch.float64, generator=generator, device=device).argsort(-1)
        return order[:, :count]
    drawn = torch.randint(n, (rows, count), generator=generator, device=device)
    while True:
        values, order = drawn.sort(dim=-1, stable=True)
        again = torch.zeros_like(drawn, dtype=torch.bool)
        again.scatter_(-1, order[:, 1:], values[:, 1:] == values[:, :-1])
        if not (repeats := int(again.sum())):
            return drawn
        drawn[again] = torch.randint(n, (repeats,), generator=generator, device=device)
