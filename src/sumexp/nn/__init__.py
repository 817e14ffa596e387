"""Modules with state, as ``torch.nn`` has them: the sampled softmax in one call, its output layer, streamed log q.

:class:`InBatchSoftmax`, :class:`SigmoidPairs`, :class:`BinaryNCE`, :class:`GBCE` and :class:`ListNet` are losses of
:mod:`sumexp.functional` with their options. :class:`SampledSoftmax` draws, scores, corrects and reduces.
:class:`SampledOutput` is the layer that hands a sampled loss of :mod:`sumexp.functional` its logits and touches only
the rows it needs. :class:`StreamingLogQ` estimates the frequencies that the correction needs from the batches as they
come.
"""

from sumexp.nn._losses import GBCE, BinaryNCE, InBatchSoftmax, ListNet, SigmoidPairs
from sumexp.nn._output import SampledOutput
from sumexp.nn._sampled import SampledSoftmax
from sumexp.nn._streaming import StreamingLogQ

__all__ = [
    "InBatchSoftmax",
    "SampledSoftmax",
    "SampledOutput",
    "StreamingLogQ",
    "BinaryNCE",
    "GBCE",
    "SigmoidPairs",
    "ListNet",
]
