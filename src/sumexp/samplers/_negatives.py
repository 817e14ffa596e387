"""Negatives for a batch: which classes, with what probability, and which of them are accidental hits."""

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple, NoReturn, get_args

import torch
from torch import Tensor
from torch.nn.functional import pad

from sumexp import _checks as checks
from sumexp import _lists as lists
from sumexp.samplers import _alias as alias
from sumexp.samplers._base import Law, Tabulated, by_class
from sumexp.samplers._laws import Mixture, Sampler, log_q_of

Hits = Literal["mask", "redraw", "keep"]
"""The rule for accidental hits, draws of the example's own label: leave out, draw again, or keep as negatives."""

InBatchHits = Literal["mask", "keep"]
"""The same where nothing is drawn."""


MOST, MOST_UNKEPT = 1 / 8, 1 / 2
"""Probability of what an example excludes up to which it is drawn again: of laws that keep tables, and of others."""

FEW = 64
"""Classes of which each has a table."""


class Negatives(NamedTuple):
    r"""Negatives of a batch of B examples, m for each.

    Attributes:
        ids: [B, m], or [m] where all examples share them: the classes.
        log_q: like ``ids``, float64: :math:`m\,q` is the expected number of times the class is among the m draws.
        hits: [B, m] bool: draws that equal the example's label and are to be left out.
    """

    ids: Tensor
    log_q: Tensor
    hits: Tensor


def draw(
    sampler: Sampler,
    labels: checks.Values,
    num_negatives: int,
    *,
    hits: Hits = "keep",
    exclude: checks.Values | Sequence[set[int]] | None = None,
    shared: bool = False,
    generator: torch.Generator | None = None,
) -> Negatives:
    r"""Draw m negatives with replacement for every example.

    The rule for accidental hits, draws that equal the example's own label, decides what law the negatives have:

    - ``keep``: q as it is, and a hit is a negative like all others: with :math:`\log q` subtracted from all logits the
      minimum of the sampled softmax is then the full one's (the chapter :doc:`/notebooks/negatives`);
    - ``mask``: q as it is, and hits are marked to be left out (:math:`q_y > 0`, :math:`w_{yy} = 0`);
    - ``redraw``: hits are drawn again until none is left (:math:`q_y = 0`): :math:`q_{y'}/(1-q_y)`. A frequent label
      takes no longer: its negatives are drawn from a table without it.

    >>> drawn = samplers.draw(samplers.Uniform(1000), [5, 7], 10)
    >>> drawn.ids.shape, drawn.log_q.shape, drawn.hits.any()
    (torch.Size([2, 10]), torch.Size([2, 10]), tensor(False))

    A user's history stays out of the negatives, and ``log_q`` is that of the classes left; so must the label's be:

    >>> law, labels = samplers.Uniform(4), [3]
    >>> drawn = samplers.draw(law, labels, 10, exclude=[[0, 1, -1]])
    >>> positive_log_q = law.log_prob(labels) + (drawn.log_q - law.log_prob(drawn.ids))[..., 0]
    >>> set(drawn.ids.flatten().tolist()) <= {2, 3}, drawn.log_q[0, 0].exp(), positive_log_q.exp()
    (True, tensor(0.5000, dtype=torch.float64), tensor([0.5000], dtype=torch.float64))

    Args:
        sampler: the law q.
        labels: [B] or [B, T] the examples' classes.
        num_negatives: m, draws for each example, >= 1.
        hits: the rule.
        exclude: [B, H] or [B, T, H] classes that are no negatives of an example, padded by -1, as the items of its
            history; or lists or sets of them, marks [B, L], a sparse matrix, or ``ranking.Labels``. They are never
            drawn; among ``shared`` negatives they are marked in ``hits``, and all of ``log_q`` stays q. Subtracting
            :math:`\log q` from all logits is then right for the classes left, if the label is one of them: what the
            model learns about classes that an example excludes comes from other examples alone.
        shared: draw m negatives once for the whole batch.
        generator: source of randomness, on the sampler's device.

    Raises:
        ValueError: if m < 1, a label is no class, the rule is unknown, shared negatives are to be redrawn, or no class
            is left to draw.

    Source: Rawat et al., Remarks 1 and 6.
    """
    checks.argument("sampler", sampler, Sampler)
    given = checks.integers("label", labels)
    labels = _check_labels(given.flatten() if given.ndim == 2 else given, sampler.classes)
    m = checks.whole("num_negatives", num_negatives, 1, 1 << 31)
    checks.choice("hits", hits, get_args(Hits))
    if shared and hits == "redraw":
        raise ValueError("shared negatives cannot be redrawn, a hit of one example is a negative of another: use mask")
    column, none = labels.unsqueeze(-1), torch.zeros(labels.shape[0], m, dtype=torch.bool, device=labels.device)
    excluded = None if exclude is None else _check_exclude(exclude, given, sampler.classes)
    if hits == "redraw" and excluded is None:
        ids, log_q = _draw_negatives(sampler, labels, m, generator)
    elif excluded is not None and not shared:
        excluded = torch.cat([excluded, column], -1).sort().values if hits == "redraw" else excluded
        ids, log_q = _draw_others(sampler, excluded, m, generator)
    else:
        ids = sampler.sample((m,) if shared else (labels.shape[0], m), generator).to(labels.device)
        log_q = log_q_of(sampler, ids)
    equal = (ids == column) if hits == "mask" else none
    if shared and excluded is not None:
        equal = equal | _among(ids, excluded)
    return Negatives(*(part.view(*given.shape, m) if part.ndim == 2 else part for part in (ids, log_q, equal)))


