"""Log frequencies of a stream of ids, in bounded memory."""

import math
from collections.abc import Callable
from numbers import Real
from typing import Literal, Self, get_args

import torch
from torch import Tensor, nn

from sumexp import _checks as checks

PRIME = (1 << 31) - 1
OPEN = 5.0
"""Mean gaps from which on a gap that is still open counts."""
Kind = Literal["gap", "count"]
"""What is averaged: how long an id is away, or how often it comes."""


class StreamingLogQ(nn.Module):
    r"""Estimates :math:`\log q` of ids from the batches of training, for :func:`sumexp.functional.in_batch`.

    ``gap`` keeps for each id where in the stream it stood last and the mean distance B of its occurrences,

    .. math:: B \leftarrow (1-\alpha) B + \alpha\,(t - t_{\text{last}}), \qquad \hat q = 1/B,

    with :math:`\alpha = \max(\text{rate}, 1/n)` at its n-th occurrence. t counts examples (the paper counts batches,
    where an id of every batch has B = 1 however often it stands in it). Gaps are geometric, so that
    :math:`\log\hat q` has the standard deviation :math:`\sqrt{\text{rate}/2}` for every id that came often,
    frequent or rare. ``count`` keeps counts that fade by ``1 - rate`` with every example: an id of n expected
    occurrences among the last 1/rate is off by about :math:`1/\sqrt{2n}`. So ``gap`` is the more precise one for ids
    that came often and whose n is below 1/(the rate of the gaps), if frequencies stay. Where they drift choose
    ``count``: it forgets at one pace, and ``gap`` at that of the id's own occurrences.

    A gap that is still open counts once it is five times B, as :math:`\hat q = 5/(t - t_{\text{last}})`: an id that
    never comes again does not keep its q. Of a law that stays that is .7 % of the time, and moves the mean of B by
    :math:`e^{-5}/5` = .13 %.

    With a ``width`` ids share slots by hashing, ``depth`` times: a collision makes an id look more frequent, so the
    largest gap and the smallest count are taken (count-min). An id never seen counts as seen once.

    >>> stream = nn.StreamingLogQ(1000, kind="count")
    >>> stream.update([3, 3, 7, 9])
    >>> stream([3, 7]).exp()
    tensor([0.5000, 0.2500], dtype=torch.float64)

    Args:
        classes: number of classes; memory is a slot for each, unless there is a width.
        width: slots of each hash table.
        depth: hash tables.
        kind: ``gap`` or ``count``.
        rate: in (0, 1/2]; by default .01 for gaps, 10^-5 for counts.
        generator: source of the hash functions.

    Raises:
        ValueError: if a size is not positive or the rate out of range.

    Source: Yi et al. (2019), Algorithm 2 and section 3.2 (several hash functions); Cormode and Muthukrishnan (2005)
    for the count-min sketch; Wegman and Carter (1981) for the hash functions, of which any four ids are independent.
    """

    step: Tensor
    mean: Tensor
    last: Tensor
    count: Tensor
    hash: Tensor

    def __init__(
        self,
        classes: int,
        *,
        width: int | None = None,
        depth: int = 2,
        kind: Kind = "gap",
        rate: float | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        checks.choice("kind", kind, get_args(Kind))
        self.classes = checks.whole("classes", classes, 1, PRIME - 1)
        self.width = self.classes if width is None else checks.whole("width", width, 1, PRIME - 1)
        self.depth = 1 if width is None else checks.whole("depth", depth, 1, 64)
        given: object = (0.01 if kind == "gap" else 1e-5) if rate is None else rate
        if not (isinstance(given, Real) and 0 < float(given) <= 0.5):
            raise ValueError(f"rate is {rate!r}; it must be above 0 and at most 1/2")
        self.kind, self.rate = kind, float(given)
        slots = self.depth * self.width
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(slots, dtype=torch.float64))
        self.register_buffer("last", torch.zeros(slots if kind == "gap" else 0, dtype=torch.int64))
        self.register_buffer("count", torch.zeros(slots if kind == "gap" else 0, dtype=torch.int64))
        # Of polynomials of degree three: a line would send ids in a row, all at once, to few slots or to many.
        hashes = torch.randint(1, PRIME, (4, self.depth, 1), generator=checks.source(generator))
        self.register_buffer("hash", hashes if width is not None else torch.empty(0, dtype=torch.int64))

    @torch.no_grad()
    def update(self, ids: checks.Values) -> None:
        """Count a batch, in the order in which it stands.

        Args:
            ids: any shape.

        Raises:
            ValueError: if an id is no class.
        """
        slots = self._slots(ids)
        size = slots.shape[1]
        at = torch.arange(1, size + 1, device=slots.device)
        if self.kind == "count":
            self.mean.mul_((1 - self.rate) ** size)
            fresh = (size - at).double().mul_(math.log1p(-self.rate)).exp_()
            self.mean.index_add_(0, slots.flatten(), fresh.repeat(self.depth))
        else:
            self._update_gaps(slots.flatten(), (self.step + at).repeat(self.depth))
        self.step += size

    @torch.no_grad()
    def forward(self, ids: checks.Values) -> Tensor:
        """Log q of ids, float64, in their shape.

        Raises:
            ValueError: if an id is no class.
        """
        shape, slots = checks.integers("id", ids).shape, self._slots(ids)
        steps = self.step.double().clamp_min(1)
        if self.kind == "count":
            # Weights of all examples so far: 1 + r + ... + r^(t-1).
            total = -torch.expm1(steps * math.log1p(-self.rate)) / self.rate
            return (self.mean[slots].amin(0).clamp_min(1) / total).log().clamp_max(0).view(shape)
        gaps = torch.maximum(self.mean[slots], (self.step - self.last[slots]).double() / OPEN)
        gaps = torch.where(self.count[slots] > 0, gaps, steps)
        return -gaps.amax(0).clamp_min(1).log().view(shape)

    def extra_repr(self) -> str:
        """What was chosen."""
        return f"classes={self.classes}, slots={self.depth} x {self.width}, kind={self.kind!r}, rate={self.rate:g}"

    def _update_gaps(self, slots: Tensor, at: Tensor) -> None:
        """The recursion of every slot over its occurrences in this batch, in closed form."""
        order = slots.argsort(stable=True)
        slots, at = slots[order], at[order]
        place = torch.arange(len(slots), device=slots.device)
        first = torch.ones_like(slots, dtype=torch.bool)
        first[1:] = slots[1:] != slots[:-1]
        start = torch.where(first, place, 0).cummax(0).values
        gap = (at - torch.where(first, self.last[slots], at.roll(1))).double()
        rank = self.count[slots] + place - start + 1
        alpha = rank.double().reciprocal().clamp_min(self.rate)
        # log(1 - alpha), of which the very first occurrence has none: what stood there before it counts for nothing.
        kept = torch.where(rank > 1, torch.log1p(-alpha), 0)
        through = kept.cumsum(0)
        final = torch.ones_like(first)
        final[:-1] = first[1:]
        group = first.cumsum(0) - 1
        until = through[final][group]
        touched, before = slots[first], (through - kept)[first]
        share = torch.zeros_like(before).index_add_(0, group, alpha * gap * (until - through).exp())
        old = self.mean[touched] * (until[first] - before).exp() * (self.count[touched] > 0)
        self.mean[touched] = old + share
        self.count[touched] = rank[final]
        self.last[touched] = at[final]

    def _slots(self, ids: checks.Values) -> Tensor:
        given = checks.ids("class id", ids, self.classes).flatten().to(self.mean.device)
        if not len(self.hash):
            return given.unsqueeze(0)
        hashed = self.hash[0]
        for coefficient in self.hash[1:]:
            hashed = (hashed * given + coefficient) % PRIME
        return hashed % self.width + self.width * torch.arange(self.depth, device=given.device).unsqueeze(-1)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        kept = self.mean
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self.mean.dtype != kept.dtype:
            self.mean = kept.to(self.mean.device)  # model.half() does not round what was learned
        return self
