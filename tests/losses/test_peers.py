"""What other libraries minimise, held against the option of ``in_batch`` that the page on libraries says it is."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from sumexp import losses

pytestmark = pytest.mark.peers


@pytest.fixture
def towers() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    left, right = (F.normalize(torch.randn(12, 5, generator=generator, dtype=torch.float64)) for _ in range(2))
    return left, right


def of_scores(left: Tensor, right: Tensor, ids: Tensor, temperature: float, **options: object) -> float:
    scores = left @ right.T
    return losses.in_batch(scores, ids, correct="none", temperature=temperature, **options).item()  # type: ignore[arg-type]


def test_info_nce_pytorch(towers: tuple[Tensor, Tensor]) -> None:
    peer = pytest.importorskip("info_nce")
    found = peer.InfoNCE(temperature=0.2)(*towers).item()
    assert found == pytest.approx(of_scores(*towers, torch.arange(12), 0.2), rel=1e-12)


@pytest.mark.parametrize("repeated", [False, True])
def test_ntxent_of_pytorch_metric_learning(towers: tuple[Tensor, Tensor], repeated: bool) -> None:
    peer = pytest.importorskip("pytorch_metric_learning.losses")
    ids = torch.arange(12) // 2 if repeated else torch.arange(12)
    left, right = towers
    # Another tensor of labels, as for one and the same the peer leaves out the diagonal.
    found = peer.NTXentLoss(temperature=0.2)(left, ids, ref_emb=right, ref_labels=ids.clone()).item()
    if not repeated:
        assert found == pytest.approx(of_scores(left, right, ids, 0.2), rel=1e-12)
        return
    # Each positive of a row is scored against the negatives of the row: masked hits, once with either positive.
    swapped = torch.arange(12) ^ 1
    wanted = [of_scores(left, right[order], ids, 0.2, hits="mask") for order in (torch.arange(12), swapped)]
    assert found == pytest.approx(sum(wanted) / 2, rel=1e-12)


def test_multiple_negatives_of_sentence_transformers(towers: tuple[Tensor, Tensor]) -> None:
    peer = pytest.importorskip("sentence_transformers.losses")
    util = pytest.importorskip("sentence_transformers.util")
    loss = peer.MultipleNegativesRankingLoss(torch.nn.Identity(), scale=20.0, similarity_fct=util.cos_sim)
    found = loss.compute_loss_from_embeddings(list(towers), None).item()
    assert found == pytest.approx(of_scores(*towers, torch.arange(12), 1 / 20), rel=1e-6)