class _Tables(NamedTuple):
    """Those of a law and, for each of its frequent classes, of the other classes."""

    law: alias.Categorical
    words: Tensor  # all tables, joined
    log_q: Tensor  # log probabilities, joined
    start: Tensor  # [L, 1] where the table of a label starts, 0 where it is not frequent
    log_rest: Tensor  # [L, 1] log(1 - q) of labels that are not frequent, else 0


def _draw_negatives(
    sampler: Sampler, labels: Tensor, m: int, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """Draws [B, m] of classes other than each label [B], and their log probability under that."""
    taken = log_q_of(sampler, labels).exp()
    if not (taken > MOST).any():
        return _again(sampler, labels.unsqueeze(-1), taken, m, generator)
    kept = _kept(sampler)
    if kept is None:
        return _draw_others(sampler, labels.unsqueeze(-1), m, generator)
    tables: _Tables = kept.get("tables") or kept.setdefault("tables", _tables(sampler, labels))
    local_labels = labels.to(tables.start.device)
    start = tables.start[local_labels]
    ids = alias.bits((len(labels), m), generator, local_labels.device)
    alias.look_up(tables.words, len(tables.law.table), ids, start)
    _redraw(tables.law, ids, local_labels.unsqueeze(-1), generator)
    log_q = alias.take(tables.log_q, ids + start).sub_(tables.log_rest[local_labels])
    return ids.to(labels.device), checks.onto(log_q, labels.device)


def _tables(sampler: Sampler, labels: Tensor) -> _Tables:
    q, where = _probabilities(sampler, labels)
    frequent = (q > (0 if len(q) <= FEW else MOST)).nonzero().squeeze(-1)
    laws = [_law_of(q, where, label) for label in (-1, *frequent.tolist())]
    size = len(laws[0].table)
    start = torch.zeros_like(q, dtype=torch.int64)
    start[frequent] = size * torch.arange(1, len(laws), device=q.device)
    log_rest = torch.where(start > 0, 0, torch.log1p(-q))
    log_q = torch.cat([pad(law.log_q, (0, size - len(q))) for law in laws])
    each = (start.to(where).unsqueeze(-1), checks.onto(log_rest, where).unsqueeze(-1))
    return _Tables(laws[0], torch.cat([law.table for law in laws]), log_q, *each)


def _draw_others(
    sampler: Sampler, excluded: Tensor, m: int, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """Draws [B, m] of classes that each example does not exclude [B, H], and their log probability under that."""
    counted = excluded >= 0
    counted[:, 1:] &= excluded[:, 1:] != excluded[:, :-1]
    taken = torch.where(counted, log_q_of(sampler, excluded.clamp_min(0)).exp(), 0).sum(-1)
    frequent = taken > (MOST_UNKEPT if _kept(sampler) is None else MOST)
    if not frequent.any():
        return _again(sampler, excluded, taken, m, generator)
    ids = excluded.new_empty(len(excluded), m)
    log_q = taken.new_empty(ids.shape)
    if len(rare := (~frequent).nonzero().squeeze(-1)):
        ids[rare], log_q[rare] = _again(sampler, excluded[rare], taken[rare], m, generator)
    ids[frequent], log_q[frequent] = _beside(sampler, excluded[frequent], counted[frequent], m, generator)
    return ids, log_q


def _beside(
    sampler: Sampler, excluded: Tensor, counted: Tensor, m: int, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """The same by inversion: places on a line on which the classes lie side by side, without those excluded [B, H]."""
    kept = {} if (tables := _kept(sampler)) is None else tables
    if "line" not in kept:
        q, where = _probabilities(sampler, excluded)
        units = alias.whole_units(q / q.sum())
        kept["line"] = units.to(where), units.cumsum(0).to(where)
    units, ends = kept["line"]
    given, unique = excluded.to(ends.device), counted.to(ends.device)
    total = torch.where(unique, units[given.clamp_min(0)], 0).cumsum(-1)
    rest = alias.FULL - total[:, -1:]
    if len(full := (rest == 0).nonzero()):
        _refuse(excluded[full[0, 0]].tolist())
    place = alias.below(rest, alias.bits((len(given), m), generator, ends.device))
    # Where each excluded class would begin if those before it were cut out.
    start = torch.where(given < 0, 0, ends[given.clamp_min(0)] - total)
    passed = torch.searchsorted(start, place, right=True)
    ids = torch.searchsorted(ends, place + pad(total, (1, 0)).gather(-1, passed), right=True)
    log_q = checks.widest(alias.take(units, ids)).log() - checks.widest(rest).log()
    return ids.to(excluded.device), checks.onto(log_q, excluded.device)


def _again(
    sampler: Sampler, excluded: Tensor, taken: Tensor, m: int, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """The same by drawing again what is excluded; ``taken`` [B] is how often that is."""
    ids = sampler.sample((len(excluded), m), generator).to(excluded.device)
    _redraw(sampler, ids, excluded, generator)
    return ids, log_q_of(sampler, ids) - torch.log1p(-taken).unsqueeze(-1)


def _redraw(sampler: Sampler, ids: Tensor, excluded: Tensor, generator: torch.Generator | None) -> None:
    """Draw again the ids [B, m] that are excluded [B, H], in place."""
    flat = ids.view(-1)
    again = _among(ids, excluded).view(-1).nonzero().squeeze(-1)
    rows = excluded[again // ids.shape[1]]
    while len(again):
        drawn = sampler.sample((len(again),), generator).to(ids.device)
        flat[again] = drawn
        hit = _among(drawn.unsqueeze(-1), rows).squeeze(-1).nonzero().squeeze(-1)
        again, rows = again[hit], rows[hit]


def _kept(sampler: Sampler) -> dict[str, Any] | None:
    """What a law keeps, and a mixture as long as its parts have the same tables; None where that is not known."""
    if not isinstance(sampler, Mixture):
        return sampler.others if isinstance(sampler, Law) else None
    if any(not isinstance(each, Law) for part in sampler.modules() for each in getattr(part, "samplers", ())):
        return None
    tables = [part._integers for part in sampler.modules() if isinstance(part, Tabulated)]
    if list(map(id, sampler.others.get("of", ()))) != list(map(id, tables)):
        sampler.others.clear()
        sampler.others["of"] = tables
    return sampler.others


def _probabilities(sampler: Sampler, ids: Tensor) -> tuple[Tensor, torch.device]:
    """Those of all classes, on the CPU, and where draws are made."""
    where = sampler.device if isinstance(sampler, Law) else ids.device
    return log_q_of(sampler, torch.arange(sampler.classes, device=where)).cpu().double().exp(), where


def _law_of(q: Tensor, device: torch.device, label: int) -> alias.Categorical:
    """The distribution given that no draw is of a class, -1 for none."""
    q = q.clone()
    if label >= 0:
        q[label] = 0
    if not bool((q > 0).any()):
        _refuse([label])
    return alias.Categorical(checks.onto(q / q.sum(), device))


def _refuse(classes: list[int]) -> NoReturn:
    of = sorted({label for label in classes if label >= 0})
    named = f"label {of[0]} has probability 1 under q" if len(of) == 1 else f"{tuple(of)} hold all classes of q"
    raise ValueError(f"{named}: no other class can be drawn; use hits='mask' or exclude fewer")


def _among(ids: Tensor, rows: Tensor) -> Tensor:
    """Which ids, [m] or [B, m], are among those of each row [B, H], which stand in order."""
    if rows.shape[1] == 1:
        return ids == rows
    ids = ids.expand(rows.shape[0], ids.shape[-1])
    place = torch.searchsorted(rows, ids.contiguous()).clamp_max(rows.shape[1] - 1)
    return rows.gather(-1, place) == ids


def _check_exclude(exclude: Any, labels: Tensor, classes: int) -> Tensor:
    if (marked := lists.entries("exclude", exclude := lists.listed(exclude))) is not None:
        read = marked[0].to(labels.device)
        if marked[2][1] != classes:
            raise ValueError(f"exclude is sparse of shape {marked[2]}; it must be [{labels.shape[0]}, {classes}]")
    else:
        if labels.ndim == 2 and isinstance(exclude, list | tuple):
            exclude = [lists.unbound(row) for row in exclude]
        nested = labels.ndim == 2 and isinstance(exclude, list) and all(map(_is_nested, exclude))
        if nested and (lengths := [len(row) for row in exclude]) != [labels.shape[1]] * len(labels):
            raise ValueError(
                f"exclude has {lengths} lists in its rows; it must have {labels.shape[1]} in each of {len(labels)}"
            )
        read = lists.pad_lists("exclude", list(chain(*exclude)) if nested else exclude, -1).to(labels.device)
        read = read.view(*labels.shape, -1) if nested else read
    if read.dtype == torch.bool and read.shape[-1:] == (classes,):
        read = torch.where(read, torch.arange(classes, device=read.device), -1)
    given = checks.integers("excluded id", read)
    if given.ndim == 2 and labels.ndim == 2 and given.shape[0] == labels.shape[0]:
        given = given.unsqueeze(1).expand(*labels.shape, -1)
    if given.ndim != labels.ndim + 1 or given.shape[:-1] != labels.shape or not given.shape[-1]:
        rows = ", ".join(map(str, labels.shape))
        raise ValueError(f"exclude has shape {tuple(given.shape)}; it must be [{rows}, H], padded by -1")
    checks.ids("excluded id", given.clamp_min(0), classes)
    if given.shape[-1] == classes > 2:
        least, most = checks.read(*given.aminmax(), default=-1.0)
        if least >= 0 and most <= 1:
            raise ValueError(
                f"exclude holds 0 and 1 for each of {classes} classes; it must hold the classes themselves, padded by "
                "-1: for marks give marks == 1, for classes one more column of -1"
            )
    return given.flatten(0, -2).sort().values


def _is_nested(row: Any) -> bool:
    """Whether a row holds lists, sets, arrays or tensors."""
    return isinstance(row, list | tuple) and any(hasattr(each, "__len__") and getattr(each, "ndim", 1) for each in row)


def within_batch(
    labels: checks.Values,
    log_prior: checks.Values,
    *,
    hits: InBatchHits = "keep",
    union: bool = False,
    shared: bool = False,
) -> Negatives:
    r"""The labels of the other examples as negatives.

    As a multiset, class y' has the expected count :math:`(B-1)\pi_{y'}`: these are B - 1 draws from the prior. As a
    union, what practice uses, it is there at most once, with probability :math:`1-(1-\pi_{y'})^{B-1}`: that flattens
    the ratio of frequent to rare classes. Either way ``log_q`` says which.

    To train, :func:`sumexp.functional.in_batch` takes the scores and needs none of this. The multiset's matrices take
    17 bytes for each pair, 285 MB for 4,096 labels; ``shared`` gives it in a tenth of the time and 1 byte a pair.

    >>> drawn = samplers.within_batch([2, 0, 2], torch.tensor([0.5, 0.3, 0.2]).log(), hits="mask")
    >>> drawn.ids.tolist(), drawn.hits.tolist()
    ([[0, 2], [2, 2], [2, 0]], [[False, True], [False, False], [True, False]])

    A loss that subtracts log q from all logits needs the positive's under the law of the negatives. For the matrices
    that is ``log_prior[labels]``. Where examples share columns it is the log q of the own column: ``log_prior[labels]``
    lacks the :math:`\log\frac{B-1}B` and moves the minimum by O(1/B). So ``shared`` gives the loss of ``in_batch``:

    >>> scores, log_prior = torch.tensor([[2.0, 0.0], [1.0, 1.0]]), torch.tensor([0.75, 0.25]).log()
    >>> drawn = samplers.within_batch([0, 1], log_prior, shared=True)
    >>> law = {"log_q": drawn.log_q, "positive_log_q": drawn.log_q}
    >>> functional.sampled_softmax(scores.diagonal(), scores, **law, hits=drawn.hits)
    tensor(0.3142)
    >>> functional.in_batch(scores, [0, 1], log_q=log_prior)
    tensor(0.3142)

    ``correct="negatives"`` counts B draws there, :func:`sumexp.functional.in_batch` B - 1: it is not the same loss.

    Args:
        labels: [B] classes of the batch, B >= 2.
        log_prior: [L] log frequencies of the classes.
        hits: ``keep`` accidental hits, the labels of other examples that equal an example's own, or ``mask`` them: mark
            them to be left out.
        union: each class once, shared by all examples (ids [U], in order, so that the own column is
            ``torch.searchsorted(ids, labels)``); else the multiset (ids [B, B-1], the order that :func:`off_diagonal`
            gives a matrix of scores). Of a union of B > 2 the minimum is not :math:`\log P`.
        shared: the multiset as columns that all examples share (ids [B], the labels themselves): an example's own
            column is always marked to be left out, and ``log_q`` is :math:`\log\frac{B-1}B\pi`, as B columns hold
            B - 1 draws.

    Raises:
        ValueError: for shapes that do not fit, fewer than two examples, a label that is no class, or a label whose
            prior is 0, above 1 or NaN.

    Source: Rawat et al., section 2.2.
    """
    checks.choice("hits", hits, get_args(InBatchHits))
    prior = by_class("log_prior", log_prior)
    prior = prior.to(checks.wide(prior.device))
    labels = _check_labels(labels, prior.shape[0]).to(prior.device)
    if labels.shape[0] < 2:
        raise ValueError(f"a batch of {len(labels)} has no other labels to take negatives from")
    column = labels.unsqueeze(-1)
    fits = (prior[labels] > -math.inf) & ~checks.above_one(prior[labels])
    if not checks.read(fits.all(), default=1.0)[0]:
        wrong = int(labels[~fits][0])
        raise ValueError(
            f"log_prior is {prior[wrong].item()!r} for label {wrong}, which is in the batch; log_prior must hold "
            "logarithms of probabilities, positive for every class that can occur (count them all, or counts + 1)"
        )
    if shared and not union:
        diagonal = torch.eye(labels.shape[0], dtype=torch.bool, device=labels.device)
        left_out = labels == column if hits == "mask" else diagonal
        # A logarithm in Python would fix the size of the batch in a graph.
        return Negatives(labels, prior[labels] + torch.log1p(-1 / prior.new_full((), labels.shape[0])), left_out)
    if not union:
        # What stands in place j of row i: label j before the diagonal, label j + 1 from it on.
        places = torch.arange(labels.shape[0] - 1, device=labels.device)
        before = places < torch.arange(labels.shape[0], device=labels.device).unsqueeze(-1)
        log_q = prior[labels]
        ids = torch.where(before, labels[:-1], labels[1:])
        equal = ids == column if hits == "mask" else torch.zeros_like(ids, dtype=torch.bool)
        return Negatives(ids, torch.where(before, log_q[:-1], log_q[1:]), equal)
    present, counts = labels.unique(return_counts=True)  # type: ignore[no-untyped-call]
    log_count = log_inclusion(prior[present], labels.shape[0] - 1)
    # Kept, an example's own class is there if another example has it too.
    equal = (present == column) if hits == "mask" else (present == column) & (counts == 1)
    return Negatives(present, log_count - math.log(len(present)), equal)


def off_diagonal(scores: checks.Values) -> Tensor:
    """[B, B] -> [B, B-1]: every row without its diagonal entry, as the negatives of in-batch scores.

    >>> samplers.off_diagonal(torch.arange(9).view(3, 3)).tolist()
    [[1, 2], [3, 5], [6, 7]]

    Raises:
        ValueError: if they are no square of at least 2 x 2.
    """
    scores = checks.tensor("scores", scores)
    size = scores.shape[0] if scores.ndim else 0
    if scores.ndim != 2 or scores.shape[1] != size or size < 2:
        raise ValueError(f"scores have shape {tuple(scores.shape)}; a square of at least 2 x 2 is needed")
    return scores.reshape(-1)[1:].view(size - 1, size + 1)[:, :-1].reshape(size, size - 1)


def model_based(
    logits: checks.Values,
    labels: checks.Values,
    num_negatives: int,
    *,
    hits: Hits = "keep",
    generator: torch.Generator | None = None,
) -> Negatives:
    r"""Negatives from the model's own probabilities, :math:`q_{y'} \propto e^{f_{y'}}`; it reads all logits.

    With ``keep`` q is the softmax itself, and :math:`\log q` subtracted from all logits makes the mean gradient
    proportional to the full softmax's; with ``redraw`` q is normalised over the negatives, and
    ``correct="importance"`` gives the full softmax's loss for every draw; with ``mask`` it is normalised over all
    classes and hits are left out, which is not the same.

    >>> samplers.model_based(torch.zeros(2, 1000), [5, 7], 10).ids.shape
    torch.Size([2, 10])

    Args:
        logits: [B, L] scores; q is taken as a constant.
        labels: [B] the examples' classes.
        num_negatives: m, draws for each example, >= 1.
        hits: the rule for accidental hits, see :func:`draw`.
        generator: source of randomness, on the logits' device.

    Raises:
        ValueError: if shapes do not fit, m < 1, a label is no class, a logit is NaN or +inf, or no class is left.

    Source: Rawat et al., section 2.2; Stratos, end of Appendix C.
    """
    labels, logits = checks.integers("label", labels), checks.reals("logits", logits)
    if logits.ndim != 2 or labels.shape != logits.shape[:1]:
        raise ValueError(f"logits {tuple(logits.shape)} and labels {tuple(labels.shape)} must be [B, L] and [B]")
    m = checks.whole("num_negatives", num_negatives, 1, 1 << 31)
    checks.choice("hits", hits, get_args(Hits))
    scores, device = checks.double(logits.detach()), logits.device
    labels = _check_labels(labels, logits.shape[1]).to(scores.device)
    [largest] = checks.read(scores.max())
    if not largest < math.inf:
        raise ValueError("a logit is NaN or +inf; q needs finite logits, or -inf for a class never drawn")
    column = labels.unsqueeze(-1)
    if hits == "redraw":
        scores = scores.scatter(-1, column, -torch.inf)
    if not checks.read(scores.amax(-1).min())[0] > -math.inf:
        raise ValueError("an example has no class left to draw: all its logits but the label's are -inf")
    log_q = torch.log_softmax(scores, -1)
    below = log_q.exp().cumsum(-1)
    u = alias.uniform((labels.shape[0], m), generator, device)
    # Of the classes with positive probability the first whose cumulative probability exceeds u.
    ids = torch.searchsorted(below, u * below[:, -1:], right=True).clamp_max_(logits.shape[1] - 1)
    equal = ids == column if hits == "mask" else torch.zeros_like(ids, dtype=torch.bool)
    return Negatives(ids.to(device), checks.onto(log_q.gather(-1, ids), device), equal.to(device))


def log_inclusion(log_q: checks.Values, num_negatives: int) -> Tensor:
    r"""Log probability that a class is among m draws, :math:`\log(1-(1-q)^m)`, accurate for small and large q.

    >>> samplers.log_inclusion(torch.tensor([0.5, 0.1]).log(), 2).exp()
    tensor([0.7500, 0.1900], dtype=torch.float64)

    Args:
        log_q: log probabilities of a draw.
        num_negatives: m, the number of draws, from 1 to 2^53.

    Raises:
        ValueError: if m is no such number, or log_q is NaN or above 0.
    """
    checks.check_order("log_q", log_q)
    m, log_q = checks.whole("num_negatives", num_negatives, 1, 1 << 53), checks.reals("log_q", log_q)
    log_q = log_q.to(checks.wide(log_q.device))
    if not torch.compiler.is_compiling() and log_q.numel() and not checks.read(log_q.max())[0] <= 1e-6:
        raise ValueError(f"log_q must hold logarithms of probabilities, got {log_q.max().item()!r}")
    log_q = log_q.clamp_max(0)
    inclusion = torch.log(-torch.expm1(m * torch.log1p(-torch.exp(log_q))))
    # Where q is too small to differ from 0, it is m q.
    return torch.where(log_q < -600, log_q + log_q.new_full((), m).log(), inclusion)


def _check_labels(labels: checks.Values, classes: int) -> Tensor:
    given = checks.integers("label", labels)
    if given.ndim != 1 or not given.shape[0]:
        raise ValueError(f"labels must be integers [B], B >= 1, got shape {tuple(given.shape)}")
    return checks.ids("label", given, classes)
