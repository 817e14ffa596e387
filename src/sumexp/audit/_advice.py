"""A change of weights and hits that makes the minimum right, its cost in variance, and the lines to change."""

from dataclasses import dataclass

from sumexp.audit._setup import Setup, Weights
from sumexp.samplers import Hits

TORCH = {
    "draws": """\
# scores [B, m] of the negatives, positive [B]; log_q of each drawn id, log_q_y of each label
logits = torch.cat([(positive - log_q_y).unsqueeze(1), negatives - log_q], dim=1)  # every logit; hits are kept
loss = F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long))""",
    "batch": """\
scores = queries @ items.T                        # [B, B], the batch's own items
loss = F.cross_entropy(scores - log_pi[ids], torch.arange(len(ids)))  # one log pi a column; no mask""",
    "union": """\
log_alpha = torch.log(-torch.expm1(m * torch.log1p(-q)))  # probability to be among m draws, then made unique
negatives = (scores - log_alpha[ids]).masked_fill(ids == labels.unsqueeze(1), -torch.inf)  # [B, U], label out
logits = torch.cat([(positive - log_alpha[labels]).unsqueeze(1), negatives], dim=1)
loss = F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long))""",
    "distinct": """\
drawn = sumexp.samplers.distinct(sampler, labels, m)  # its weights depend on the draw, and are exact
loss = sumexp.functional.sampled_softmax(positive, scores(drawn.ids), weights=drawn.weights, hits=drawn.hits)""",
}
RECOMMENDERS = {
    "draws": """\
drawn = tf.random.SAMPLER
loss = tf.nn.sampled_softmax_loss(weights, biases, labels, queries, m, classes, sampled_values=drawn,
                                  remove_accidental_hits=False)  # labels are [B, 1] of int64""",
    "batch": """\
task = tfrs.tasks.Retrieval(remove_accidental_hits=False)
loss = task(queries, candidates, candidate_sampling_probability=pi / pi_max)  # pi of each candidate in the batch
# the probability is clipped at 1e-6: hence the largest pi as the unit; items a millionth as frequent keep an error""",
    "union": "# no option: draw with unique=False, as sampled_values of tf.nn.sampled_softmax_loss, and keep the hits",
    "distinct": """\
# tf.nn.sampled_softmax_loss with unique=True and remove_accidental_hits=True, the default: nearly, its expected
# counts are approximate; with unique=False and remove_accidental_hits=False it is right""",
}
CANDIDATES = {
    "uniform": "uniform_candidate_sampler(labels, 1, m, unique=False, range_max=classes)",
    "log-uniform": "log_uniform_candidate_sampler(labels, 1, m, unique=False, range_max=classes)",
    "unigram": "fixed_unigram_candidate_sampler(\n    labels, 1, m, unique=False, range_max=classes, "
    "distortion=POWER, unigrams=counts)",
    "own law": "fixed_unigram_candidate_sampler(\n"
    "    labels, 1, m, unique=False, range_max=classes, unigrams=q.tolist())",
}
"""TensorFlow's samplers by the names of the audit's."""
POOLS = "# no option for these pools: the lines of PyTorch, with the id of every column and the mixture's log q"
MERLIN = {
    "draws": """\
sampler = PopularityBasedSamplerV2(max_id=classes, max_num_samples=m, unique=False)  # log-uniform, no other law
mm.ContrastiveOutput(to_call, negative_samplers=sampler, logq_sampling_correction=True,
                     downscore_false_negatives=False)""",
    "batch": """\
# nearly: the columns hold the positive once more, and only the mask takes it out, with the hits; in-batch negatives
# come without probabilities, so that logq_sampling_correction fails there
mm.ContrastiveOutput(DotProduct(), schema=item_id, negative_samplers="in-batch", store_negative_ids=True,
                     post=PopularityLogitsCorrection(counts, schema=schema), downscore_false_negatives=True)""",
    "union": "# no option: see the draws of PopularityBasedSamplerV2 with unique=False, hits kept",
    "distinct": """\
# nearly: its table is that of as many draws, made unique
sampler = PopularityBasedSamplerV2(max_id=classes, max_num_samples=m, unique=True)
mm.ContrastiveOutput(to_call, negative_samplers=sampler, logq_sampling_correction=True,
                     downscore_false_negatives=True)""",
}
OFF = {
    "draws": "subtract the true log q from every logit, the positive's included",
    "union": "subtract the log inclusion probability from every logit, the positive's included",
    "distinct": "subtract log(1 - exp(-qT)) from every logit, the positive's included, where T is the time of the next "
    "arrival among the others (samplers.distinct)",
}
"""What to subtract, by kind of negatives."""
READ = (
    "The lines of torch and tf.nn are run by the tests, those of tf.nn with TensorFlow 2.21, whose "
    "python/ops/nn_impl.py subtracts the log expected counts from every logit, and those of TensorFlow "
    "Recommenders with its 0.7.7. Those of Merlin Models 23.12 (outputs/contrastive.py, outputs/sampling) are read, "
    "not run."
)
"""On what the lines of other libraries rest."""


def recommenders(kind: str, sampler: str) -> str:
    """The lines for TensorFlow and its Recommenders, with the reader's own sampler."""
    name, _, power = sampler.partition(":")
    if kind != "draws":
        return RECOMMENDERS[kind]
    if name not in CANDIDATES:
        return POOLS
    return RECOMMENDERS[kind].replace("SAMPLER", CANDIDATES[name].replace("POWER", power or "1"))


def merlin(kind: str, sampler: str) -> str:
    """The lines for Merlin, which has no other law of draws than a log-uniform one."""
    if kind == "draws" and sampler != "log-uniform":
        return "# no option for this law: its sampler by popularity is log-uniform; the lines of PyTorch"
    return MERLIN[kind]


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


def remedy(setup: Setup) -> tuple[Weights, Hits]:
    """The weights and the rule for hits that make the minimum right for these negatives."""
    if setup.kind == "distinct":
        return "arrival", "mask"
    return "relative", "mask" if setup.kind == "union" else "keep"


def advice(setup: Setup, right: bool, never_drawn: int, before: float, after: float) -> Advice:
    """What to change.

    Args:
        setup: the scheme.
        right: whether its minimum is the truth as it stands.
        never_drawn: classes with labels that are never negatives.
        before: gradient noise of the scheme.
        after: that of the remedy.
    """
    kind: str = setup.kind
    if kind == "draws" and setup.name == "within-batch":
        kind = "batch"
    steps = []
    weights, hits = remedy(setup)
    if setup.weights != weights or setup.table is not None:
        steps.append(OFF[setup.kind])
    if setup.hits != hits:
        steps.append("keep accidental hits" if hits == "keep" else "mask accidental hits")
    if not steps and not right:
        steps.append("keep repetitions, subtract log q from every logit and keep accidental hits")
    if never_drawn:
        steps.append("add a few uniform negatives, with the mixture's log q, so that every class can be drawn")
    change = "; ".join(steps) if not right or never_drawn else ""
    return Advice(
        change,
        after / before if before > 0 else 1.0,
        TORCH[kind],
        recommenders(kind, setup.name),
        merlin(kind, setup.name),
    )
