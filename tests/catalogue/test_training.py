"""The parts of the pairs, metrics against those of the package, tuning, and what training gains."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from sumexp import ranking
from sumexp.chapters.catalogue import Config, forms, pairs, train, training

TINY = Config(users=60, dim=8, batch=64, epochs=2, rates=(0.01, 0.05))
PARTS = pairs.load("synthetic", 60, 1, 0)


def lists(part: csr_array) -> list[list[int]]:
    return [part.indices[a:b].tolist() for a, b in zip(part.indptr[:-1], part.indptr[1:], strict=True)]


def test_parts_share_no_pair_and_make_up_all_of_them() -> None:
    given = pairs.synthetic(60)
    parts = (PARTS.train, PARTS.validation, PARTS.held, PARTS.public)
    assert [part.nnz for part in parts] == [60 * 12 - 2 * 72, 72, 72, 60 * 3]
    assert sum(part.astype(int) for part in parts).max() == 1
    assert (sum(part.astype(int) for part in parts[:3]) != given.train.astype(int)).nnz == 0
    assert (PARTS.public != given.test).nnz == 0
    assert (pairs.load("synthetic", 60, 1, 1).held != PARTS.held).nnz > 0


def test_items_that_are_taken_too_seldom_are_left_out() -> None:
    given = pairs.synthetic(60)
    often = (given.train.sum(0) >= 20).sum()
    parts = pairs.split(given, 60, 20, 0)
    assert parts.train.shape[1] == parts.public.shape[1] == often < 30
    with pytest.raises(ValueError, match="no item has 61 training pairs with 60 users"):
        pairs.split(given, 60, 61, 0)
    with pytest.raises(ValueError, match="61 users are asked for, and there are 60"):
        pairs.split(given, 61, 1, 0)


def test_metrics_are_those_of_the_package_with_earlier_items_excluded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "K", 5)  # 20 places are enough for all of 30 items but those of a user
    source = torch.Generator().manual_seed(0)
    left, right = torch.randn(60, 4, generator=source), torch.randn(30, 4, generator=source)
    offset = torch.randn(60, 30, generator=source)
    for part, before in (PARTS.held, (PARTS.train, PARTS.validation)), (PARTS.train, (PARTS.held, PARTS.public)):
        [metrics] = training.judge(left, right, (offset,), part, before, torch.arange(60))
        users = [user for user in range(60) if part[[user]].nnz]
        relevant = ranking.Labels([lists(part)[user] for user in users])
        seen = [lists(before[0])[user] + lists(before[1])[user] for user in users]
        scores = (left @ right.T + offset)[users]
        for name, metric in (("recall", ranking.recall), ("ndcg", ranking.ndcg)):
            wanted = metric(scores, relevant, 5, exclude=seen).mean().item()
            assert metrics[name] == pytest.approx(wanted, rel=1e-9)


def test_of_equal_scores_the_own_item_comes_last() -> None:
    wanted = csr_array(np.eye(1, 30, dtype=bool))
    [metrics] = training.judge(torch.zeros(1, 2), torch.zeros(30, 2), (torch.zeros(30),), wanted, ())
    assert metrics["recall"] == 0


def test_the_popularity_of_public_pairs_is_counted_in_the_other_half() -> None:
    halves, items = training.half(60), PARTS.public.shape[1]
    other = [item for half, row in zip(halves, lists(PARTS.public), strict=True) if half == 1 for item in row]
    share = (other.count(0) + items * np.exp(PARTS.log_q[0])) / (len(other) + items)
    assert training.popularity(PARTS)[0, 0].item() == pytest.approx(np.log(share), rel=1e-5)


@pytest.mark.parametrize("form", forms.FORMS)
def test_each_form_learns_something(form: forms.Form) -> None:
    """Beyond popularity: on the pairs that it was trained on, where no sample of a test adds noise."""
    m = 16 if form in ("popularity", "gbce") else 0
    learner = training.Learner(replace(TINY, form=form, negatives=m), PARTS, 0.03)
    none = csr_array(PARTS.train.shape, dtype=bool)
    log_q = torch.from_numpy(PARTS.log_q).float()

    def recall() -> float:
        left, right, offset = learner.vectors()
        [table] = training.judge(left, right, (offset + (form in forms.RATIOS) * log_q,), PARTS.train, (none,))
        return float(table["recall"])

    losses = [learner.run_epoch().mean().item() for _ in range(8)]
    popular = training.judge(torch.zeros(60, 1), torch.zeros(30, 1), (log_q,), PARTS.train, (none,))[0]["recall"]
    assert losses[-1] < losses[0]
    assert recall() > popular + 0.02


def test_what_validation_picks_is_what_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    result, judge = train(TINY), training.judge
    table, picked = result.arrays["validation"], result.arrays["picked"]
    assert table.shape == (2, 2, 2)
    for rows, (rate, epoch) in zip(table, picked, strict=True):
        assert rows[rate, epoch] == np.nanmax(rows)
    # The rate that was picked, alone and for as many epochs, is judged alike.
    rate, epoch = picked[0]
    alone = train(replace(TINY, rates=(TINY.rates[rate],), epochs=int(epoch) + 1))
    assert alone.arrays["ndcg"][0] == result.arrays["ndcg"][0] < 1
    # Of epochs that validation, which has no groups, finds equal, the first.
    monkeypatch.setattr(training, "judge", lambda *of: judge(*of) if len(of) > 5 else [{"ndcg": 0.0}] * 2)
    first, both = (train(replace(TINY, rates=(0.05,), epochs=epochs)).arrays["ndcg"] for epochs in (1, 2))
    assert first.tolist() == both.tolist()


def test_a_batch_larger_than_the_pairs() -> None:
    with pytest.raises(ValueError, match="there are 576 training pairs for a batch of 600"):
        train(replace(TINY, batch=600))
