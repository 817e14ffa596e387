"""The trainings of the six schemes: what is true, what each minimises, and what a table of them says."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from sumexp import samplers
from sumexp.chapters import towers

SMALL = towers.Setting(items=30, contexts=6, features=3, batch=16, steps=12)


def world(seed: int = 0) -> towers.World:
    return towers.world(SMALL, torch.Generator().manual_seed(seed))


def test_the_truth_is_zipf_times_taste() -> None:
    truth = world()
    assert torch.allclose(truth.log_p.exp().sum(-1), torch.ones(6, dtype=torch.float64))
    assert torch.allclose(truth.log_q.exp(), truth.log_p.exp().mean(0))
    tasteless = towers.world(replace(SMALL, taste=1e-12), torch.Generator().manual_seed(0))
    harmonic = sum(1 / r for r in range(1, 31))
    assert tasteless.log_q.exp().tolist() == pytest.approx([1 / r / harmonic for r in range(1, 31)])


def test_pairs_follow_the_truth() -> None:
    truth, setting = world(), replace(SMALL, batch=100_000, steps=1)
    contexts, items = towers._pairs(setting, truth, torch.Generator().manual_seed(1))
    counts = torch.bincount((contexts * 30 + items).flatten(), minlength=180).double()
    expected = truth.log_p.exp().flatten() * 100_000 / 6
    # Chi-squared with 179 degrees of freedom: above 269 with probability 1e-5.
    large = expected > 1
    assert ((counts - expected).square() / expected)[large].sum() < 269


def test_towers_begin_near_the_scores_of_the_features() -> None:
    setting = replace(SMALL, items=100, features=50)
    model = towers.Towers(setting, torch.linspace(-5, 0, 100), torch.Generator().manual_seed(0))
    off = (model.context - torch.eye(50), model.item)
    # Of n normal numbers the root mean square is off by 1/sqrt(2n), of 2,500 by 1.4 %: five of them.
    assert [tensor.square().mean().sqrt().item() for tensor in off] == pytest.approx([0.1, 0.1], rel=0.07)
    assert model.offset.tolist() == torch.linspace(-5, 0, 100).tolist()


def test_losses_by_their_definition() -> None:
    truth, generator = world(), torch.Generator().manual_seed(2)
    model = towers.Towers(SMALL, torch.randn(30, generator=generator), generator)
    contexts, items = truth.contexts.float()[[0, 1, 2, 3]], torch.tensor([4, 7, 4, 0])
    log_q = truth.log_q.float()
    scores, labels = model(contexts, items), torch.arange(4)
    taken = log_q[items].expand(4, 4)
    masked = torch.zeros(4, 4)
    masked[0, 2] = masked[2, 0] = -math.inf  # item 4 twice
    wanted = {
        "no logQ": scores,
        "logQ on negatives, hits masked": scores - taken * (1 - torch.eye(4)) + masked,
        "logQ on all logits, hits masked": scores - taken + masked,
        towers.ADVISED: scores - taken,
    }
    for scheme, logits in wanted.items():
        loss = towers.SCHEMES[scheme](model, contexts, items, log_q, generator)
        assert loss.item() == pytest.approx(F.cross_entropy(logits, labels).item(), rel=1e-5)
    # Two more columns, 2 of 5 draws: q is 3/5 of the popularity and 2/5 uniform.
    extra = torch.randint(30, (2,), generator=torch.Generator().manual_seed(3))
    columns = torch.cat([items, extra])
    q = 3 / 5 * log_q.exp() + 2 / 5 / 30
    logits = model(contexts, columns) - q[columns].log()
    loss = towers.SCHEMES["mixed with uniform"](model, contexts, items, log_q, torch.Generator().manual_seed(3))
    assert loss.item() == pytest.approx(F.cross_entropy(logits, labels).item(), rel=1e-5)


def test_log_uniform_negatives_are_the_cross_entropy_with_all_of_them_in_the_mean() -> None:
    # With 2,000 draws the mean over q of e^f/q is nearly the full sum: the loss is the cross entropy plus log(m q_y).
    truth, generator = world(), torch.Generator().manual_seed(4)
    setting, size = replace(SMALL, batch=2_000), 2_000
    model = towers.Towers(setting, truth.log_q.float(), generator)
    contexts, items = truth.contexts.float()[torch.arange(size) % 6], torch.randint(30, (size,), generator=generator)
    with torch.no_grad():
        loss = towers.SCHEMES["log-uniform"](model, contexts, items, truth.log_q.float(), generator)
        full = F.cross_entropy(model(contexts, torch.arange(30)), items) + math.log(size)
        full += samplers.LogUniform(30).log_prob(items).mean()
    assert loss.item() == pytest.approx(full.item(), abs=0.1)


def test_log_q_added_afterwards_is_the_advised_scheme() -> None:
    truth = world()
    late, advised = towers.train(SMALL, "no logQ", truth, 5), towers.train(SMALL, towers.ADVISED, truth, 5)
    assert torch.allclose(late.item, advised.item, atol=1e-5)
    assert torch.allclose(late.offset + truth.log_q.float(), advised.offset, atol=1e-5)


def test_metrics_of_the_truth_and_of_its_reverse() -> None:
    truth = world()
    best = towers.of_scores(truth.log_p, truth)
    assert best["kl"] == pytest.approx(0, abs=1e-12)
    p = truth.log_p.exp()
    assert best["recall"] == pytest.approx(p.sort(descending=True).values[:, :10].sum(-1).mean().item())
    worst = towers.of_scores(-truth.log_p, truth)
    assert worst["kl"] > 1
    assert worst["recall"] == pytest.approx(p.sort().values[:, :10].sum(-1).mean().item())
    places = torch.arange(1, 31, dtype=torch.float64)
    assert worst["mrr"] == pytest.approx((p.sort().values / places).sum(-1).mean().item())


def least(log_p: Tensor, log_q: Tensor, scheme: str) -> Tensor:
    """The best scores in batches of two: a label y has one negative j, which adds log(1 + e^(s_j - s_y)) or nothing."""
    f = log_p.clone().requires_grad_()
    search = torch.optim.LBFGS([f], max_iter=200, tolerance_grad=1e-10, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        positive = f - log_q if "on all" in scheme else f
        negative = f if scheme == "no logQ" else f - log_q
        each = F.softplus(negative - positive[:, None]) * (log_p[:, None] + log_q).exp()
        value = each.sum() - each.trace() if "masked" in scheme else each.sum()
        search.zero_grad()
        value.backward()
        return value

    search.step(loss)
    return f.detach()


@pytest.mark.parametrize("scheme", towers.THEORY)
def test_what_is_foretold_of_pairs_by_a_sum_over_all(scheme: str) -> None:
    setting = replace(SMALL, items=5, batch=2)
    truth = towers.world(setting, torch.Generator().manual_seed(0))
    learned = torch.stack([least(log_p, truth.log_q, scheme) for log_p in truth.log_p[:2]]).log_softmax(-1)
    wanted = (truth.log_p[:2].exp() * (truth.log_p[:2] - learned)).sum(-1).mean().item()
    kls = towers.predicted_kls(setting, scheme, contexts=2)
    assert sum(kls) / 2 == pytest.approx(wanted, rel=1e-4, abs=1e-9)


def test_a_table_and_what_it_says() -> None:
    table = towers.table(SMALL, 2)
    assert set(table) == set(towers.SCHEMES)
    assert {len(table[scheme][metric]) for scheme in table for metric in towers.METRICS} == {2}
    made = {scheme: {metric: [1.0, 1.1, 1.2] for metric in towers.METRICS} for scheme in towers.SCHEMES}
    # 30 intervals share 5 %: with three seeds t is 24.46 in the place of 4.30.
    assert towers.CONFIDENCE == 1 - 0.05 / 30
    made["log-uniform"] = {"kl": [2.0, 2.1, 2.2001], "recall": [2.0, 2.1, 2.2001], "mrr": [0.0, 1.0, 2.0]}
    assert [towers.beside_advised(made, "log-uniform", metric) for metric in towers.METRICS] == ["worse", "better", "-"]


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="scheme is 'best'; expected one of no logQ"):
        towers.train(SMALL, "best", world(), 0)
    with pytest.raises(ValueError, match="scheme is 'log-uniform'; expected one of no logQ"):
        towers.predicted_kls(SMALL, "log-uniform")
    with pytest.raises(ValueError, match="taste must be positive, got 0"):
        towers.Setting(taste=0)
