"""The numbers of scores of each row above, and equal to, given scores: by counting, a search or sorting."""

import numpy as np
import torch
from torch import Tensor

FEW, SOME, SHORT = 2, 16, 1 << 12
"""Up to FEW relevant items per list are counted; up to 1/SOME of the items are searched for; more are sorted.

CUDA sorts rows of up to SHORT scores in place; longer ones take twice the time per score, and 32 bytes.
"""


def where_true(present: Tensor) -> tuple[Tensor, Tensor]:
    """Rows and columns of the true entries, in row order."""
    if present.device.type == "cpu":  # NumPy reads eight bytes at a time
        flat = torch.from_numpy(np.flatnonzero(present.numpy()))
        return flat // present.shape[1], flat % present.shape[1]
    row, item = present.nonzero(as_tuple=True)
    return row, item


def few(scores: Tensor) -> int:
    """The most relevant items per list that are counted: more on a device, where a pass costs less than a sort."""
    return FEW * (1 if scores.device.type == "cpu" else 2 if scores.shape[1] <= SHORT else 4)


def above_and_tied(scores: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """The numbers of scores of each row above, and equal to, each wanted one [B, R]; the largest [B] if it sorts."""
    if not 1 <= wanted.shape[1] <= few(scores):
        ascending = _sort(scores.contiguous())
        return *search_sorted(ascending, wanted), ascending[:, -1]
    columns = wanted.unsqueeze(-1).unbind(1)
    above = torch.stack([count_true(scores > column) for column in columns], -1)
    return above, torch.stack([count_true(scores == column) for column in columns], -1), None


def search_sorted(ascending: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """The same from sorted scores."""
    wanted = wanted.contiguous()
    right = torch.searchsorted(ascending, wanted, right=True)
    return ascending.shape[1] - right, right - torch.searchsorted(ascending, wanted)


def _sort(scores: Tensor) -> Tensor:
    if scores.device.type == "cpu":  # NumPy sorts with vector instructions, ten times as fast as torch 2
        return torch.from_numpy(np.sort(scores.numpy(), -1))
    return scores.sort(-1).values


def count_true(mask: Tensor) -> Tensor:
    """The number of true entries of each row."""
    if mask.device.type == "cpu":
        return torch.from_numpy(mask.numpy().sum(-1, dtype=np.int64))
    if mask.shape[-1] > 1 << 24:  # single precision counts no further
        return torch.count_nonzero(mask, -1)
    # CUDA copies a mask to int64 before it sums it; of half precision it takes sums in single without a copy.
    return mask.half().sum(-1, dtype=torch.float32).long()


def all_places(scores: Tensor) -> tuple[Tensor, Tensor]:
    """(above, tied) of all items, by sorting them."""
    keys, order = _argsort(scores)
    length = scores.shape[1]
    descending = torch.arange(length - 1, -1, -1, device=scores.device).expand(scores.shape)
    above, tied = torch.ones(2, *scores.shape, dtype=torch.int64, device=scores.device)
    above.scatter_(-1, order, descending)
    equal = torch.zeros_like(keys, dtype=torch.bool)
    torch.eq(keys[:, 1:], keys[:, :-1], out=equal[:, 1:])
    # An entry that equals its predecessor; a run of these, with the entry before it, is a block of ties.
    row, column = where_true(equal)
    if len(row):
        place = row * length + column
        head = torch.ones_like(place, dtype=torch.bool)
        head[1:] = place.diff() > 1
        block, first = head.cumsum(0) - 1, place[head] - 1
        size = block.bincount() + 1
        place, block = torch.cat([place, first]), torch.cat([block, torch.arange(len(first), device=first.device)])
        item = order.flatten()[place] + place // length * length
        above.view(-1)[item] = (length - first % length - size)[block]
        tied.view(-1)[item] = size[block]
    return above, tied


def _argsort(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Keys in ascending order, equal where the scores are, and the items in that order."""
    if scores.device.type != "cpu" or scores.dtype in (torch.float64, torch.int64):
        ascending = scores.sort(-1)
        return ascending.values, ascending.indices
    # Number and item in one integer of 64 bits, the number in front: one sort of plain integers gives both.
    if scores.is_floating_point():
        bits = (scores + 0.0).view(torch.int32)  # -0.0 becomes 0.0
        bits = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    else:
        bits = scores.to(torch.int32)
    packed = bits.to(torch.int64) * (1 << 32) + torch.arange(scores.shape[1], device=bits.device)
    packed = torch.from_numpy(np.sort(packed.numpy(), -1))
    return packed >> 32, packed & 0xFFFFFFFF
