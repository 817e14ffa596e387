"""Log frequencies of a stream of ids, in bounded memory."""

import math
from collections.abc import Callable
from numbers import Real
from typing import Any, Literal, Self, get_args

import torch
import torch.distributed as dist
from torch import Tensor, nn

from sumexp import _checks as checks

PRIME = (1 << 31) - 1
OPEN = 5.0
"""A gap that is still open makes q at most this share of its inverse."""
Kind = Literal["gap", "count"]
"""The statistic: gaps between the occurrences of an id, or decayed counts."""


class StreamingLogQ(nn.Module):
    r"""Estimates :math:`\log q` of ids from the batches of training, for :func:`sumexp.functional.in_batch`.

    ``gap`` keeps for each id where in the stream it stood last and the mean distance B of its occurrences,

    .. math:: B \leftarrow (1-\alpha) B + \alpha\,(t - t_{\text{last}}), \qquad \hat q = 1/B,

    with :math:`\alpha = \max(\text{rate}, 1/n)` at its n-th occurrence. t counts examples (the paper counts batches,
    where an id of every batch has B = 1 however often it is in the batch). The gap that is still open,
    :math:`g = t - t_{\text{last}}`, counts as one more without an end:

    .. math:: 1/\hat q = \max\big(B + g/\min(n, 2/\text{rate}),\ g/5\big)

    Up to n = 1/rate that is :math:`\hat q = n/t`, the frequency so far: the gaps without g would put an id seen once .8
    nats too high. The second term forgets an id that never comes again. For large n, :math:`\log\hat q` has the
    standard deviation :math:`\sqrt{\text{rate}/2}`, for frequent ids and rare ones alike.

    ``count`` keeps counts that fade by ``1 - rate`` with every example: an id of n expected occurrences among the last
    1/rate has an error of about :math:`1/\sqrt{2n}`. No count is taken below 1, so :math:`\log\hat q` is never below
    log(rate) in the long run: an id of q = rate/10 is 2.3 nats too high, and with the default of 10^-5 so are the
    rarest of a million ids. Choose a rate below the smallest q that matters, or gaps.

    So ``gap`` is the more precise one for ids whose n is below 1/(the rate of the gaps), if frequencies stay. ``count``
    follows a drift at one pace, ``gap`` at that of the id's occurrences.

    With a ``width`` ids share slots by hashing, ``depth`` times: a collision makes an id look more frequent, so the
    largest gap and the smallest count are taken (count-min). An id never seen counts as seen once.

    Under ``torch.distributed`` every process counts the batches of all, so that all have the same estimates; all must
    call ``update`` equally often. All state is in float64 buffers, which stay float64 in ``model.half()``: averaged
    weights (EMA, SWA) come with averaged counts, and loading refuses counts that were rounded.

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
        for name, size in (("mean", slots), ("last", slots * (kind == "gap")), ("count", slots * (kind == "gap"))):
            self.register_buffer(name, torch.zeros(size, dtype=torch.float64, device="cpu"))
        self.register_buffer("step", torch.zeros((), dtype=torch.float64, device="cpu"))
        # Of polynomials of degree three: a line would send ids in a row, all at once, to few slots or to many.
        hashes = torch.randint(1, PRIME, (4, self.depth, 1), generator=checks.source(generator), device="cpu")
        self.register_buffer("hash", (hashes if width is not None else hashes[:0]).double())

    @torch.no_grad()
    def update(self, ids: checks.Values) -> None:
        """Count a batch, in its order.

        Args:
            ids: any shape.

        Raises:
            ValueError: if an id is no class.
        """
        given = checks.ids("class id", ids, self.classes).flatten().to(self.mean.device)
        slots = self._slots(_of_all_processes(given))
        size = slots.shape[1]
        at = torch.arange(1, size + 1, dtype=torch.float64, device=slots.device)
        if self.kind == "count":
            self.mean.mul_((1 - self.rate) ** size)
            fresh = (size - at).mul_(math.log1p(-self.rate)).exp_()
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
        given = checks.ids("class id", ids, self.classes)
        if given.is_meta:
            return torch.empty(given.shape, dtype=torch.float64, device=given.device)
        shape, slots, steps = given.shape, self._slots(given.flatten().to(self.mean.device)), self.step.clamp_min(1)
        if self.kind == "count":
            # Weights of all examples so far: 1 + r + ... + r^(t-1).
            total = -torch.expm1(steps * math.log1p(-self.rate)) / self.rate
            return (self.mean[slots].amin(0).clamp_min(1) / total).log().clamp_max(0).view(shape)
        number, still_open = self.count[slots], self.step - self.last[slots]
        gaps = torch.maximum(self.mean[slots] + still_open / number.clamp(1, 2 / self.rate), still_open / OPEN)
        gaps = torch.where(number > 0, gaps, steps)
        return -gaps.amax(0).clamp_min(1).log().view(shape)

    def log_prob(self, ids: checks.Values) -> Tensor:
        """The same as calling the module, under the name that samplers use."""
        return self(ids)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        """The options and their values."""
        return f"classes={self.classes}, slots={self.depth} x {self.width}, kind={self.kind!r}, rate={self.rate:g}"

    def _update_gaps(self, slots: Tensor, at: Tensor) -> None:
        """The recursion of every slot over its occurrences in this batch, in closed form."""
        order = slots.argsort(stable=True)
        slots, at = slots[order], at[order]
        place = torch.arange(slots.shape[0], device=slots.device)
        first = torch.ones_like(slots, dtype=torch.bool)
        first[1:] = slots[1:] != slots[:-1]
        start = torch.where(first, place, 0).cummax(0).values
        gap = at - torch.where(first, self.last[slots], at.roll(1))
        rank = self.count[slots] + place - start + 1
        alpha = rank.reciprocal().clamp_min(self.rate)
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

    def _slots(self, given: Tensor) -> Tensor:
        if not len(self.hash):
            return given.unsqueeze(0)
        coefficients = self.hash.round().long()
        hashed = coefficients[0]
        for coefficient in coefficients[1:]:
            hashed = (hashed * given + coefficient) % PRIME
        return hashed % self.width + self.width * torch.arange(self.depth, device=given.device).unsqueeze(-1)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        # Only the device changes. A device without numbers or without doubles leaves them where they are.
        device, kept = fn(torch.empty(0, device=self.mean.device)).device, dict(self._buffers)
        for held in kept.values():
            if held is not None and held.device == device:
                fn(held)  # share_memory() works in place
        self._buffers.clear()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        stays = device.type == "meta" or checks.wide(device) != torch.float64
        self._buffers.update({name: held if stays or held is None else held.to(device) for name, held in kept.items()})
        return self

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        for name in self._buffers:
            counts = state_dict.get(prefix + name)
            if counts is not None and counts.dtype != torch.float64:
                raise ValueError(f"{prefix}{name} is {counts.dtype}: counts that were rounded are lost; save float64")
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _of_all_processes(ids: Tensor) -> Tensor:
    """The ids of all processes in the order of their ranks; each may have another number of them."""
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return ids
    sizes = [ids.new_zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(sizes, ids.new_tensor([len(ids)]))
    padded = nn.functional.pad(ids, (0, int(max(sizes)) - len(ids)))
    parts = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(parts, padded)
    return torch.cat([part[: int(size)] for part, size in zip(parts, sizes, strict=True)])
