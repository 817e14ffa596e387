"""The grid, the prediction and the summaries, on small numbers by hand."""

import math
from dataclasses import replace
from itertools import product
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from sumexp.chapters.catalogue import baseline, forms, grids, outlook, pairs, summary, train, training
from sumexp.chapters.catalogue.grids import Method
from sumexp.negatives import published

SMOKE = replace(grids.PLANS["smoke"]["synthetic"], users=60)
PARTS = pairs.load("synthetic", 60, 1, 0)


@pytest.fixture(autouse=True)
def five_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 30 items hardly more than 20 are left for a user, so that every list of 20 finds all."""
    for module in (training, baseline):
        monkeypatch.setattr(module, "K", 5)


def test_with_numbers_both_parametrisations_are_one_training() -> None:
    """Trained without log q and served with it, and with log q off all logits: step by step, to rounding."""
    config = training.Config(users=60, dim=8, batch=64)
    kept, none = (training.Learner(replace(config, form=form), PARTS, 0.03) for form in ("kept", "none"))
    for _ in range(2):
        kept.run_epoch(), none.run_epoch()
    (left, right, offset), (others_left, others_right, other) = kept.vectors(), none.vectors()
    served = left @ right.T + offset
    again = others_left @ others_right.T + other + torch.from_numpy(PARTS.log_q).float()
    torch.testing.assert_close(served.log_softmax(-1), again.log_softmax(-1), rtol=1e-3, atol=1e-3)


def test_the_prediction_by_hand() -> None:
    log_p = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64).log()
    log_q = torch.tensor([0.7, 0.1, 0.1, 0.1], dtype=torch.float64).log()
    for form in ("kept", "mixed", "popularity", "full", "gbce"):
        assert torch.equal(outlook.minimum(form, log_p, log_q, 5), log_p), form
    for form in ("none", "siglip"):
        assert torch.equal(outlook.minimum(form, log_p, log_q, 5), log_p - log_q), form
    # Batches of three: over all labels and both other columns the gradient of what is trained is 0.
    for form in ("none", "kept", "masked", "negatives", "importance"):
        f, risk = outlook.minimum(form, log_p, log_q, 2).clone().requires_grad_(), torch.zeros(())
        for ids in product(range(4), repeat=3):
            chance = (log_p[ids[0]] + log_q[ids[1]] + log_q[ids[2]]).exp()
            risk = risk + chance * forms.batch_loss(form, f[[*ids]][None], torch.tensor(ids), log_q[[*ids]])
        assert torch.autograd.grad(risk, f)[0].abs().max() < 1e-6, form
    # Refined: its own exact minimum, up to what is left of order 1/m^2.
    near = outlook.minimum("refined", log_p, log_q, 100).log_softmax(0)
    exact = published.stationary("refined", log_p, log_q, 100)
    assert (near - exact).abs().max() < 0.1 * (log_p - exact).abs().max()
    # Items 0 .. 39 are equally probable, and 0 and 1 are left out: 5 of the 38 others.
    even = torch.full((40,), -math.log(40), dtype=torch.float64)
    assert outlook.expected_recall(even, even, torch.tensor([0, 1])) == pytest.approx(5 / 38)
    best = torch.cat([torch.ones(4), torch.full((36,), 0.1)]).double()
    law = (best / best.sum()).log()
    assert outlook.expected_recall(law, law, torch.tensor([0])) == pytest.approx((3 + 2 * 0.1) / (3 + 36 * 0.1))


def test_a_prediction_of_a_drawn_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    recalled = Mock(wraps=outlook.expected_recall)
    monkeypatch.setattr(outlook, "expected_recall", recalled)
    arrays = outlook.predict(grids.outlook("synthetic", SMOKE)).arrays
    user = np.random.default_rng(1000).permutation(60)[:1]
    assert recalled.call_args.args[2].tolist() == pairs.load("synthetic", 60, 1, 1000).train[user].indices.tolist()
    recall = dict(zip(forms.FORMS, arrays["recall"][:, 0, 0], strict=True))
    assert max(recall.values()) < recall["full"] + 1e-12  # log P has the best order under P itself
    kl = dict(zip(forms.FORMS, arrays["kl"][:, :, 0], strict=True))
    assert kl["kept"][0] == pytest.approx(0, abs=1e-12)
    assert kl["none"] == pytest.approx(kl["siglip"])
    assert kl["none"][1] == pytest.approx(0, abs=1e-12)
    assert kl["none"][0] > kl["negatives"][0] > kl["importance"][0] > 0
    assert arrays["recall"][forms.FORMS.index("none"), 1, 0] == recall["full"]


def test_a_summary_by_hand() -> None:
    asked = grids.config("synthetic", SMOKE, Method("kept"), True, 0)
    runs = [(replace(asked, form=form, seed=seed), train(replace(asked, form=form, seed=seed)).arrays)
            for form in ("kept", "none") for seed in (0, 1)]  # fmt: skip
    table = summary.summaries(runs)
    recalls = table[Method("none"), True]
    assert summary.of(recalls, "held", "f").tolist() == [runs[2][1]["recall"][0], runs[3][1]["recall"][0]]
    assert summary.of(recalls, "public", "f")[0] == runs[2][1]["recall"][training.JUDGED.index(("public", "f"))]
    wanted = np.mean([runs[2 + i][1]["recall"][0] - runs[i][1]["recall"][0] for i in range(2)])
    assert summary.difference(table, Method("none"), True, 0.95).mean == pytest.approx(wanted)


def test_one_list_for_all_by_hand() -> None:
    """Of all items but those of earlier pairs the five most frequent, equal ones in any order."""
    recalls = baseline.popular(PARTS)
    frequent, before = np.tile(np.maximum(PARTS.counts, 1), (60, 1)), PARTS.train + PARTS.validation
    moved = training.popularity(PARTS).numpy()[training.half(60)]
    held, public = (PARTS.held, before), (PARTS.public, before + PARTS.held)
    for place, (part, before) in enumerate((held, held, public, public, public)):
        counts = moved if place == 4 else frequent
        shares = []
        for user in np.flatnonzero(np.diff(part.indptr)):
            others, own = np.delete(counts[user], before[[user]].indices), counts[user, part[[user]].indices, None]
            shares.append(np.clip((5 - (others > own).sum(1)) / (others == own).sum(1), 0, 1).mean())
        assert recalls[place] == pytest.approx(np.mean(shares)), place


def test_what_comes_with_the_book_has_the_counts_once() -> None:
    first, *others = (job for job in grids.jobs("paper", "gowalla".__eq__) if job.task is train)
    arrays = {"counts": np.arange(3), "recall": np.zeros(5)}
    assert first.condense(arrays) == arrays
    assert all(list(job.condense(arrays)) == ["recall"] for job in others)
    decisive = grids.decisive("gowalla", grids.PLANS["paper"]["gowalla"])
    assert (decisive[0], len(decisive)) == (first.config, 3 * 2 * 5)  # methods, models, seeds
    groups = grids.by_method("gowalla", grids.PLANS["paper"]["gowalla"])
    assert groups[0] == tuple(config for config in decisive if (config.form, config.number) == ("none", True))
    assert (len(groups), {len(group) for group in groups}) == (13 + 11, {5})
