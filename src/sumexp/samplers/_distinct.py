r"""m *distinct* negatives, and weights that make them exact: drawing until m ids differ, read as a race.

Let draws from q arrive at the times of a Poisson process of rate 1. Class i then first arrives at the time
:math:`E_i\sim\mathrm{Exp}(q_i)`, the classes independently of each other, and the first m distinct draws are the first
m classes to arrive. Given the time T of the *next* arrival the classes are independent coins,
:math:`P(E_i<T) = 1-e^{-q_iT}`, of which m came up. If the label takes no part, these coins are all that the law of the
candidates depends on, and relative weights

.. math:: w_{yj} = \frac{1-e^{-q_yT}}{1-e^{-q_jT}}

make the sampled softmax consistent for every m and q (the proof is in the chapter *negatives*). No table of numbers,
one for each class, can do that: T is different in every sample.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from sumexp import _checks as checks
from sumexp.samplers._laws import Sampler, log_q_of
from sumexp.samplers._negatives import _check_labels


class Distinct(NamedTuple):
    r"""Distinct negatives of a batch of B examples; each has exactly m, none of which is its label.

    Hand them to :func:`sumexp.functional.sampled_softmax` as ``weights=`` and ``hits=``, without ``log_q``.

    Attributes:
        ids: [m+1] classes that all examples share, in the order of their arrival.
        weights: [B, m+1] relative weights :math:`(1-e^{-q_yT})/(1-e^{-q_jT})`, float64.
        hits: [B, m+1] bool: the one to leave out, the label if it is among the ids, else the last.
        time: [B] the time T at which the next class other than the label arrives, float64.
    """

    ids: Tensor
    weights: Tensor
    hits: Tensor
    time: Tensor


def distinct(
    sampler: Sampler, labels: checks.Values, num_negatives: int, *, generator: torch.Generator | None = None
) -> Distinct:
    r"""Draw from q until m ids other than the label are found, once for the whole batch.

    All examples share one race, from which each removes its own label. So m + 2 arrivals serve all.

    >>> drawn = samplers.distinct(samplers.LogUniform(1000), [5, 7], 10)
    >>> drawn.ids.shape, drawn.weights.shape, (~drawn.hits).sum(-1)
    (torch.Size([11]), torch.Size([2, 11]), tensor([10, 10]))

    Args:
        sampler: the law q of one draw; at least m + 2 classes must have positive probability.
        labels: [B] the examples' classes.
        num_negatives: m, distinct negatives for each example, >= 1.
        generator: source of randomness, on the sampler's device.

    Raises:
        ValueError: if m < 1, a label is no class or never drawn, or fewer than m + 2 classes can be drawn.

    Source: the times of arrival are those of priority sampling, Duffield, Lund and Thorup (2007); with Gumbel noise,
    Kool, van Hoof and Welling (2019).
    """
    checks.argument("sampler", sampler, Sampler)
    labels = _check_labels(labels, sampler.classes)
    m = checks.whole("num_negatives", num_negatives, 1, sampler.classes)
    ids, times = _arrivals(sampler, m + 2, generator)
    ids, times = ids.to(labels.device), times.to(labels.device)
    column = labels.unsqueeze(-1)
    among = (ids[:-1] == column).any(-1)
    time = torch.where(among, times[-1], times[-2])
    last = torch.arange(m + 1, device=labels.device) == m
    hits = torch.where(among.unsqueeze(-1), ids[:-1] == column, last)
    positive, negative = log_q_of(sampler, labels), log_q_of(sampler, ids[:-1])
    if len(undrawn := labels[positive == -torch.inf]):
        raise ValueError(
            f"label {int(undrawn[0])} has probability 0: its weights would be 0, so that nothing is learned from it; "
            "give every label a positive probability"
        )
    log_coin = _log_coin(negative, time.unsqueeze(-1))
    return Distinct(ids[:-1], torch.exp(_log_coin(positive, time).unsqueeze(-1) - log_coin), hits, time)


def _log_coin(log_q: Tensor, time: Tensor) -> Tensor:
    r""":math:`\log(1-e^{-qT})`."""
    return torch.log(-torch.expm1(-log_q.exp() * time))


def _arrivals(
    sampler: Sampler, count: int, generator: torch.Generator | None, block: int | None = None
) -> tuple[Tensor, Tensor]:
    """The first distinct classes to arrive [count], in order, and when they did.

    ``block`` draws come first. Where they do not hold enough classes, those not yet seen go on with clocks of their
    own, Exp(q_i) from the time reached: exponential clocks have no memory, so nothing is drawn again.
    """
    size = 2 * count if block is None else block
    drawn = sampler.sample((size,), generator)
    gaps = torch.empty(size, dtype=checks.wide(drawn.device), device=drawn.device).exponential_(generator=generator)
    arrival = gaps.cumsum(0)
    classes, place = drawn.unique(return_inverse=True)  # type: ignore[no-untyped-call]
    first = torch.full_like(classes, size).scatter_reduce_(0, place, torch.arange(size, device=drawn.device), "amin")
    order = first.argsort()
    ids, times = classes[order][:count], arrival[first[order]][:count]
    missing = count - len(ids)
    if missing == 0:
        return ids, times
    rate = log_q_of(sampler, torch.arange(sampler.classes, device=drawn.device)).exp().index_fill(0, ids, 0.0)
    unseen = int((rate > 0).sum())
    if unseen < missing:
        raise ValueError(
            f"{len(ids) + unseen} classes can be drawn, but m distinct negatives need m + 2 = {count}; take fewer, "
            "or the full softmax"
        )
    clocks = torch.empty_like(rate).exponential_(generator=generator) / rate
    later, late_ids = clocks.topk(missing, largest=False)
    return torch.cat([ids, late_ids]), torch.cat([times, arrival[-1] + later])
