r"""Drawing negatives, and the probability with which each was drawn.

A *sampler* is a law q on the classes: :class:`Uniform`, :class:`LogUniform`, :class:`Categorical` (any law, by an alias
table), :func:`unigram` and :class:`Mixture`. It draws in constant time per negative, on the CPU or a GPU, and for any
number of classes. :func:`draw` takes m negatives for every example of a batch and treats *accidental hits*, draws that
equal the example's own label, by one of three rules; :func:`within_batch` and :func:`model_based` take them from the
batch's labels and from the model's own probabilities.

Laws are modules: ``model.to(device)`` moves them, ``state_dict`` holds their tables, and they print themselves. A
generator that forked workers share makes them all draw the same: :func:`check_worker_generator` finds it, and
:func:`worker_generator` makes one for each.

All three return :class:`Negatives`, whose ``ids``, ``log_q`` and ``hits`` are what :mod:`sumexp.functional` wants.
:func:`distinct` draws until m ids differ and returns the weights that this needs.
"""

from sumexp.samplers._alias import Categorical, unigram
from sumexp.samplers._distinct import Distinct, distinct
from sumexp.samplers._laws import LogUniform, Mixture, Sampler, Uniform
from sumexp.samplers._negatives import Hits, Negatives, draw, log_inclusion, model_based, off_diagonal, within_batch
from sumexp.samplers._sharing import check_worker_generator, worker_generator
from sumexp.samplers._weights import constant, importance, relative, tail

__all__ = [
    "draw",
    "Negatives",
    "within_batch",
    "Uniform",
    "LogUniform",
    "unigram",
    "Categorical",
    "Mixture",
    "distinct",
    "Distinct",
    "log_inclusion",
    "model_based",
    "off_diagonal",
    "relative",
    "importance",
    "constant",
    "tail",
    "Sampler",
    "worker_generator",
    "check_worker_generator",
    "Hits",
]
