"""The cheapest change that makes the minimum right, its price in variance, and the lines to change."""

from dataclasses import dataclass

from sumexp.audit.setup import Setup, Weights
from sumexp.samplers import Hits

TORCH = {
    "draws": """\
# scores [B, m] of the negatives, positive [B]; log_q of each drawn id, log_q_y of each label
logits = torch.cat([(positive - log_q_y).unsqueeze(1), negatives - log_q], dim=1)  # off all; hits stay
loss = F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long))""",
    "batch": """\
scores = queries @ items.T                        # [B, B], the batch's own items
loss = F.cross_entropy(scores - log_pi[ids], torch.arange(len(ids)))  # one log pi a column; no mask""",
    "set": """\
log_alpha = torch.log(-torch.expm1(m * torch.log1p(-q)))  # probability to be among m draws, for draws made unique
logits = scores - log_alpha[ids]                  # [B, U], and the positive's: positive - log_alpha[labels]
logits = logits.masked_fill(ids == labels.unsqueeze(1), -torch.inf)   # a set leaves the label out""",
}
RECOMMENDERS = {
    "draws": """\
task = tfrs.tasks.Retrieval(remove_accidental_hits=False)
loss = task(queries, candidates, candidate_sampling_probability=pi_of_each_candidate)""",
    "set": "# tf.nn.sampled_softmax_loss with unique=True and remove_accidental_hits=True corrects so, nearly",
}
MERLIN = {
    "draws": """\
mm.ContrastiveOutput(schema, negative_samplers="in-batch", logq_sampling_correction=True,
                     downscore_false_negatives=False)""",
    "set": """\
mm.ContrastiveOutput(schema, negative_samplers=PopularityBasedSamplerV2(...), logq_sampling_correction=True,
                     downscore_false_negatives=True)""",
}


@dataclass(frozen=True)
class Advice:
    """What to do.

    Attributes:
        change: in words; empty if nothing need change.
        variance: gradient noise after the change over that before, at the true scores.
        torch: the corrected lines.
        recommenders: the same for TensorFlow Recommenders.
        merlin: the same for Merlin.
    """

    change: str
    variance: float
    torch: str
    recommenders: str
    merlin: str


def remedy(how: Setup) -> tuple[Weights, Hits]:
    """The weights and the rule for hits that make the minimum right for these negatives."""
    return "relative", "mask" if how.coins else "keep"


def advice(how: Setup, right: bool, never_drawn: int, before: float, after: float) -> Advice:
    """What to change.

    Args:
        how: the scheme.
        right: whether its minimum is the truth as it stands.
        never_drawn: classes with labels that are never negatives.
        before: gradient noise of the scheme.
        after: that of the remedy.
    """
    kind = "set" if how.coins else "batch" if how.name == "within-batch" else "draws"
    wide = "set" if how.coins else "draws"
    steps = []
    weights, hits = remedy(how)
    if how.weights != weights or how.table is not None:
        steps.append("take the true log q off all logits, the positive's too" if not how.coins else
                     "take the logarithm of the inclusion probability off all logits, the positive's too")  # fmt: skip
    if how.hits != hits:
        steps.append("keep accidental hits" if hits == "keep" else "mask accidental hits")
    if never_drawn:
        steps.append("add a few uniform negatives, with the mixture's log q, so that every class can be drawn")
    change = "; ".join(steps) if not right or never_drawn else ""
    return Advice(change, after / before if before > 0 else 1.0, TORCH[kind], RECOMMENDERS[wide], MERLIN[wide])
