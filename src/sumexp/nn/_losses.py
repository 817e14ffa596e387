"""Losses with their options, as ``torch.nn`` has them: thin modules on :mod:`sumexp.functional`."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, get_args

import torch
from torch import Tensor, nn

from sumexp import _checks as checks
from sumexp import functional
from sumexp.functional._arguments import REDUCTIONS, Correct, Reduction, for_sums
from sumexp.functional._batch import InBatchHits, Options, _smoothing, batch_loss, reduced
from sumexp.functional._pairs import _calibration, _number, pairs_loss

IGNORED = -(1 << 63), (1 << 63) - 1
"""Range of labels that mark what is no example."""


def learned(value: float, is_learned: bool, device: torch.device | str, dtype: torch.dtype) -> nn.Parameter | None:
    """A number that is learned, at least float32, of shape [1]: FSDP shards no parameter without a dimension."""
    if not is_learned:
        return None
    return nn.Parameter(torch.tensor([value], device=device, dtype=torch.promote_types(dtype, torch.float32)))


class Shown(nn.Module):
    """A module that prints its options."""

    shown: tuple[str, ...] = ("correct", "reduction")

    def extra_repr(self) -> str:
        """The options and their values, but numbers on meta, or sharded by FSDP: to read them takes all processes."""
        learned = list(self.parameters(recurse=False))
        hidden = any(hasattr(p, "full_tensor") or not p.numel() or not checks.has_numbers(p) for p in learned)
        left_out = ("temperature", "logit_bias") if hidden else ()
        values = [(name, getattr(self, name)) for name in self.shown if name not in left_out]
        numbers = [(name, value.item() if isinstance(value, Tensor) else value) for name, value in values]
        return ", ".join(f"{name}={f'{of:.6g}' if isinstance(of, float) else repr(of)}" for name, of in numbers)


class Tempered(Shown):
    """A loss with a temperature: fixed, as an option that ``state_dict`` does not hold, or learned by its logarithm."""

    def _set_temperature(
        self, temperature: float | Tensor, learn: bool, device: torch.device | str, dtype: torch.dtype
    ) -> None:
        self._fixed_temperature = checks.number("temperature", temperature)
        self.log_temperature = learned(math.log(self._fixed_temperature), learn, device, dtype)

    def reset_parameters(self) -> None:
        """Set the learned numbers to their first values: ``to_empty`` leaves them undefined."""
        first = {"log_temperature": math.log(self._fixed_temperature), "logit_bias": getattr(self, "_first_bias", 0.0)}
        for name, value in first.items():
            if isinstance(number := getattr(self, name, None), nn.Parameter):
                nn.init.constant_(number, value)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        # Older checkpoints hold learned numbers without a dimension.
        for name in ("log_temperature", "logit_bias"):
            if (held := state_dict.get(prefix + name)) is not None and not held.ndim:
                state_dict[prefix + name] = held.reshape(1)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    @property
    def learn_temperature(self) -> bool:
        """Whether log T is a parameter."""
        return self.log_temperature is not None

    @property
    def temperature(self) -> Tensor:
        """T, a tensor without dimensions, at least float32; where FSDP has sharded it all processes must ask for it."""
        if (whole := getattr(self.log_temperature, "full_tensor", None)) is not None:
            return for_sums(whole()).exp().squeeze()
        given = self._divisor
        return given if isinstance(given, Tensor) else torch.tensor(given, dtype=torch.float32, device="cpu")

    @property
    def _divisor(self) -> float | Tensor:
        """T, a number where it is fixed."""
        log_t = self.log_temperature
        return self._fixed_temperature if log_t is None else for_sums(log_t).exp().squeeze()


def _padding(scores: Tensor, ids: checks.Values, ignore_index: int) -> tuple[Tensor, Tensor | None]:
    """The classes of the columns, and which of them are not there; None for none."""
    checks.floating("scores", scores, "[B, B + E]", 2)
    classes = checks.integers("id", ids).to(scores.device)
    absent = classes == ignore_index
    # A graph asks no value: there places are always looked at.
    some_absent = absent.shape == scores.shape[1:] and bool(checks.read(absent.any(), default=1.0)[0])
    return classes, absent if some_absent else None


class InBatchSoftmax(Tempered):
    r"""The loss of a batch in which each example's class is a negative of the others.

    :func:`sumexp.functional.in_batch` with its options, a temperature that may be learned, and places that are no
    example. The defaults are those whose minimum is :math:`\log P(y\mid x)` up to a constant.

    >>> loss = nn.InBatchSoftmax(temperature=0.05, learn_temperature=True)
    >>> queries, items = torch.eye(3), torch.eye(3)
    >>> loss(queries @ items.T, [7, 2, 9], log_q=torch.tensor([0.5, 0.3, 0.2]).log()).shape
    torch.Size([])

    Args:
        correct, hits, label_smoothing, symmetric: as the function has them.
        temperature: T > 0, a number or a tensor of one, the first value if it is learned.
        learn_temperature: whether :math:`\log T` is a parameter.
        ignore_index: the id of places that are no example, nor a candidate.
        reduction: ``mean`` over the examples that are there, ``sum``, or ``none``, which has 0 where there is none.
        device: where a learned temperature lies.
        dtype: its type, at least float32.

    Raises:
        ValueError: for an unknown option, T not positive, or ``ignore_index`` that is no whole number.
    """

    shown = ("correct", "hits", "temperature", "learn_temperature", "label_smoothing", "symmetric", "reduction")

    def __init__(
        self,
        *,
        correct: Correct = "all",
        hits: InBatchHits = "keep",
        label_smoothing: float = 0.0,
        symmetric: bool = False,
        temperature: float | Tensor = 1.0,
        learn_temperature: bool = False,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        checks.choice("correct", correct, get_args(Correct))
        checks.choice("hits", hits, get_args(InBatchHits))
        checks.choice("reduction", reduction, REDUCTIONS)
        self.correct, self.hits, self.reduction = correct, hits, reduction
        self.label_smoothing, self.symmetric = _smoothing(label_smoothing), symmetric
        self.ignore_index = checks.whole("ignore_index", ignore_index, *IGNORED)
        self._set_temperature(temperature, learn_temperature, device, dtype)

    def forward(
        self,
        scores: Tensor,
        ids: checks.Values,
        *,
        log_q: checks.Values | None = None,
        positives: checks.Values | None = None,
        row_ids: checks.Values | None = None,
        row_log_q: checks.Values | None = None,
    ) -> Tensor:
        """The loss of a batch, with the arguments and errors of :func:`sumexp.functional.in_batch`.

        ``ids`` are ``ignore_index`` where there is no class; what ``log_q`` holds there does not matter.
        """
        classes, padding = _padding(scores, ids, self.ignore_index)
        options = Options(self.correct, self.hits, self.label_smoothing, self._divisor, self.symmetric, self.reduction)
        return batch_loss(scores, classes, log_q, options, positives, row_ids, row_log_q, padding)


class SigmoidPairs(Tempered):
    r"""The loss of SigLIP with its scale and bias: :func:`sumexp.functional.sigmoid_pairs` with its options.

    >>> loss = nn.SigmoidPairs(temperature=0.1, logit_bias=-10.0, learn_temperature=True, learn_logit_bias=True)
    >>> loss(torch.eye(3), [7, 2, 9]).detach()  # log 2 for each true pair, little for the others
    tensor(0.6932)

    Args:
        hits: ``keep`` accidental hits as false pairs, or ``mask`` them.
        logit_bias: b, a number or a tensor of one; for a batch of B without log q best at :math:`-\log(B-1)`.
        learn_logit_bias: whether b is a parameter.
        temperature, learn_temperature, ignore_index, reduction, device, dtype: as :class:`InBatchSoftmax` has them.

    Raises:
        ValueError: for an unknown option, T not positive, or ``ignore_index`` that is no whole number.
    """

    shown = ("hits", "temperature", "logit_bias", "learn_temperature", "reduction")

    def __init__(
        self,
        *,
        hits: InBatchHits = "keep",
        temperature: float | Tensor = 1.0,
        learn_temperature: bool = False,
        logit_bias: float | Tensor = 0.0,
        learn_logit_bias: bool = False,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        checks.choice("hits", hits, get_args(InBatchHits))
        checks.choice("reduction", reduction, REDUCTIONS)
        self.hits, self.reduction = hits, reduction
        self.ignore_index = checks.whole("ignore_index", ignore_index, *IGNORED)
        self._set_temperature(temperature, learn_temperature, device, dtype)
        self._first_bias = _number(checks.plain("logit_bias", logit_bias))
        bias = learned(self._first_bias, learn_logit_bias, device, dtype)
        self.logit_bias = self._first_bias if bias is None else bias

    def forward(self, scores: Tensor, ids: checks.Values, *, log_q: checks.Values | None = None) -> Tensor:
        """The loss of a batch; arguments and errors as the function has them.

        ``ids`` are ``ignore_index`` where there is no class; what ``log_q`` holds there does not matter.
        """
        classes, padding = _padding(scores, ids, self.ignore_index)
        return pairs_loss(scores, classes, log_q, self.hits, self._divisor, self.logit_bias, self.reduction, padding)


class BinaryNCE(Shown):
    """Local NCE, the loss of word2vec: :func:`sumexp.functional.binary_nce` with its options.

    >>> loss = nn.BinaryNCE(reduction="sum")
    >>> loss(torch.zeros(2), torch.zeros(2, 5)) / (2 * 6)  # log 2 for each of six candidates
    tensor(0.6931)

    It sees logits and no ids, so it has no ``ignore_index``: of a padded batch pass the rows that are there,
    ``loss(positive[present], negative[present])``.
    """

    def __init__(self, *, correct: Correct = "all", reduction: Reduction = "mean") -> None:
        super().__init__()
        checks.choice("correct", correct, get_args(Correct))
        checks.choice("reduction", reduction, REDUCTIONS)
        self.correct, self.reduction = correct, reduction
        self._loss: Callable[..., Tensor] = functional.binary_nce

    def forward(
        self,
        positive_logits: Tensor,
        negative_logits: Tensor,
        *,
        log_q: checks.Values | None = None,
        positive_log_q: checks.Values | None = None,
        weights: checks.Values | None = None,
        hits: checks.Values | None = None,
    ) -> Tensor:
        """The loss of a batch; arguments and errors as the function has them."""
        return self._loss(
            positive_logits,
            negative_logits,
            log_q=log_q,
            positive_log_q=positive_log_q,
            correct=self.correct,
            weights=weights,
            hits=hits,
            reduction=self.reduction,
        )


class GBCE(BinaryNCE):
    r"""The loss of gSASRec: :func:`sumexp.functional.gbce` with its options; padding as for :class:`BinaryNCE`.

    >>> loss = nn.GBCE(classes=5, calibration=1.0)
    >>> loss(torch.tensor([2.0]), torch.tensor([[0.0, -1.0]]))
    tensor(1.0699)

    """

    shown = ("classes", "calibration", *BinaryNCE.shown)

    def __init__(
        self, classes: int, *, calibration: float = 0.75, correct: Correct = "all", reduction: Reduction = "mean"
    ) -> None:
        super().__init__(correct=correct, reduction=reduction)
        self.classes, self.calibration = checks.whole("classes", classes, 2), _calibration(calibration)
        self._loss = partial(functional.gbce, classes=self.classes, calibration=self.calibration)


class ListNet(Shown):
    """The cross entropy of a label distribution: :func:`sumexp.functional.listnet`, for lists of unequal length.

    >>> loss = nn.ListNet()
    >>> loss(torch.zeros(2, 3), [[1, 0, 1], [1, -100, -100]])  # log 3 for the first; the second has one item alone
    tensor(0.5493)

    Args:
        ignore_index: the target of places that hold no item; a list of nothing else is left out.
        reduction: ``mean`` over the lists that are there, ``sum``, or ``none``, which has 0 for lists that are not.

    Raises:
        ValueError: for an unknown reduction, or ``ignore_index`` that is no whole number.
    """

    shown = ("ignore_index", "reduction")

    def __init__(self, *, ignore_index: int = -100, reduction: Reduction = "mean") -> None:
        super().__init__()
        self.ignore_index = checks.whole("ignore_index", ignore_index, *IGNORED)
        checks.choice("reduction", reduction, REDUCTIONS)
        self.reduction = reduction

    def forward(self, logits: Tensor, targets: checks.Values) -> Tensor:
        """The loss of a batch.

        Args:
            logits: [B, L]; what stands where there is no item does not matter.
            targets: [B, L] bool, or gains >= 0, ``ignore_index`` where there is no item.

        Raises:
            ValueError: as the function, and for the mean of a batch without a list.
        """
        gains = checks.onto(checks.tensor("targets", targets), checks.floating("logits", logits, "[B, L]", 2).device)
        if gains.shape != logits.shape or gains.dtype == torch.bool or gains.is_complex():
            return functional.listnet(logits, gains, reduction=self.reduction)
        absent = gains.to(checks.wide(gains.device)) == self.ignore_index  # small integers would wrap around
        present = ~absent.all(-1)
        # A list of nothing gets one item, of which it is sure.
        first = torch.arange(logits.shape[1], device=logits.device) == 0
        stand_in = ~present.unsqueeze(-1) & first
        logits = logits.masked_fill(absent, -torch.inf).masked_fill(stand_in, 0)
        gains = gains.masked_fill(absent, 0).masked_fill(stand_in, 1)
        return reduced(functional.listnet(logits, gains, reduction="none"), present, self.reduction)
