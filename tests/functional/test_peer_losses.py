"""Further rows of the page on libraries: what these losses are among ours."""

import importlib.util
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sumexp import functional, samplers

pytestmark = pytest.mark.peers

SIZE = 12


@pytest.fixture
def towers() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    left, right = (F.normalize(torch.randn(SIZE, 5, generator=generator, dtype=torch.float64)) for _ in range(2))
    return left, right


def ranking(**options: Any) -> Any:
    """The loss of sentence-transformers 6, which takes directions."""
    peer = pytest.importorskip("sentence_transformers.losses")
    return peer.MultipleNegativesRankingLoss(nn.Identity(), scale=20.0, **options)


def test_both_directions_of_sentence_transformers(towers: tuple[Tensor, Tensor]) -> None:
    """One softmax a direction is ours with ``symmetric``; one for both has the own score twice."""
    both = {"directions": ("query_to_doc", "doc_to_query")}
    scores, ids = towers[0] @ towers[1].T, torch.arange(SIZE)
    actual = ranking(**both, partition_mode="per_direction").compute_loss_from_embeddings(list(towers), None).item()
    wanted = functional.in_batch(scores, ids, correct="none", temperature=1 / 20, symmetric=True).item()
    assert actual == pytest.approx(wanted, rel=1e-6)
    actual = ranking(**both, partition_mode="joint").compute_loss_from_embeddings(list(towers), None).item()
    joint = F.cross_entropy(20 * torch.cat([scores, scores.T], 1), ids).item()
    assert actual == pytest.approx(joint, rel=1e-6)
    assert actual > wanted + 0.5


def test_hardness_of_sentence_transformers_is_a_weight_without_gradient(towers: tuple[Tensor, Tensor]) -> None:
    """Each negative's term times e^(alpha cos): weights of the sampled softmax, value and gradient."""
    gradients = []
    for hard in (True, False):
        left = towers[0].clone().requires_grad_()
        if hard:
            loss = ranking(hardness_mode="in_batch_negatives", hardness_strength=9.0)
            value = loss.compute_loss_from_embeddings([left, towers[1]], None)
        else:
            scores = F.normalize(left) @ towers[1].T
            negative = samplers.off_diagonal(scores)
            weights = (9 * negative.detach()).exp()
            value = functional.sampled_softmax(20 * scores.diagonal(), 20 * negative, weights=weights)
        gradients.append([value.detach(), *torch.autograd.grad(value, left)])
    torch.testing.assert_close(*gradients, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["MultipleNegativesRankingLoss", "CachedMultipleNegativesRankingLoss"])
def test_cached_or_not_sentence_transformers_minimise_one_loss(name: str) -> None:
    """Of three chunks the value and the gradient are those of one batch."""
    losses = pytest.importorskip("sentence_transformers.losses")
    torch.manual_seed(0)

    class Mean(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(50, 6)

        def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
            return {"sentence_embedding": self.table(features["input_ids"]).mean(1)}

    encoder = nn.Sequential(mean := Mean())
    columns = [{"input_ids": torch.randint(50, (SIZE, 4))} for _ in range(2)]
    options = {"mini_batch_size": 4} if name.startswith("Cached") else {}
    actual = getattr(losses, name)(encoder, scale=20.0, **options)([dict(column) for column in columns], None)
    actual.backward()
    gradient, mean.table.weight.grad = mean.table.weight.grad, None
    left, right = (F.normalize(encoder(column)["sentence_embedding"]) for column in columns)
    wanted = functional.in_batch(left @ right.T, range(SIZE), correct="none", temperature=1 / 20)  # type: ignore[arg-type]
    wanted.backward()  # type: ignore[no-untyped-call]
    assert actual.item() == pytest.approx(wanted.item(), rel=1e-5)
    torch.testing.assert_close(gradient, mean.table.weight.grad, rtol=1e-4, atol=1e-5)


def test_clip_and_siglip_of_open_clip(towers: tuple[Tensor, Tensor]) -> None:
    if (spec := importlib.util.find_spec("open_clip")) is None or spec.origin is None:
        pytest.skip("could not import 'open_clip'")
    peer = runpy.run_path(str(Path(spec.origin).with_name("loss.py")))  # the package would ask for torchvision
    scores = towers[0] @ towers[1].T
    loss = peer["ClipLoss"]()(*towers, logit_scale=20.0).item()
    wanted = functional.in_batch(scores, range(SIZE), correct="none", temperature=1 / 20, symmetric=True).item()  # type: ignore[arg-type]
    assert loss == pytest.approx(wanted, rel=1e-12)
    loss = peer["SigLipLoss"]()(*towers, logit_scale=10.0, logit_bias=-10.0).item()
    wanted = functional.sigmoid_pairs(scores, range(SIZE), temperature=0.1, logit_bias=-10.0).item()  # type: ignore[arg-type]
    assert loss == pytest.approx(wanted, rel=1e-12)


def test_several_positives_of_pytorch_metric_learning(towers: tuple[Tensor, Tensor]) -> None:
    """SupConLoss: the mean over the positives of a row of their cross entropies among all columns."""
    peer = pytest.importorskip("pytorch_metric_learning.losses")
    ids = torch.arange(SIZE) // 3
    actual = peer.SupConLoss(temperature=0.2)(towers[0], ids, ref_emb=towers[1], ref_labels=ids.clone()).item()
    scores = towers[0] @ towers[1].T
    wanted = functional.in_batch(scores, ids, correct="none", temperature=0.2, positives=ids.unsqueeze(1)).item()
    assert actual == pytest.approx(wanted, rel=1e-6)


def test_the_corrections_of_keras_rs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probabilities below a millionth count as one; and its layer against accidental hits, 0.4.0, removes none."""
    if "keras" not in sys.modules:
        monkeypatch.setenv("KERAS_BACKEND", "torch")
    peer = pytest.importorskip("keras_rs")
    logits, labels, ids = torch.randn(3, 3, generator=torch.Generator().manual_seed(0)), torch.eye(3), [7, 2, 7]
    q = torch.tensor([0.5, 1e-9, 0.5])
    actual = torch.as_tensor(peer.layers.SamplingProbabilityCorrection()(logits, q.expand(3, 3)).cpu())
    torch.testing.assert_close(actual, logits - q.clamp_min(1e-6).log())
    actual = torch.as_tensor(peer.layers.RemoveAccidentalHits()(logits, labels, torch.tensor(ids)).cpu())
    assert torch.equal(actual, logits)
    loss = F.cross_entropy(actual, torch.arange(3)).item()
    assert loss == pytest.approx(functional.in_batch(logits, ids, correct="none").item(), rel=1e-6)
    assert loss > functional.in_batch(logits, ids, correct="none", hits="mask").item() + 0.1
