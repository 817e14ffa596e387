"""Modules with state, and what needs several processes: the sampled softmax in one call, streamed log q, gathering.

:class:`SampledSoftmax` draws, scores, corrects and reduces. :class:`StreamingLogQ` estimates the frequencies that the
correction needs from the batches as they come. :func:`gathered_in_batch` is :func:`sumexp.losses.in_batch` over the
batches of all processes of ``torch.distributed``. :func:`unshared` finds a generator that forked workers share.
"""

from sumexp.modules.gather import gathered, gathered_in_batch
from sumexp.modules.sampled import SampledSoftmax
from sumexp.modules.streaming import StreamingLogQ
from sumexp.modules.workers import unshared

__all__ = ["SampledSoftmax", "StreamingLogQ", "gathered", "gathered_in_batch", "unshared"]
