r"""m distinct negatives, drawn from q until m ids differ: what they learn, and the correction that makes it right.

In the exponential race class i arrives at :math:`E_i\sim\mathrm{Exp}(q_i)`, independently of the others, and the first
m classes are the sample. With T the time of the next arrival,

.. math:: P(S=A,\ T\in dt) = \prod_{i\in A}(1-e^{-q_it})\ \sum_{k\notin A}q_k\ e^{-t\sum_{k\notin A}q_k}\,dt .

:func:`inclusion` integrates this for thousands of classes. The laws below enumerate all sets of few classes, for
:func:`sumexp.negatives.consistency.set_losses`. Throughout ``log_q`` [classes] is the law of one draw, positive, and m
the number of distinct ids; at most 12 classes but for :func:`inclusion`.
"""

import math
from functools import partial
from itertools import combinations
from typing import NamedTuple

import torch
from torch import Tensor

from sumexp import _checks as checks
from sumexp._checks import typed
from sumexp.negatives.consistency import set_losses
from sumexp.negatives.population import Losses

LARGEST = 12
"""The largest number of classes whose sets are enumerated."""

LEAST = 1e-300
"""The least probability of a class in :func:`inclusion`: the reciprocal, a time, must be finite."""

_double = partial(torch.tensor, dtype=torch.float64, device="cpu")  # whatever the default device


class SetLaw(NamedTuple):
    """A law of drawn sets, with the logarithm of each class's probability in a correction."""

    members: Tensor  # [outcomes, classes] bool
    probability: Tensor  # [outcomes]
    log_coin: Tensor  # [outcomes, classes]

    def to(self, device: torch.device) -> "SetLaw":
        """The same on a device."""
        return SetLaw(*(part.to(device) for part in self))


@typed
def distinct_law(log_q: Tensor, m: int) -> SetLaw:
    r"""The law of the first m distinct ids, with the true probability that each class is among them.

    By :math:`P(A) = \sum_{i\in A} P(A\setminus i)\,q_i/q(\{i\}\cup A^c)`, over sets of growing size.

    Source: successive sampling, Rosén (1972).
    """
    q = _law(log_q, m, spare=0)
    chance: dict[tuple[int, ...], float] = {(): 1.0}
    for size in range(1, m + 1):
        smaller, chance = chance, {}
        for a in combinations(range(len(q)), size):
            absent = sum(x for i, x in enumerate(q) if i not in a)  # no difference from 1, which would cancel
            chance[a] = sum(smaller[(*a[:k], *a[k + 1 :])] * q[i] / (q[i] + absent) for k, i in enumerate(a))
    members, probability = _members(list(chance), len(q)), _double(list(chance.values()))
    log_coin = (probability @ members.double()).log().expand(len(members), -1)
    return SetLaw(members, probability, log_coin).to(log_q.device)


@typed
def tries_law(log_q: Tensor, m: int, tol: float = 1e-14) -> SetLaw:
    r"""The law of set and number N of draws until m ids differ, corrected by :math:`1-(1-q_i)^N`.

    Libraries that count their tries use this correction; where N = m they use :math:`mq_i`, as with replacement. Large
    N of total probability ``tol`` are left out; if more than 10,000 draws remain, it raises ValueError.

    Source: ``ExpectedCountHelper`` in TensorFlow's ``range_sampler.cc``.
    """
    q = _law(log_q, m, spare=0)
    rare = sum(sorted(q)[: len(q) - m + 1])  # without these the draws go on, with m - 1 classes
    if (1 - rare) ** 10_000 > tol:
        raise ValueError(f"all but {m - 1} classes have probability {rare:.3g}: too many draws; give a smaller m")
    sets = list(combinations(range(len(q)), m))
    # state: probability that the ids seen so far are exactly a set, after n draws
    state: dict[tuple[int, ...], float] = {(): 1.0}
    rows, chances, counts = [], [], []
    n, left = 0, 1.0
    while left > tol:
        n += 1
        new: dict[tuple[int, ...], float] = {}
        for a, p in state.items():
            for i, q_i in enumerate(q):
                b = a if i in a else tuple(sorted((*a, i)))
                new[b] = new.get(b, 0.0) + p * q_i
        ended = {a: new.pop(a) for a in sets if a in new}
        rows += list(ended)
        chances += list(ended.values())
        counts += [n] * len(ended)
        state, left = new, sum(new.values())
    tries = _double(counts).unsqueeze(-1)
    log_coin = torch.log(-torch.expm1(tries * torch.log1p(-_double(q))))
    log_coin = torch.where(tries == m, math.log(m) + _double(q).log(), log_coin)
    return SetLaw(_members(rows, len(q)), _double(chances), log_coin).to(log_q.device)


