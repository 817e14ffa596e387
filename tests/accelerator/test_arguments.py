"""Arguments on the CPU, in double precision, serve scores on a device, also on one that has no double precision."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from torch import Tensor

from sumexp import functional, nn, ranking, samplers
from tests.accelerator.device import GPU, NAME, Device, without_double

B, COLUMNS = 4, 6
IDS, OWN = torch.tensor([0, 1, 2, 1, 0, 3]), torch.tensor([0, 1, 2, 1])
PADDED = torch.where(IDS == 3, -100, IDS)
LOG_Q = torch.log_softmax(torch.arange(COLUMNS).double(), 0)
ROWS, HALF = LOG_Q[:B].clone(), torch.tensor(0.5, dtype=torch.float64)
LAWS = {"log_q": LOG_Q, "symmetric": True, "row_log_q": ROWS}
POSITIVES = ([[1], [0], [2], [3]], csr_array(np.eye(B, COLUMNS)))
LABELS = ranking.Labels([[0], [1], [2], [3]], [[1.0], [2.0], [1.0], [0.5]])
PROBABILITIES = [0.5, 0.1, 0.1, 0.1, 0.1, 0.1]
CORRECTIONS = ("all", "negatives", "importance")
OF_ROWS = ("sampled_softmax", "info_nce", "decoupled", "binary_nce")
Call = Callable[[Tensor], Any]


def of_rows(name: str, correct: str) -> Call:
    options = {"positive_log_q": ROWS, "correct": correct, "weights": np.arange(3.0), "hits": np.eye(B, 3, dtype=bool)}
    return lambda z: getattr(functional, name)(z[:, 0], z[:, 1:4], log_q=LOG_Q[:3], **options)


def of_scores(**options: Any) -> Call:
    return lambda z: functional.in_batch(z, IDS, **(LAWS | options))


def of_vectors(name: str, **options: Any) -> Call:
    return lambda z: getattr(functional, name)(z[:, :3], z.T[:, :3], IDS, **(LAWS | options))


def softmax(correct: Any) -> Call:
    def call(z: Tensor) -> Tensor:
        source, draws = torch.Generator().manual_seed(0), torch.Generator(z.device).manual_seed(0)
        law = samplers.Categorical(PROBABILITIES)
        layer = nn.SampledSoftmax(COLUMNS, 6, law, 3, correct=correct, temperature=HALF, generator=source)
        return layer.to(z.device)(z, OWN, generator=draws)  # type: ignore[no-any-return]

    return call


def drawn(law: samplers.Sampler, **options: Any) -> Call:
    def call(z: Tensor) -> Tensor:
        negatives = samplers.draw(law, OWN.to(z.device), 3, generator=torch.Generator().manual_seed(0), **options)
        return torch.cat([negatives.ids.cpu().double().flatten(), negatives.log_q.cpu().double().flatten()])

    return call


HISTORY, COUNTS = [[1], [2], [], [4]], torch.arange(50, 0, -1)
PARTS = [samplers.Uniform(6), samplers.Categorical(PROBABILITIES)]
CALLS: dict[str, Call] = {
    **{f"in_batch, {c}": of_scores(correct=c, label_smoothing=0.1, positives=POSITIVES[0]) for c in CORRECTIONS},
    "in_batch, sparse": of_scores(positives=POSITIVES[1]),
    **{f"in_batch, T {t.shape}": of_scores(temperature=t) for t in (HALF, HALF.expand(B), HALF.expand(B, 1))},
    **{f"linear_in_batch, {c}": of_vectors("linear_in_batch", correct=c, temperature=HALF) for c in CORRECTIONS},
    **{f"distributed, {c}": of_vectors("distributed_in_batch", correct=c, temperature=HALF) for c in CORRECTIONS},
    **{f"{n}, {c}": of_rows(n, c) for n in OF_ROWS for c in CORRECTIONS},
    "sigmoid_pairs": lambda z: functional.sigmoid_pairs(z, IDS, log_q=LOG_Q, temperature=HALF, logit_bias=HALF),
    "cross_entropy": lambda z: functional.cross_entropy(z, OWN),
    "linear_cross_entropy": lambda z: functional.linear_cross_entropy(z[:, :3], z.T[:, :3], OWN, log_q=LOG_Q),
    "pairwise_margin": lambda z: functional.pairwise_margin(z, OWN, LOG_Q),
    "logit_adjusted": lambda z: functional.logit_adjusted(ROWS[:, None], torch.log_softmax(z, -1)),
    "listnet": lambda z: functional.listnet(z, np.ones((B, COLUMNS))),
    "ListNet": lambda z: nn.ListNet()(z, np.eye(B, COLUMNS)),
    "InBatchSoftmax": lambda z: nn.InBatchSoftmax(temperature=HALF).to(z.device)(z, PADDED, log_q=np.asarray(LOG_Q)),
    "SigmoidPairs": lambda z: nn.SigmoidPairs(temperature=HALF, logit_bias=HALF)(z, PADDED, log_q=LOG_Q),
    **{f"SampledSoftmax, {c}": softmax(c) for c in ("all", "importance", "none")},
    **{
        f"draw, {type(law).__name__}, {sorted(options)}": drawn(law, **options)
        for law in (*PARTS, samplers.LogUniform(6), samplers.Mixture(PARTS, [0.5, 0.5]))
        for options in ({"hits": "redraw"}, {"hits": "mask", "shared": True}, {"exclude": HISTORY})
    },
    "unigram": lambda z: samplers.unigram(COUNTS.to(z.device)).log_prob(OWN),
    "LogUniform": lambda z: samplers.LogUniform(50, counts=COUNTS.to(z.device)).log_prob(OWN),
    "whole numbers": lambda z: functional.in_batch(z, IDS.to(z.device), log_q=-IDS.to(z.device)),
    "whole weights": lambda z: functional.info_nce(z[:, 0], z[:, 1:4], weights=COUNTS[:3].to(z.device)),
    "within_batch": lambda z: samplers.within_batch(OWN.to(z.device), LOG_Q, union=True).log_q,
    "relative": lambda z: samplers.relative(torch.log_softmax(z, -1), ROWS[:, None]),
    "tail": lambda z: samplers.tail(torch.log_softmax(z, -1), 3, LOG_Q, ROWS[:, None]),
    "rank": lambda z: ranking.rank(z, OWN),
    "gains": lambda z: ranking.ndcg(z, np.eye(B, COLUMNS)),
    "mask": lambda z: ranking.ndcg(z, LABELS, mask=np.ones((B, COLUMNS), bool), exclude=np.array([[1], [2], [3], [4]])),
    "retrieved": lambda z: ranking.ndcg(ranking.Retrieved(z.topk(2).indices, [[0.5, 0.25]] * B), LABELS),
    "expected_loss": lambda z: ranking.expected_loss(z, 0, 2, weights=np.ones(COLUMNS), log_q=LOG_Q),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_is_on_the_cpu_serves_what_is_on_a_device(name: str) -> None:
    z = torch.randn(B, COLUMNS, generator=torch.Generator().manual_seed(0))
    wanted = CALLS[name](z)
    assert wanted.dtype == z.dtype or not name.startswith(OF_ROWS)
    for device in (Device,) if GPU else (Device, without_double):
        with device():
            actual = CALLS[name](z.to(NAME)).detach().cpu()
        if not (GPU and name.startswith("SampledSoftmax")):  # draws of another generator
            torch.testing.assert_close(actual.double(), wanted.detach().double(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("temperature", [torch.tensor(-1.0), torch.tensor([1.0, 1.0, -1.0, 1.0])])
def test_a_temperature_on_the_cpu_is_checked_with_scores_on_a_device(temperature: Tensor) -> None:
    with Device(), pytest.raises(ValueError, match=r"temperature is -1.0; it must be positive"):
        functional.in_batch(torch.zeros(B, COLUMNS).to(NAME), IDS, correct="none", temperature=temperature)
