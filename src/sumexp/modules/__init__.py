"""Modules with state, and what needs several processes: the sampled softmax in one call, streamed log q, gathering.

:class:`SampledSoftmax` draws, scores, corrects and reduces. :class:`StreamingLogQ` estimates the frequencies that the
correction needs from the batches as they come. :func:`distributed_in_batch` is :func:`sumexp.losses.in_batch` over the
batches of all processes of ``torch.distributed``. :func:`check_worker_generator` finds a generator that forked
workers share.
"""

from sumexp.modules._gather import distributed_in_batch, gathered
from sumexp.modules._sampled import SampledSoftmax
from sumexp.modules._streaming import StreamingLogQ
from sumexp.modules._workers import check_worker_generator

__all__ = ["SampledSoftmax", "StreamingLogQ", "check_worker_generator", "distributed_in_batch", "gathered"]
