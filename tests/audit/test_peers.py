"""The lines that the audit advises for other libraries, run as they stand where those are installed."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from sumexp.audit._advice import RECOMMENDERS, TORCH, recommenders

pytestmark = pytest.mark.peers


def test_the_lines_for_draws_in_tensorflow() -> None:
    """Log of the expected count off all logits, the positive's too, with hits kept: each example's softmax by hand."""
    tf = pytest.importorskip("tensorflow")
    generator = np.random.default_rng(0)
    counts, m = [50, 20, 10, 5], 6
    weights, biases, queries = (generator.normal(size=shape).astype("f") for shape in ((4, 3), (4,), (2, 3)))
    labels = np.array([[0], [3]])
    names = {
        "tf": tf, "labels": labels, "m": m, "classes": 4, "counts": counts, "weights": weights, "biases": biases,
        "queries": queries,
    }  # fmt: skip
    exec(recommenders("draws", "unigram"), names)
    ids = torch.from_numpy(names["drawn"][0].numpy())  # type: ignore[index]
    q = torch.tensor(counts) / sum(counts)
    assert (ids == 0).any()  # a hit of the first example, which is kept
    scores = torch.from_numpy(queries @ weights.T + biases) - (m * q).log()
    rows = torch.cat([scores.gather(1, torch.from_numpy(labels)), scores[:, ids]], 1)
    expected = F.cross_entropy(rows, torch.zeros(2, dtype=torch.long), reduction="none")
    torch.testing.assert_close(torch.from_numpy(names["loss"].numpy()), expected, rtol=1e-5, atol=1e-5)  # type: ignore[attr-defined]


@pytest.mark.parametrize("rare", [1e-3, 1e-9])
def test_the_lines_for_batches_in_tensorflow_recommenders(monkeypatch: pytest.MonkeyPatch, rare: float) -> None:
    """Those for torch, which are tested against formulas, on a batch with a hit; very rare items are clipped."""
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "1")  # as the library asks for beside Keras 3
    pytest.importorskip("tensorflow")
    tfrs = pytest.importorskip("tensorflow_recommenders")
    generator = np.random.default_rng(0)
    law, ids = np.array([0.6, 0.4 - 2 * rare, rare, rare]), np.array([0, 2, 1, 0, 3])
    queries, items = (generator.normal(size=shape).astype("f") for shape in ((5, 3), (4, 3)))
    pi = law[ids].astype("f")
    names = {"tfrs": tfrs, "queries": queries, "candidates": items[ids], "pi": pi, "pi_max": pi.max()}
    exec(RECOMMENDERS["batch"], names)
    ours = {
        "torch": torch, "F": F, "queries": torch.from_numpy(queries), "items": torch.from_numpy(items[ids]),
        "log_pi": torch.from_numpy(law).log(), "ids": torch.from_numpy(ids),
    }  # fmt: skip
    # a probability below 1e-6 of the unit is taken for 1e-6: the lines say so
    ours["log_pi"] = ours["log_pi"].clamp_min(float(np.log(1e-6 * pi.max())))  # type: ignore[attr-defined]
    exec(TORCH["batch"], ours)
    assert float(names["loss"]) / 5 == pytest.approx(float(ours["loss"]), rel=1e-5)  # type: ignore[arg-type]


def test_distinct_ids_in_tensorflow_are_corrected_by_the_number_of_tries() -> None:
    """What `weights="tries"` audits: log of 1 - (1 - q)^tries off all logits, hits masked; of m tries log(mq)."""
    tf = pytest.importorskip("tensorflow")
    generator, m = np.random.default_rng(0), 3
    weights, biases, queries = (generator.normal(size=shape).astype("f") for shape in ((6, 3), (6,), (2, 3)))
    labels, seen = np.array([[0], [4]]), set()
    ids = np.arange(6)
    q = np.log1p(1 / (ids + 1.0)) / np.log(7)
    for seed in range(40):
        tf.random.set_seed(seed)
        drawn = tf.random.log_uniform_candidate_sampler(labels, 1, m, True, 6, seed=seed)
        found, expected = drawn[0].numpy(), drawn[2].numpy()
        assert len(set(found.tolist())) == m
        # the tries are what the expected counts say, a whole number; one number for labels and draws
        plain = np.allclose(expected, m * q[found], rtol=1e-5)
        tries = np.full(m, float(m)) if plain else np.log1p(-expected.astype(float)) / np.log1p(-q[found])
        number = round(float(tries.mean()))
        assert np.allclose(tries, number, rtol=1e-3)
        seen.add(number)
        coin = m * q if plain else 1 - (1 - q) ** number
        scores = queries @ weights.T + biases - np.log(coin)
        loss = tf.nn.sampled_softmax_loss(weights, biases, labels, queries, m, 6, sampled_values=drawn)
        for row, label in enumerate(labels[:, 0]):
            others = [scores[row, j] for j in found if j != label]
            by_hand = np.log(np.exp([scores[row, label], *others]).sum()) - scores[row, label]
            assert float(loss[row]) == pytest.approx(by_hand, rel=1e-4, abs=1e-4)
    assert m in seen
    assert len(seen) > 3
