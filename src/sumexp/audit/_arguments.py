"""The arguments of the audit as arrays, with errors that name what is wrong with them."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sumexp import _checks as checks
from sumexp.audit._rows import posteriors
from sumexp.audit._setup import AuditError

Floats = NDArray[np.float64]

Numbers = Tensor | NDArray[Any]

MOST_LABELS = 1 << 53


def as_counts(counts: Numbers) -> NDArray[np.int64]:
    """Counts [classes] as whole numbers, two or more of them above 0."""
    values = _whole("counts", counts)
    total, labelled = values.sum(dtype=np.float64), int((values > 0).sum())
    if total > MOST_LABELS:
        raise AuditError(f"the counts add up to {total:.3g}; float64 counts by one up to 2^53")
    if labelled < 2:
        raise AuditError(
            f"{labelled} of {len(values):,} classes have a count above 0; a label and a negative are needed"
        )
    return values.astype(np.int64)


def _whole(name: str, given: Numbers) -> NDArray[Any]:
    """An array [classes] of whole numbers."""
    values = real_array(name, given)
    if values.ndim != 1:
        raise AuditError(f"{name} have shape {values.shape}; they must be [classes]")
    exact = values.astype(np.float64) if values.dtype.kind == "f" else values  # 2^53 is no float16
    wrong = np.flatnonzero(~((exact >= 0) & (exact == np.floor(exact)) & (exact < MOST_LABELS)))
    if len(wrong):
        raise AuditError(f"{name}[{wrong[0]}] is {values[wrong[0]]}; counts are whole numbers from 0 to 2^53")
    return values


def serving_counts(serving: Numbers, classes: int) -> Floats:
    """How often each class is a label at serving time, [classes or more]."""
    values = _whole("serving", serving)
    if len(values) < classes:
        raise AuditError(f"serving has shape {values.shape}; it must hold a count for each of the {classes} classes")
    if not values.any():
        raise AuditError("serving holds no label: all its counts are 0")
    return values.astype(np.float64)


def as_scores(scores: Numbers | tuple[Numbers, Numbers], classes: int) -> NDArray[Any]:
    """Logits [examples, classes], of embeddings their products."""
    if not isinstance(scores, tuple):
        return real_array("scores", scores)
    if len(scores) != 2:
        raise AuditError(f"embeddings are {len(scores)} arrays; give two, [examples, d] and [{classes}, d]")
    queries, items = (real_array("embeddings", x) for x in scores)
    if queries.ndim != 2 or items.ndim != 2 or queries.shape[1] != items.shape[1] or len(items) != classes:
        raise AuditError(
            f"embeddings have shapes {queries.shape} and {items.shape}; they must be [examples, d] and [{classes}, d]"
        )
    return np.asarray(queries.astype(np.float64) @ items.astype(np.float64).T)


def as_laws(scores: Numbers | tuple[Numbers, Numbers] | None, temperature: float | None, classes: int) -> Floats | None:
    """The truths by the scores, [examples, classes], None without scores."""
    if scores is not None:
        return posteriors(as_scores(scores, classes), 1.0 if temperature is None else temperature, classes)
    if temperature is not None:
        raise AuditError(f"temperature is {temperature!r}, but there are no scores that it could divide: give both")
    return None


def real_array(name: str, values: object) -> NDArray[Any]:
    """An array of real numbers, of a tensor, an array or a list."""
    if not isinstance(values, Tensor | np.ndarray | list | tuple):
        raise AuditError(f"{name} is {type(values).__name__}; it must be a tensor or an array")
    try:
        checks.check_unmasked(name, values)
        if isinstance(values, Tensor):
            values = checks.held(name, checks.tensor(name, values)).detach().cpu().resolve_conj().resolve_neg()
            if values.is_floating_point() and values.dtype != torch.float64:  # NumPy has no bfloat16, nor float8
                values = values.float()
        array = np.asarray(values)
    except ValueError as error:
        raise AuditError(str(error) if name in str(error) else f"{name}: {error}") from error
    if array.dtype.kind not in "iuf":
        raise AuditError(f"{name} are {array.dtype}; they must be real numbers")
    return array
