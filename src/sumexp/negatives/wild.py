"""Faults of samplers in use, reproduced in a few lines, with their exact effects.

None stops a training run or shows in its loss; each moves the minimum or the distribution of the negatives.
"""

import math
from fractions import Fraction

import torch
from torch import Tensor

from sumexp import _checks as checks


def one_class_short(classes: int, device: torch.device | str | None = None) -> tuple[Tensor, Tensor]:
    r"""A log-uniform sampler that draws with :math:`\log N` and scores with :math:`\log(N+1)`: [N] both log laws.

    ``exp(u log N) - 1`` rounded down is at most N - 2: the last class is never drawn.
    """
    classes = checks.whole("classes", classes, 2)
    mass = torch.log1p(1 / torch.arange(1, classes + 1, dtype=torch.float64, device=device))
    drawn = mass / math.log(classes)
    drawn[-1] = 0
    return drawn.log(), (mass / math.log1p(classes)).log()


def add_tiny(logits: Tensor, hits: Tensor) -> Tensor:
    """Intended to remove accidental hits, this adds 10^-40 to them, a hundredth of the smallest normal float32."""
    return logits + hits * (torch.finfo(torch.float32).tiny / 100)


def slice_inclusion(log_q: Tensor, tries: int, kept: int) -> Tensor:
    r"""The probability of each class to be among ``drawn.unique()[:kept]``, which sorts: the lowest distinct ids.

    Through the classes in order, the state is (distinct so far, draws used so far); class y takes a binomial number of
    the remaining draws, with probability :math:`q_y/\sum_{y'\ge y}q_{y'}` each. It is returned if it takes at least one
    draw and fewer than ``kept`` classes came before.

    ``log_q`` [classes] is the law of one draw, in the order of the ids.
    """
    tries, kept = checks.whole("tries", tries, 1), checks.whole("kept", kept, 1)
    q = checks.log_law("log_q", log_q).exp()
    tail = q.flip(0).cumsum(0).flip(0)
    taken_up, left_over = q / tail, torch.cat([tail[1:], tail.new_zeros(1)]) / tail
    used = torch.arange(tries + 1, dtype=torch.float64, device=q.device)
    taken = used - used.unsqueeze(1)  # [before, after]
    left = tries - used
    log_ways = torch.lgamma(left + 1).unsqueeze(1) - torch.lgamma(left + 1) - torch.lgamma(taken + 1)
    advances = taken > 0

    state = q.new_zeros(kept, tries + 1)
    state[0, 0] = 1
    inclusion = torch.empty_like(q)
    for y in range(len(q)):
        share, rest = (taken_up[y], left_over[y]) if tail[y] > 0 else (q[y], 1 - q[y])  # 1 - share would lose digits
        none = rest**left
        log_chance = log_ways + torch.xlogy(taken, share) + torch.xlogy(left, rest)
        moved = state @ torch.where(advances, log_chance.exp(), 0.0)
        inclusion[y] = moved.sum()
        state = state * none
        state[1:] += moved[:-1]
    return inclusion


def modulo_share(bits: int, classes: int, below: int) -> Fraction:
    r"""The share of ids under ``below`` when a random word of ``bits`` bits is reduced modulo the number of classes.

    The first :math:`2^b \bmod L` ids get one word more than the others. ``torch.randint`` reduces 32 bits for ranges
    below :math:`2^{28}` and 64 from there on (PyTorch 2.13).
    """
    if bits < 0 or not 0 <= below <= classes <= 1 << bits or classes < 1:
        raise ValueError(f"below is {below}, classes {classes}; expected 0 <= below <= classes <= 2^{bits}")
    each, extra = divmod(1 << bits, classes)
    return Fraction(below * each + min(below, extra), 1 << bits)
