"""The minima of sets of negatives if hits stay in them, and the error that every table of corrections leaves.

A *table* is one number c for each class, subtracted from every logit, whatever was drawn. The scores learned are then
the minimiser without a table, plus c: the error of their log odds moves by the same amount for every true law P, and
half the range of these errors over P remains.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from sumexp.negatives.consistency import minimiser, set_losses
from sumexp.negatives.population import Losses
from sumexp.negatives.race import SetLaw


def kept_losses(law: SetLaw) -> Losses:
    r"""The implicit losses :math:`\mathbb E\log(1+\sum_{j\in S}e^{s_j-s_y})`, s = scores - log_coin, if a hit counts.

    A label that was drawn stands among the candidates twice. Otherwise as :func:`sumexp.negatives.race.corrected`.
    """

    def of_scores(scores: Tensor) -> Tensor:
        log_z = scores - law.log_coin
        total = torch.where(law.members, log_z.exp(), 0.0).sum(-1, keepdim=True)
        return law.probability @ torch.log1p(total * torch.exp(-log_z))

    return of_scores


def least_worst_error(members: Tensor, probability: Tensor, posteriors: Sequence[Tensor]) -> Tensor:
    r"""[classes, classes] by how much every table misses the log odds of two classes for one true law at least.

    Hits are left out. With :math:`\log\pi` for a table, :math:`\pi` the true inclusion probabilities, the log odds of
    two classes that are all there is come out right; with the errors e under that table of the given laws,

    .. math:: \min_c\max_P\ |e_{ab}(P)+c_a-c_b|\ \ge\ \tfrac12\big(\max_Pe_{ab}(P)-\min_Pe_{ab}(P)\big).

    Args:
        members: [sets, classes] bool.
        probability: [sets].
        posteriors: true laws, positive, [classes] each.

    Raises:
        ValueError: if a class is never drawn, or as :func:`sumexp.negatives.consistency.minimiser`.
    """
    inclusion = probability @ members.double()
    if not inclusion.min() > 0:
        raise ValueError(f"class {int(inclusion.argmin())} is never drawn, and no table corrects that; leave it out")
    losses = set_losses(members, probability, inclusion.log())
    errors = [torch.zeros_like(inclusion), *(minimiser(losses, p) - p.log() for p in posteriors)]
    odds = torch.stack([error.unsqueeze(-1) - error for error in errors])
    return (odds.amax(0) - odds.amin(0)) / 2
