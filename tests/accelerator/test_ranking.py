"""Ranking metrics of lists long enough for every way that a device takes: the first k, comparisons and sorts."""

import pytest
import torch
from torch import Tensor

from sumexp import ranking
from sumexp.ranking import Labels, Ties
from tests.accelerator.device import GPU, NAME, Device

NAMES = ["recall@5", "ndcg@5", "recall@17", "ndcg", "average_precision@5", "precision@5", "reciprocal_rank"]


def values(device: str, ties: Ties, share: float, excluded: bool) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(40, (7, 300), generator=generator).float()  # many ties
    scores[torch.rand(7, 300, generator=generator) < 0.1] = -torch.inf
    relevant = torch.rand(7, 300, generator=generator) < share
    relevant[:, 0] = True
    labels = Labels([row.nonzero().flatten().tolist() for row in relevant])
    exclude = torch.randint(1, 300, (7, 5), generator=generator).tolist() if excluded else None
    found = []
    for of in (relevant.to(device), labels):
        found += ranking.evaluate(scores.to(device), of, NAMES, ties=ties, exclude=exclude, empty=0).values()
        for metric, k in ((ranking.recall, [10]), (ranking.reciprocal_rank, [])):
            found.append(metric(scores.to(device), of, *k, ties=ties, exclude=exclude, empty="skip"))
    found += [ranking.ranks(scores.to(device), ties=ties), ranking.rank(scores.to(device), [0] * 7, ties=ties)]
    return [one.cpu() for one in found]


@pytest.mark.parametrize("excluded", [False, True])
@pytest.mark.parametrize("share", [0.01, 0.04, 0.3])
@pytest.mark.parametrize("ties", ["expected", "optimistic", "pessimistic"])
def test_a_device_gives_what_the_cpu_gives(ties: Ties, share: float, excluded: bool) -> None:
    wanted = values("cpu", ties, share, excluded)
    with Device():
        found = values(NAME, ties, share, excluded)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-14, atol=1e-15)


@pytest.mark.skipif(GPU, reason="only the stand-in counts")
def test_the_host_waits_three_times_for_a_metric() -> None:
    with Device() as device:
        scores, relevant = torch.randn(50, 300).to(NAME), (torch.rand(50, 300) < 0.03).to(NAME)
        relevant[:, 0] = True
        for metric, k in ((ranking.recall, [10]), (ranking.ndcg, []), (ranking.reciprocal_rank, [])):
            before = device.synchronisations.total()
            metric(scores, relevant, *k)
            assert device.synchronisations.total() - before <= 3
