"""Ranking metrics of lists long enough for every way that a device takes: the first k, comparisons and sorts."""

import pytest
import torch
from scipy.sparse import csr_array
from torch import Tensor

from sumexp import ranking
from sumexp.ranking import Labels, Ties
from sumexp.ranking._counting import count_true
from tests.accelerator.device import GPU, NAME, Device, without_double

NAMES = ["recall@5", "ndcg@5", "recall@17", "ndcg", "average_precision@5", "precision@5", "reciprocal_rank"]


def values(device: str, ties: Ties, share: float, excluded: bool) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(40, (7, 300), generator=generator).float()  # many ties
    scores[torch.rand(7, 300, generator=generator) < 0.1] = -torch.inf
    relevant = torch.rand(7, 300, generator=generator) < share
    relevant[:, 0] = True
    lists = [row.nonzero().flatten().tolist() for row in relevant]
    labels, gained = Labels(lists), Labels(lists, [[1.0 + item % 2 for item in row] for row in lists])
    exclude = torch.randint(1, 300, (7, 5), generator=generator).tolist() if excluded else None
    results = []
    sparse = (csr_array(relevant.numpy()), relevant.to(device).to_sparse()) if share == 0.04 else ()
    for of in (relevant.to(device), labels, gained, *sparse):
        results += ranking.evaluate(scores.to(device), of, NAMES, ties=ties, exclude=exclude, empty=0).values()
        for metric, k in ((ranking.recall, [10]), (ranking.recall, [300]), (ranking.reciprocal_rank, [])):
            columns = scores.T.contiguous().T.to(device)  # in memory by items
            results.append(metric(columns, of, *k, ties=ties, exclude=exclude, empty="skip"))
    results += [ranking.ranks(scores.to(device), ties=ties), ranking.rank(scores.to(device), [0] * 7, ties=ties)]
    values, items = scores.topk(20)  # of equal scores a GPU takes others
    for given in ((), (values.double().numpy(),)):
        retrieved = ranking.Retrieved(items.to(device), *given)
        results += ranking.evaluate(retrieved, gained, NAMES, ties=ties, exclude=exclude, empty=0).values()
    for kind in (torch.float32, torch.int64):
        chunks = ranking.Chunks(lambda start, stop: scores.nan_to_num()[:, start:stop].to(device, kind), 300, 70)  # noqa: B023
        results += ranking.evaluate(chunks, labels, NAMES, ties=ties, exclude=exclude, empty=0).values()
    return [result.cpu().double() for result in results]


@pytest.mark.parametrize("share, excluded", [(0.003, True), (0.04, False), (0.04, True), (0.3, False)])
@pytest.mark.parametrize("ties", ["expected", "optimistic", "pessimistic"])
def test_a_device_gives_what_the_cpu_gives(ties: Ties, share: float, excluded: bool) -> None:
    wanted = values("cpu", ties, share, excluded)
    for device, rtol in ((Device, 1e-14), *([] if GPU else [(without_double, 1e-5)])):
        with device():
            results = values(NAME, ties, share, excluded)
        for actual, expected in zip(results, wanted, strict=True):
            torch.testing.assert_close(actual, expected, rtol=rtol, atol=rtol / 10)


@pytest.mark.skipif(GPU, reason="only the stand-in counts")
def test_the_host_waits_three_times_for_a_metric() -> None:
    with Device() as device:
        relevant = (torch.rand(50, 300) < 0.03).to(NAME)
        relevant[:, 0] = True
        for scores in (torch.randn(50, 300).to(NAME), torch.randint(9, (50, 300)).to(NAME)):  # without ties and with
            for metric, k in ((ranking.recall, [10]), (ranking.ndcg, []), (ranking.reciprocal_rank, [])):
                before = device.synchronisations.total()
                metric(scores, relevant, *k)
                assert device.synchronisations.total() - before <= 3


def test_a_device_counts_as_far_as_single_precision_does_and_beyond() -> None:
    with Device():
        for length in ((1 << 24) - 1, 1 << 24, (1 << 24) + 1):
            assert count_true(torch.ones(1, length, dtype=torch.bool, device=NAME)).tolist() == [length]
