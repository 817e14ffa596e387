"""What the page on libraries says of TensorFlow's distinct ids, where it is installed."""

import numpy as np
import pytest

pytestmark = pytest.mark.peers


def test_distinct_ids_in_tensorflow_are_corrected_by_the_number_of_tries() -> None:
    """Log of 1 - (1 - q)^tries off all logits, hits masked; of m tries log(mq)."""
    tf = pytest.importorskip("tensorflow")
    generator, m = np.random.default_rng(0), 3
    weights, biases, queries = (generator.normal(size=shape).astype("f") for shape in ((6, 3), (6,), (2, 3)))
    labels, seen = np.array([[0], [4]]), set()
    ids = np.arange(6)
    q = np.log1p(1 / (ids + 1.0)) / np.log(7)
    for seed in range(40):
        tf.random.set_seed(seed)
        drawn = tf.random.log_uniform_candidate_sampler(labels, 1, m, True, 6, seed=seed)
        negatives, expected = drawn[0].numpy(), drawn[2].numpy()
        assert len(set(negatives.tolist())) == m
        # the tries are what the expected counts say, a whole number; one number for labels and draws
        plain = np.allclose(expected, m * q[negatives], rtol=1e-5)
        tries = np.full(m, float(m)) if plain else np.log1p(-expected.astype(float)) / np.log1p(-q[negatives])
        number = round(float(tries.mean()))
        assert np.allclose(tries, number, rtol=1e-3)
        seen.add(number)
        coin = m * q if plain else 1 - (1 - q) ** number
        scores = queries @ weights.T + biases - np.log(coin)
        loss = tf.nn.sampled_softmax_loss(weights, biases, labels, queries, m, 6, sampled_values=drawn)
        for row, label in enumerate(labels[:, 0]):
            others = [scores[row, j] for j in negatives if j != label]
            by_hand = np.log(np.exp([scores[row, label], *others]).sum()) - scores[row, label]
            assert float(loss[row]) == pytest.approx(by_hand, rel=1e-4, abs=1e-4)
    assert m in seen
    assert len(seen) > 3
