r"""What a softmax cross entropy promises about a rank, and which sampled losses still promise it.

- `metrics`: reciprocal rank, recall, precision, average precision and NDCG, with a stated rule for ties;
- `places`: relevant items by their labels, scores in chunks, and where the ones stand by the others;
- `scores`, `counting`: what is handed over, as tensors that sort, and how many scores are above given ones;
- `bounds`: from a cross entropy to ranks and back, and the losses of which that is true;
- `sampled`: the exact criterion for sampled losses, and what each of them bounds instead.

Source: the post "Softmax Loss and Ranking Metrics", after Bruch et al. (2019).
"""

from sumexp.ranking.bounds import (
    Ranks,
    expected_rank,
    least_ndcg,
    least_recall,
    least_rr,
    possible_ranks,
)
from sumexp.ranking.metrics import (
    average_precision,
    dcg,
    mean_reciprocal_rank,
    ndcg,
    precision,
    rank,
    ranks,
    recall,
    reciprocal_rank,
)
from sumexp.ranking.places import Chunks, Labels, Ties
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
    "Chunks",
    "Labels",
    "Ranks",
    "Ties",
    "additive_constant",
    "average_precision",
    "certified_rank",
    "dcg",
    "deficits",
    "expected_loss",
    "expected_rank",
    "hit_losses",
    "least_ndcg",
    "least_recall",
    "least_rr",
    "log_least_weight",
    "mean_reciprocal_rank",
    "ndcg",
    "possible_ranks",
    "precision",
    "rank",
    "ranks",
    "recall",
    "reciprocal_rank",
    "worst_set",
]