@typed
def race_law(log_q: Tensor, m: int, label: int | None = None) -> SetLaw:
    r"""The law of set and next arrival, corrected by :math:`1-e^{-q_iT}`; T on a grid of nodes in log t.

    ``label`` is a class outside the race; none by default. A class must be left to arrive next.
    """
    q = _law(log_q, m, spare=1 if label is None else 2)
    label = None if label is None else checks.whole("label", label, 0, len(q) - 1)
    racing = [i for i in range(len(q)) if i != label]
    sets = list(combinations(racing, m))
    members = _members(sets, len(q))
    absent = ~members
    if label is not None:
        absent[:, label] = False
    rates = absent.double() @ _double(q)
    step, slowest = 0.1, rates.min().item()
    u = torch.arange(-20.0, math.log(40 / slowest), step, dtype=torch.float64, device="cpu")
    t = u.exp().unsqueeze(-1)
    log_coin = torch.log(-torch.expm1(-t * _double(q)))  # [nodes, classes]
    log_density = log_coin @ members.double().T + rates.log() - t * rates + u.unsqueeze(-1)
    outcomes = (len(u), len(sets), len(q))
    return SetLaw(
        members.expand(outcomes).reshape(-1, len(q)),
        (step * log_density.exp()).reshape(-1),
        log_coin.unsqueeze(1).expand(outcomes).reshape(-1, len(q)),
    ).to(log_q.device)


