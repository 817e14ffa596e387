"""The minima of sets of negatives with hits kept, and the error that remains with any table of corrections.

A *table* is a number c for each class, subtracted from every logit whatever was drawn. The learned scores are then the
minimiser without a table, plus c. So the error of their log odds moves by the same amount for every true law P, and
half the range of these errors over P remains.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from sumexp.negatives.consistency import log1p_sums, minimiser, set_losses
from sumexp.negatives.population import Losses
from sumexp.negatives.race import SetLaw


def kept_losses(law: SetLaw) -> Losses:
    r"""The implicit losses :math:`\mathbb E\log(1+\sum_{j\in S}e^{s_j-s_y})`, s = scores - log_coin, if a hit counts.

    A label that was drawn is among the candidates twice. Otherwise as :func:`sumexp.negatives.race.corrected`.
    """

    def of_scores(scores: Tensor) -> Tensor:
        return law.probability @ log1p_sums(law.members, scores, law.log_coin, law.log_coin, hits=True)

    return of_scores


def least_worst_error(members: Tensor, probability: Tensor, posteriors: Sequence[Tensor]) -> Tensor:
    r"""[classes, classes] lower bounds of any table's error in the log odds of two classes, at the worst true law.

    Hits are left out. With the table :math:`\log\pi`, :math:`\pi` the true inclusion probabilities, the log odds of two
    classes are right if no other class has mass. With the errors e of the given laws under that table,

    .. math:: \min_c\max_P\ |e_{ab}(P)+c_a-c_b|\ \ge\ \tfrac12\big(\max_Pe_{ab}(P)-\min_Pe_{ab}(P)\big).

    ``members`` is [sets, classes] bool, ``probability`` [sets]; each of the ``posteriors`` is a positive law [classes].
    Every class must be drawn with positive probability.
    """
    inclusion = probability @ members.double()
    if not inclusion.min() > 0:
        raise ValueError(f"class {int(inclusion.argmin())} is never drawn, and no table corrects that; leave it out")
    losses = set_losses(members, probability, inclusion.log())
    errors = [torch.zeros_like(inclusion), *(minimiser(losses, p) - p.log() for p in posteriors)]
    odds = torch.stack([error.unsqueeze(-1) - error for error in errors])
    return (odds.amax(0) - odds.amin(0)) / 2
