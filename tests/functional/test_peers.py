"""What other libraries minimise, held against what the page on libraries says it is."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from sumexp import functional, samplers

pytestmark = pytest.mark.peers


@pytest.fixture
def towers() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    left, right = (F.normalize(torch.randn(12, 5, generator=generator, dtype=torch.float64)) for _ in range(2))
    return left, right


def of_scores(left: Tensor, right: Tensor, ids: Tensor, temperature: float, **options: object) -> float:
    scores = left @ right.T
    return functional.in_batch(scores, ids, correct="none", temperature=temperature, **options).item()  # type: ignore[arg-type]


def test_info_nce_pytorch(towers: tuple[Tensor, Tensor]) -> None:
    peer = pytest.importorskip("info_nce")
    actual = peer.InfoNCE(temperature=0.2)(*towers).item()
    assert actual == pytest.approx(of_scores(*towers, torch.arange(12), 0.2), rel=1e-12)


@pytest.mark.parametrize("repeated", [False, True])
def test_ntxent_of_pytorch_metric_learning(towers: tuple[Tensor, Tensor], repeated: bool) -> None:
    peer = pytest.importorskip("pytorch_metric_learning.losses")
    ids = torch.arange(12) // 2 if repeated else torch.arange(12)
    left, right = towers
    # Another tensor of labels, as for one and the same the peer leaves out the diagonal.
    actual = peer.NTXentLoss(temperature=0.2)(left, ids, ref_emb=right, ref_labels=ids.clone()).item()
    if not repeated:
        assert actual == pytest.approx(of_scores(left, right, ids, 0.2), rel=1e-12)
        return
    # Each positive of a row is scored against the negatives of the row: masked hits, once with either positive.
    swapped = torch.arange(12) ^ 1
    wanted = [of_scores(left, right[order], ids, 0.2, hits="mask") for order in (torch.arange(12), swapped)]
    assert actual == pytest.approx(sum(wanted) / 2, rel=1e-12)


def test_multiple_negatives_of_sentence_transformers(towers: tuple[Tensor, Tensor]) -> None:
    peer = pytest.importorskip("sentence_transformers.losses")
    util = pytest.importorskip("sentence_transformers.util")
    loss = peer.MultipleNegativesRankingLoss(torch.nn.Identity(), scale=20.0, similarity_fct=util.cos_sim)
    actual = loss.compute_loss_from_embeddings(list(towers), None).item()
    assert actual == pytest.approx(of_scores(*towers, torch.arange(12), 1 / 20), rel=1e-6)


@pytest.mark.filterwarnings("ignore:The MultipleNegativesSymmetricRankingLoss is deprecated:DeprecationWarning")
def test_symmetric_multiple_negatives_of_sentence_transformers(towers: tuple[Tensor, Tensor]) -> None:
    peer = pytest.importorskip("sentence_transformers.losses")
    util = pytest.importorskip("sentence_transformers.util")
    loss = peer.MultipleNegativesSymmetricRankingLoss(torch.nn.Identity(), scale=20.0, similarity_fct=util.cos_sim)
    actual = loss.compute_loss_from_embeddings(list(towers), None).item()
    assert actual == pytest.approx(of_scores(*towers, torch.arange(12), 1 / 20, symmetric=True), rel=1e-6)


class Batch:
    """Twelve examples of five items, and further ones as negatives; in single precision, as they are there."""

    def __init__(self, further: int) -> None:
        generator = torch.Generator().manual_seed(1)
        self.left = torch.randn(12, 4, generator=generator)
        self.right = torch.randn(12 + further, 4, generator=generator)
        self.ids = torch.randint(5, (12 + further,), generator=generator)
        self.log_q = torch.log_softmax(torch.randn(5, generator=generator), 0)[self.ids]
        self.scores = self.left @ self.right.T

    def peer_loss(self, **options: Any) -> float:
        """The loss of their task: the sum over the examples."""
        if not hasattr(pytest.importorskip("tensorflow").keras.losses.Reduction, "SUM"):
            pytest.skip("TensorFlow Recommenders is written for Keras 2: pip install tf-keras, TF_USE_LEGACY_KERAS=1")
        peer = pytest.importorskip("tensorflow_recommenders")
        given = {"candidate_ids": self.ids.numpy()}
        if (log_q := options.pop("log_q", None)) is not None:
            given["candidate_sampling_probability"] = log_q.exp().numpy()
        actual = peer.tasks.Retrieval(**options)(self.left.numpy(), self.right.numpy(), compute_metrics=False, **given)
        return float(actual)

    def ours(self, **options: Any) -> float:
        return functional.in_batch(self.scores, self.ids, reduction="sum", **options).item()


@pytest.mark.parametrize("further", [0, 3])
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_retrieval_of_tensorflow_recommenders(further: int, temperature: float) -> None:
    batch, heat = Batch(further), {"temperature": temperature}
    assert batch.peer_loss(**heat) == pytest.approx(batch.ours(correct="none", **heat), rel=1e-5)
    assert batch.peer_loss(log_q=batch.log_q, **heat) == pytest.approx(batch.ours(log_q=batch.log_q, **heat), rel=1e-5)
    actual = batch.peer_loss(log_q=batch.log_q, remove_accidental_hits=True, **heat)
    assert actual == pytest.approx(batch.ours(log_q=batch.log_q, hits="mask", **heat), rel=1e-5)


def test_retrieval_of_tensorflow_recommenders_takes_rare_items_for_a_millionth() -> None:
    batch = Batch(3)
    rare = torch.where(batch.ids == batch.ids[0], math.log(1e-9), batch.log_q)
    clipped = rare.clamp_min(math.log(1e-6))
    actual = batch.peer_loss(log_q=rare)
    assert actual == pytest.approx(batch.ours(log_q=clipped), rel=1e-5)
    assert abs(actual - batch.ours(log_q=rare)) > 1


def test_hard_negatives_of_tensorflow_recommenders() -> None:
    """The k best-scored of the others alone: no law of theirs is known."""
    batch = Batch(3)
    others = batch.scores - torch.eye(12, 15) * 1e9
    wanted = functional.info_nce(batch.scores.diagonal(), others.topk(4).values, reduction="sum").item()
    assert batch.peer_loss(num_hard_negatives=4) == pytest.approx(wanted, rel=1e-5)


class Drawn:
    """Scores of 4 examples, and 30 draws by TensorFlow of 50 classes, among them hits, with TensorFlow's own counts."""

    CLASSES, DRAWS = 50, 30

    def __init__(self, tf: Any, unique: bool) -> None:
        generator = np.random.default_rng(0)
        shapes = (self.CLASSES, 3), (self.CLASSES,), (4, 3)  # in single precision, as its counts are
        self.weights, self.biases, self.inputs = (generator.normal(size=shape).astype("f") for shape in shapes)
        self.labels = np.array([[0], [1], [7], [40]])
        self.values = tf.random.log_uniform_candidate_sampler(
            self.labels, 1, self.DRAWS, unique=unique, range_max=self.CLASSES, seed=3
        )
        ids, label_count, drawn = (torch.from_numpy(value.numpy()) for value in self.values)
        self.ids, self.own_count, self.count = ids, label_count.flatten(), drawn
        scores = torch.from_numpy(self.inputs @ self.weights.T + self.biases)
        self.positive, self.negative = scores.gather(1, torch.from_numpy(self.labels)).flatten(), scores[:, ids]
        self.hits = ids == torch.from_numpy(self.labels)

    def corrected(self) -> tuple[Tensor, Tensor]:
        """Logits less the logarithm of the expected count, the positive's too."""
        return self.positive - self.own_count.log(), self.negative - self.count.log()

    def peer_loss(self, loss: Any, **options: Any) -> Tensor:
        actual = loss(
            self.weights, self.biases, self.labels, self.inputs, self.DRAWS, self.CLASSES,
            sampled_values=self.values, **options,
        )  # fmt: skip
        return torch.from_numpy(actual.numpy())


