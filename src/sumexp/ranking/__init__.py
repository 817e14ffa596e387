r"""Ranking metrics, what a softmax cross entropy promises about them, and which sampled losses still promise it.

**Metrics.** A list of scores is sorted in descending order. Where scores tie, the order is not given by the scores, so
every metric takes a rule:

- ``expected``: its mean over a uniformly random order of each block of ties, in closed form;
- ``pessimistic``: the worst order, in which the relevant items come last;
- ``optimistic``: the best order.

All metrics take ``scores`` and what is relevant, tensors or NumPy arrays, and return float64 [B] (float32 on a device
without float64, as Apple's GPUs): one value for each list.

- ``scores``: [B, L] of any real type, or :class:`sumexp.ranking.Chunks`, which computes them some items at a time, so
  that they need not fit into memory. Scores of +inf and -inf are scores like others, and tie among themselves.
  :class:`sumexp.ranking.Retrieved` are the first items that another system returned.
- ``relevant``, or ``gains``: [B, L] bool or marks 0 and 1, or numbers >= 0 where a metric takes gains; a sparse matrix
  of ``scipy`` or torch; or :class:`sumexp.ranking.Labels`, the numbers of the relevant items.
- ``mask``: [B, L] bool leaves out items that are no candidates (False; what their scores are does not matter).
- ``exclude``: the items of each list that are no candidates, as those that its user was trained on: lists or sets,
  integers [B, T] padded by -1, the entries of a sparse matrix that are not zero, or ``Labels``. What is excluded is not
  relevant either.
- ``empty``: a list without a relevant item is an error, or left out (``skip``), or worth a number (0).

:func:`evaluate` computes several metrics in one pass.

>>> scores = torch.tensor([[0.9, 0.8, 0.1], [0.2, 0.5, 0.4]])
>>> ranking.recall(scores, ranking.Labels([[1], [2]]), 1, exclude=[[0], []])  # the first user has had item 0
tensor([1., 0.], dtype=torch.float64)


With B lists of L items, R of them relevant, a metric at k costs what ``scores.topk(k + 1)`` costs, one over all places
at most one sort; rows are taken one or four million scores at a time, so that little more is held than what was passed.

**Promises.** A class of rank r has r - 1 others at or above its score, so :math:`p \le 1/r`, by whatever rule ties are
broken: the cross entropy :math:`c = -\log p` is at least :math:`\log r`. With a label distribution over several
relevant items (:func:`sumexp.functional.listnet`), :math:`c \ge \sum_i t_i \log r_i`.

A mean of a metric h(r) that falls with the rank is then at least the lower convex hull, at the mean of c, of the points
:math:`(\log r, h(r))`: a query lies at or to the right of its point, and a mean over queries in their convex hull. With
one relevant item no more can be promised: ties of r items, the relevant one last, lie at the points.

Source: the post "Softmax Loss and Ranking Metrics", after Bruch et al. (2019).
"""

from sumexp.ranking._bounds import (
    Ranks,
    expected_rank,
    least_ndcg,
    least_recall,
    least_rr,
    possible_ranks,
)
from sumexp.ranking._metrics import (
    average_precision,
    dcg,
    evaluate,
    mean_reciprocal_rank,
    ndcg,
    precision,
    rank,
    ranks,
    recall,
    reciprocal_rank,
)
from sumexp.ranking._places import Chunks, Labels, Retrieved, Ties
from sumexp.ranking.sampled import (
    additive_constant,
    certified_rank,
    deficits,
    expected_loss,
    hit_losses,
    log_least_weight,
    worst_set,
)

__all__ = [
    "recall",
    "ndcg",
    "mean_reciprocal_rank",
    "precision",
    "average_precision",
    "reciprocal_rank",
    "dcg",
    "evaluate",
    "rank",
    "ranks",
    "expected_rank",
    "possible_ranks",
    "Ranks",
    "Labels",
    "Retrieved",
    "Chunks",
    "least_rr",
    "least_ndcg",
    "least_recall",
    "Ties",
    "additive_constant",
    "certified_rank",
    "deficits",
    "expected_loss",
    "hit_losses",
    "log_least_weight",
    "worst_set",
]
