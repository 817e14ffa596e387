r"""Estimates of log q from the labels themselves: a count-min sketch, and probabilities that a library clips.

An estimate that is off by :math:`\delta = \log\hat q-\log q` moves the minimum of the consistent scheme (draws with
replacement, :math:`\log\hat q` subtracted from all logits, hits kept) to :math:`\log P+\delta`, for every number of
negatives (`sumexp.negatives.estimated`). An estimate from a stream, such as that of `sumexp.nn.StreamingLogQ`, depends
on the stream: save its table of log q, and give that.
"""

import numpy as np
from numpy.typing import NDArray

from sumexp import _checks as checks
from sumexp.audit._setup import AuditError

Floats = NDArray[np.float64]

PRIME = (1 << 31) - 1
NAMES = ("count-min:WIDTH,DEPTH", "clipped:LEAST")


def estimate(name: str, counts: NDArray[np.int64], seed: int) -> Floats:
    r"""A table :math:`\log\hat q`, [classes]; a class that was never counted has one count.

    ============  =====================================================================================================
    count-min     the least of ``depth`` sums of counts of the classes that share a slot of ``width``
    clipped       the shares themselves, or ``least`` where that is more: 1e-6 in TensorFlow Recommenders and keras-rs
    ============  =====================================================================================================

    Args:
        name: one of :data:`NAMES`.
        counts: [classes] how often each is a label.
        seed: of the hash functions.

    Raises:
        AuditError: if the name is unknown or a number is out of range.

    Source: Cormode and Muthukrishnan (2005).

    >>> import numpy as np
    >>> from sumexp.audit.estimates import estimate
    >>> np.exp(estimate("clipped:0.3", np.array([8, 2]), 0)).round(2).tolist()
    [0.8, 0.3]
    """
    kind, _, rest = name.partition(":")
    generator = np.random.default_rng(seed)
    total = float(counts.sum(dtype=np.float64))
    if kind == "count-min":
        estimated = _sketch(counts, *_sizes(rest), generator)
        return np.log(np.maximum(estimated, 1.0) / total)
    if kind == "clipped":
        return np.log(np.maximum(counts / total, _least(rest)))
    raise AuditError(f"no estimate {name!r}; there are {', '.join(NAMES)}, and your own table of log q")


def cost(delta: Floats, p: Floats) -> float:
    r"""Nats of divergence of the consistent scheme, :math:`\log\mathbb E_Pe^\delta-\mathbb E_P\delta`.

    Args:
        delta: [classes] error of the estimate.
        p: [classes] the truth.
    """
    centred = delta - p @ delta
    most = float(centred.max())
    return max(0.0, most + float(np.log(p @ np.exp(centred - most))))


def _sketch(counts: NDArray[np.int64], width: int, depth: int, generator: np.random.Generator) -> Floats:
    ids, estimated = np.arange(len(counts)), np.full(len(counts), np.inf)
    for factor, shift in generator.integers(1, PRIME, (depth, 2)):
        slots = (factor * ids + shift) % PRIME % width
        estimated = np.minimum(estimated, np.bincount(slots, weights=counts, minlength=width)[slots])
    return estimated


def _sizes(text: str) -> tuple[int, int]:
    width, _, depth = text.partition(",")
    try:
        return checks.whole("width", int(width), 1, PRIME - 1), checks.whole("depth", int(depth or 2), 1, 64)
    except ValueError as error:
        raise AuditError(f"count-min has {text!r}: {error}; write count-min:WIDTH,DEPTH, as in 65536,2") from error


def _least(text: str) -> float:
    try:
        least = float(text)
    except ValueError:
        least = 0.0
    if not 0 < least < 1:
        raise AuditError(f"the least probability of clipped is {text!r}; it lies between 0 and 1, as in clipped:1e-6")
    return least