@pytest.mark.parametrize("unique", [False, True])
def test_sampled_softmax_of_tensorflow(unique: bool) -> None:
    tf = pytest.importorskip("tensorflow")
    drawn = Drawn(tf, unique)
    # Of a class that was drawn several times it finds the last draw alone: the others stay in the sum.
    ids = drawn.ids.tolist()
    last = torch.tensor([ids[i] not in ids[i + 1 :] for i in range(len(ids))])
    assert drawn.hits.any()
    assert unique == bool((drawn.hits <= last).all())
    for hits in (True, False):
        actual = drawn.peer_loss(tf.nn.sampled_softmax_loss, remove_accidental_hits=hits)
        wanted = functional.info_nce(*drawn.corrected(), hits=drawn.hits & last if hits else None, reduction="none")
        torch.testing.assert_close(actual, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("unique", [False, True])
def test_nce_of_tensorflow(unique: bool) -> None:
    tf = pytest.importorskip("tensorflow")
    drawn = Drawn(tf, unique)
    wanted = functional.binary_nce(*drawn.corrected(), reduction="none")
    torch.testing.assert_close(drawn.peer_loss(tf.nn.nce_loss), wanted, rtol=1e-5, atol=1e-5)  # hits stay: the default


def test_the_log_uniform_law_of_tensorflow() -> None:
    """With replacement its expected counts are m q; of distinct draws they are 1 - (1 - q)^tries for the tries made."""
    tf = pytest.importorskip("tensorflow")
    q = samplers.LogUniform(Drawn.CLASSES).log_prob(range(Drawn.CLASSES)).exp().float()
    drawn = Drawn(tf, unique=False)
    torch.testing.assert_close(drawn.count, Drawn.DRAWS * q[drawn.ids], rtol=1e-6, atol=0)
    drawn = Drawn(tf, unique=True)
    assert len(drawn.ids.unique()) == Drawn.DRAWS  # type: ignore[no-untyped-call]
    tries = torch.log1p(-drawn.count) / torch.log1p(-q[drawn.ids])
    rounded = tries.median().round()
    assert rounded >= Drawn.DRAWS
    torch.testing.assert_close(drawn.count, 1 - (1 - q[drawn.ids]) ** rounded, rtol=1e-5, atol=0)


def test_the_law_of_gensim() -> None:
    peer = pytest.importorskip("gensim.models")
    counts = {f"w{i}": 1000 // (i + 1) for i in range(40)}
    model = peer.Word2Vec(min_count=1, vector_size=2)  # ns_exponent stays 0.75
    model.build_vocab_from_freq(counts)
    share = np.diff(model.cum_table, prepend=0) / model.cum_table[-1]
    wanted = samplers.unigram([counts[word] for word in model.wv.index_to_key], 0.75).log_prob(range(40)).exp()
    assert share == pytest.approx(wanted.numpy(), abs=1e-8)  # its table holds 31 bits


def test_skip_gram_of_gensim() -> None:
    """Two words, of which all but one of 10^8 draws is "a": five negatives for "b", and for "a" none but hits.

    gensim reads log sigma from a table of 1,000 steps from -6 to 6, of which it takes 83 to a unit for 83 1/3.
    """

    def read(score: Tensor) -> Tensor:
        return ((score + 6) * 83).floor() * 12 / 1000 - 6

    peer = pytest.importorskip("gensim.models")
    model = peer.Word2Vec(
        vector_size=4, window=1, negative=5, sg=1, min_count=1, sample=0, workers=1, compute_loss=True, seed=1
    )
    model.build_vocab_from_freq({"a": 10**12, "b": 1})
    generator = np.random.default_rng(0)
    for table in (model.wv.vectors, model.syn1neg):
        table[:] = generator.normal(size=table.shape)
    inside, outside = (torch.from_numpy(table.astype(np.float64)) for table in (model.wv.vectors, model.syn1neg))
    scores = inside @ outside.T  # of context and word
    model.train([["a", "b"]], total_examples=1, epochs=1, start_alpha=1e-9, end_alpha=1e-9, compute_loss=True)
    a, b = model.wv.key_to_index["a"], model.wv.key_to_index["b"]
    hits = torch.tensor([[True] * 5, [False] * 5])  # the draws are "a", whatever the word
    positive, negative = read(scores[[b, a], [a, b]]), -read(-scores[[b, a], [a, a]]).unsqueeze(1).expand(2, 5)
    wanted = functional.binary_nce(positive, negative, hits=hits, reduction="sum").item()
    assert model.get_latest_training_loss() == pytest.approx(wanted, rel=1e-5)


def test_the_loss_of_recbole_with_one_negative() -> None:
    """The probability of the wrong order has 1e-10 added, so that the loss stays below 23."""
    peer = pytest.importorskip("recbole.model.loss")
    generator = torch.Generator().manual_seed(0)
    positive, negative = torch.randn(2, 20, generator=generator, dtype=torch.float64)
    wanted = functional.sampled_softmax(positive, negative.unsqueeze(1)).item()
    assert peer.BPRLoss()(positive, negative).item() == pytest.approx(wanted, rel=1e-8)


@pytest.mark.parametrize("alpha", [1.0, 0.75])
def test_the_law_of_recbole(alpha: float) -> None:
    """Its alias table, summed up: each column belongs to its item up to a threshold, and to another one above."""
    peer = pytest.importorskip("recbole.sampler.sampler")
    counts = [50, 20, 20, 7, 2, 1]

    class Items(peer.AbstractSampler):  # type: ignore[misc, name-defined]
        def _get_candidates_list(self) -> list[int]:
            return [item for item, count in enumerate(counts) for _ in range(count)]

        def get_used_ids(self) -> None:
            return None

    table = Items("popularity", alpha)
    law: Counter[int] = Counter()
    for item, threshold in table.prob.items():
        law[item] += min(threshold, 1)
        law[table.alias[item]] += 1 - min(threshold, 1)
    wanted = samplers.unigram(counts, alpha).log_prob(range(6)).exp()
    assert [law[item] / 6 for item in range(6)] == pytest.approx(wanted.tolist(), rel=1e-12)
