r"""Tables of log q in which a library clips small probabilities.

A table that is off by :math:`\delta = \log\hat q-\log q` moves the minimum of the consistent scheme (draws with
replacement, :math:`\log\hat q` subtracted from all logits, hits kept) to :math:`\log P+\delta`, for every number of
negatives (`sumexp.negatives.estimated`). A sketch, or an estimate from a stream such as that of
`sumexp.nn.StreamingLogQ`, is audited by its own table of log q.
"""

import numpy as np
from numpy.typing import NDArray

from sumexp.audit._setup import AuditError

Floats = NDArray[np.float64]


def estimate(name: str, counts: NDArray[np.int64]) -> Floats:
    """A table of log q, [classes]: shares of the labels, or ``least`` if that is more.

    Args:
        name: ``clipped:LEAST``; 1e-6 in TensorFlow Recommenders and keras-rs.
        counts: [classes] how often each is a label.

    Raises:
        AuditError: if the name is unknown, or ``least`` is not between 0 and 1.

    >>> import numpy as np
    >>> from sumexp.audit.estimates import estimate
    >>> np.exp(estimate("clipped:0.3", np.array([8, 2]))).round(2).tolist()
    [0.8, 0.3]
    """
    kind, _, rest = name.partition(":")
    if kind != "clipped":
        raise AuditError(f"no estimate {name!r}; there are clipped:LEAST, and your own table of log q")
    try:
        least = float(rest)
    except ValueError:
        least = 0.0
    if not 0 < least < 1:
        raise AuditError(f"the least probability of clipped is {rest!r}; it lies between 0 and 1, as in clipped:1e-6")
    return np.asarray(np.log(np.maximum(counts / counts.sum(dtype=np.float64), least)))