@typed
def inclusion(log_q: Tensor, m: int) -> Tensor:
    r"""The true probability that each class is among the first m distinct ids, for thousands of classes, [classes].

    With :math:`a = 1-e^{-qt}` and :math:`b = e^{-qt}` the arrivals before t have the generating function
    :math:`\prod_j(ua_j+b_j)`, and the next arrival has the rate :math:`\sum_k q_k` over the others. So the density in t
    of next arrivals with class i among the m before is the coefficient of :math:`u^m` in

    .. math:: \frac{ua_i}{ua_i+b_i}\ \prod_j(ua_j+b_j)\ \sum_{k\ne i}\frac{q_kb_k}{ua_k+b_k} ,

    taken by the trapezoid rule on the circle through the saddle point; another integrates over log t. m is at most
    classes - 1. Small probabilities are right relative to themselves. Raises ValueError for q below 1e-300.
    """
    q, order = checks.log_law("log_q", log_q).exp().sort(descending=True)
    m = checks.whole("m", m, 1, len(q) - 1)
    if not q[-1] >= LEAST:
        raise ValueError(f"the least probability is {q[-1].item():.3g}; leave out classes below {LEAST:g}")
    stages = m + 10 * math.sqrt(m) + 50  # m + 1 arrivals, each at the rate of the len(q) - m slowest at least
    last = math.log(stages) - math.log(q[m:].sum().item())
    coarse = torch.linspace(-30.0, last, 200, dtype=torch.float64, device=q.device)
    # Where each class's density matters: it is at most its value at the saddle point, summed in absolute terms.
    log_odds, log_size = _saddle(q, coarse.exp(), m)
    bound = log_size + coarse + (torch.sigmoid(-log_odds) @ q).log()
    each = bound.unsqueeze(-1) - torch.logaddexp(-log_odds, torch.zeros_like(log_odds))
    inside = (each > each.amax(0) - 45).any(-1).nonzero()
    step = min(0.24, 0.7 / math.sqrt(m + 1))  # at an angle x the integrand grows like e^{m x^2 / 2}, up to x = pi / 2
    ends = coarse[max(int(inside[0]) - 1, 0)].item(), coarse[min(int(inside[-1]) + 1, 199)].item()
    u = torch.arange(*ends, step, dtype=torch.float64, device=q.device)
    points = 2 * (5 * math.isqrt(m) + 20)  # counts under the saddle point's law have a variance of at most m
    angle = (torch.arange(points // 2, dtype=torch.float64, device=q.device) + 0.5) * (2 * math.pi / points)
    z = torch.polar(torch.ones_like(angle), angle).unsqueeze(-1)  # u / rho, [points / 2, 1]
    total = torch.zeros_like(q)
    for time, log_odds, log_size in zip(u.exp(), *_saddle(q, u.exp(), m), strict=True):
        # a and b divided by rho a + b: probabilities of the tilted coins, so that nothing overflows
        heads, tails = torch.sigmoid(log_odds), torch.sigmoid(-log_odds)
        factor = z * heads + tails
        rates = q * tails / factor
        value = torch.exp(torch.log(factor).sum(-1, keepdim=True) - 1j * m * angle.unsqueeze(-1) + log_size)
        weight = 2 / points * step * time
        among = z * heads / factor * (rates.sum(-1, keepdim=True) - rates)
        total += weight * (value * among).real.sum(0)
    return torch.empty_like(total).scatter(0, order, total.clamp_max(1.0))


def _saddle(q: Tensor, times: Tensor, m: int) -> tuple[Tensor, Tensor]:
    r"""Log odds of the tilted coins, of which m are expected, and :math:`\log\prod(\rho a+b) - m\log\rho`.

    The coin of class i shows heads with probability :math:`\rho a_i/(\rho a_i+b_i)`, and q falls. Rates qt may be huge.
    So odds are relative to the m-th class, and the m fastest classes count by a, the others by b: log rho cancels.
    """
    rate = times.unsqueeze(-1) * q
    log_a = torch.log(-torch.expm1(-rate))
    log_odds = times.unsqueeze(-1) * (q - q[m - 1]) + log_a - log_a[:, m - 1 : m]
    # The m-th class's own log odds: at -log L too few coins show heads, and too many at log L of the next class.
    low = torch.full_like(times, -math.log(len(q)))
    high = (math.log(len(q)) - log_odds[:, m]).clamp(max=1500)  # beyond 745 no tails are left
    for _ in range(60):
        middle = (low + high) / 2
        tilted = middle.unsqueeze(-1) + log_odds
        few = torch.sigmoid(tilted[:, m:]).sum(-1) < torch.sigmoid(-tilted[:, :m]).sum(-1)
        low, high = torch.where(few, middle, low), torch.where(few, high, middle)
    tilted = low.unsqueeze(-1) + log_odds
    zero = torch.zeros_like(tilted)  # softplus by logaddexp: F.softplus drops e^-x beyond 20
    fast = (log_a + torch.logaddexp(-tilted, zero))[:, :m].sum(-1)
    return tilted, fast + (torch.logaddexp(tilted, zero) - rate)[:, m:].sum(-1)


@typed
def corrected(law: SetLaw) -> Losses:
    """The implicit losses if hits are left out and log_coin is subtracted from all logits."""
    return set_losses(law.members, law.probability, law.log_coin)


@typed
def race_losses(log_q: Tensor, m: int) -> Losses:
    """The implicit losses of :func:`sumexp.samplers.distinct`: each label out of the race, relative weights by T."""
    each = [corrected(race_law(log_q, m, label)) for label in range(len(_law(log_q, m, spare=2)))]

    def of_scores(scores: Tensor) -> Tensor:
        return torch.stack([losses(scores)[label] for label, losses in enumerate(each)])

    return of_scores


def _law(log_q: Tensor, m: int, spare: int) -> list[float]:
    q: list[float] = checks.log_law("log_q", log_q).exp().tolist()
    m = checks.whole("m", m, 1)
    if not m + spare <= len(q) <= LARGEST or not min(q) > 0:
        raise ValueError(
            f"m is {m}, with {len(q)} classes, the least of probability {min(q):.3g}; expected m >= 1, "
            f"{m + spare} to {LARGEST} classes and a positive law"
        )
    return q


def _members(sets: list[tuple[int, ...]], classes: int) -> Tensor:
    return torch.tensor([[i in a for i in range(classes)] for a in sets], device="cpu")
