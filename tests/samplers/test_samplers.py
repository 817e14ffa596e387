"""Samplers: the law that is reported is the law that is drawn, exactly for tables and by counts for the rest.

Tests by counts compare N draws with their law by a chi-square statistic or a binomial share; each has a threshold at
which a right sampler fails with probability below 1e-7 (the seeds are fixed, so in fact it never does).
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from sumexp import _checks as checks
from sumexp import functional, samplers
from sumexp.samplers import Categorical, LogUniform, Mixture, Sampler, Uniform
from sumexp.samplers import _alias as alias
from sumexp.samplers._base import Law
from tests import calls
from tests.containers import CONTAINERS

FALSE_ALARM = 1e-7
UNITS = 1 << 62


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def double(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def follows(ids: Tensor, q: Tensor) -> bool:
    """Whether draws pass a chi-square test against q; classes are merged until 20 draws are expected of each group."""
    counts = torch.bincount(ids.flatten(), minlength=len(q)).double()
    assert counts[q == 0].sum() == 0
    order = q.argsort(descending=True)
    expected, observed = (q * ids.numel())[order], counts[order]
    group = torch.clamp(expected.flip(0).cumsum(0).flip(0) / 20, max=1e9).floor()  # tails below 20 share a group
    kept = int((expected >= 20).sum())
    parts = [(expected[i], observed[i]) for i in range(kept)]
    if kept < len(q) and group[kept] >= 1:
        parts.append((expected[kept:].sum(), observed[kept:].sum()))
    statistic = sum(((o - e) ** 2 / e).item() for e, o in parts)
    return bool(statistic < chi2.isf(FALSE_ALARM, len(parts)))


def law(sampler: Sampler) -> Tensor:
    return sampler.log_prob(torch.arange(sampler.classes)).exp()


def drawn_law(table: Tensor, classes: int) -> list[int]:
    """The units of each class in the table, in Python's integers."""
    columns = (len(table) - 1).bit_length()
    full = UNITS >> columns
    units = [0] * len(table)
    for column, word in enumerate(table.tolist()):
        threshold, other = word >> columns, word & (len(table) - 1)
        assert 0 <= threshold < full
        units[column] += threshold
        units[other] += full - threshold
    assert not any(units[classes:])
    return units[:classes]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.just(0.0), st.floats(1e-25, 1.0)), min_size=1, max_size=70).filter(lambda q: sum(q) > 0))
def test_the_table_draws_its_integers_exactly_and_they_are_the_nearest(weights: list[float]) -> None:
    q = checks.law("q", double(*weights) / sum(weights))
    units = alias.whole_units(q)
    assert sum(units.tolist()) == UNITS
    assert drawn_law(alias.build(units), len(q)) == units.tolist()
    errors = [abs(unit / Fraction(UNITS) - Fraction(p)) for unit, p in zip(units.tolist(), q.tolist(), strict=True)]
    assert [unit == 0 for unit in units.tolist()] == [p == 0 for p in q.tolist()]
    # One class, the largest, takes what rounding left over.
    assert sum(error > Fraction(1, UNITS) for error in errors) <= 1
    assert max(errors) < 1e-14


def test_every_unit_of_a_small_table_is_reached_by_its_bits() -> None:
    # Three classes in four columns: columns and thresholds on a grid of 2^-6, looked up for all 64 values of 6 bits.
    units = torch.tensor([5, 27, 32]) << 56
    table = alias.build(units)
    drawn = torch.arange(64) << 56
    alias.look_up(table, len(table), drawn)
    assert torch.bincount(drawn, minlength=3).tolist() == [5, 27, 32]


def test_a_class_of_the_least_probability_can_still_be_drawn() -> None:
    sampler = Categorical(double(1, 1e-300, 0))
    assert sampler.log_prob(torch.tensor([1])).item() == pytest.approx(-62 * math.log(2))
    assert sampler.log_prob(torch.tensor([2])).item() == -math.inf


SHARES = torch.cat([double(0), torch.softmax(3 * torch.randn(999, generator=seeded(), dtype=torch.float64), 0)])
every_sampler = pytest.mark.parametrize("make", [partial(f, SHARES) for f in calls.SAMPLERS.values()])


@every_sampler
def test_draws_follow_the_reported_law(make: Callable[[], Sampler]) -> None:
    sampler = make()
    q = law(sampler)
    assert q.sum().item() == pytest.approx(1, abs=1e-12)
    ids = sampler.sample((1000, 500), seeded(1))
    assert ids.shape == (1000, 500)
    assert ids.dtype == torch.int64
    assert follows(ids, q)


def test_the_chi_square_notices_a_class_that_is_never_drawn() -> None:
    # The last class of a sampler that draws N classes and reports N + 1 (a bug seen in the wild).
    assert not follows(LogUniform(99).sample((500_000,), seeded()), law(LogUniform(100)))


@pytest.mark.parametrize(
    "sampler, wanted",
    [
        # q_y = (log(y + 2) - log(y + 1)) / log(L + 1)
        (LogUniform(3, counts=[4, 2, 2]), [math.log(ratio) / math.log(4) for ratio in (2, 3 / 2, 4 / 3)]),
        *((make(1), [1]) for make in (Uniform, LogUniform, lambda classes: Categorical(torch.ones(classes)))),
        (samplers.unigram(torch.tensor([16, 0, 1]), 0.5), [4 / 5, 0, 1 / 5]),
        (samplers.unigram(double(1e300, 1e300), 2), [0.5, 0.5]),
        # No class that occurs is lost, however large the power.
        (samplers.unigram([1, 1000], 200), [2**-62, 1]),
        (samplers.unigram([1, 1000], -200), [1, 2**-62]),
        (Mixture([Categorical(double(1, 0)), Categorical(double(0.25, 0.75))], [0.5, 0.5]), [0.5 + 0.125, 0.375]),
    ],
)
def test_laws_by_hand(sampler: Sampler, wanted: list[float]) -> None:
    assert law(sampler).tolist() == pytest.approx(wanted, rel=1e-13, abs=0)
    assert follows(sampler.sample((1000,), seeded()), law(sampler))


@every_sampler
def test_the_same_seed_draws_the_same_and_no_global_state_is_used(make: Callable[[], Sampler]) -> None:
    sampler = make()
    torch.manual_seed(0)
    first = sampler.sample((50,), seeded(2))
    torch.manual_seed(1)
    assert torch.equal(first, sampler.sample((50,), seeded(2)))
    assert sampler.sample((0, 3), seeded()).shape == (0, 3)


LARGE = (1 << 24) + 3_000_000
"""More classes than torch.multinomial takes."""


@pytest.mark.parametrize(
    "make",
    [
        lambda: Uniform(LARGE),
        lambda: LogUniform(LARGE),
        lambda: samplers.unigram(1 / torch.arange(1, LARGE + 1, dtype=torch.float64), 1.0),
    ],
    ids=["uniform", "log-uniform", "zipf by table"],
)
def test_more_than_two_to_the_24_classes(make: Callable[[], Sampler]) -> None:
    sampler = make()
    draws = 2_000_000
    ids = sampler.sample((draws,), seeded(3))
    assert int(ids.min()) >= 0
    assert int(ids.max()) < LARGE
    for low, high in ((0, 1), (1, 1000), (1000, 1 << 20), (1 << 20, 1 << 23), (1 << 23, LARGE)):
        share = sampler.log_prob(torch.arange(low, high)).exp().sum().item()
        count = int(((ids >= low) & (ids < high)).sum())
        # 5.5 standard errors (and 6 for what is rare): a false alarm below 1e-7.
        assert abs(count - draws * share) < 5.5 * math.sqrt(draws * share * (1 - share)) + 6


def test_uniform_has_no_modulo_bias() -> None:
    # 2^32 / (3 2^26) = 21.33: reducing 32 bits favours the first third of the ids by 22 to 21.
    classes, draws = 3 << 26, 2_000_000
    below = int((Uniform(classes).sample((draws,), seeded()) < classes // 3).sum())
    assert abs(below - draws / 3) < 5.5 * math.sqrt(draws * (1 / 3) * (2 / 3))


def test_a_table_of_more_classes_than_it_has_room_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alias, "MOST", 3)
    assert len(alias.whole_units(double(0.5, 0.25, 0.25))) == 3
    with pytest.raises(ValueError, match="classes is 4"):
        Categorical(double(0.25, 0.25, 0.25, 0.25))


@every_sampler
def test_a_graph_draws_the_reported_law_from_whole_numbers(make: Callable[[], Sampler]) -> None:
    """Compilers make uniform numbers of 24 bits, by which most of 10^7 classes of LogUniform were never drawn."""
    called, sampler = set(), make()

    def backend(graph: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        called.update(node.target for node in graph.graph.nodes)
        return graph.forward

    ids = torch.compile(lambda: sampler.sample((100_000,)), backend=backend, fullgraph=True)()
    assert torch.randint in called
    assert torch.rand not in called
    assert follows(ids, law(sampler))


def test_numbers_of_a_graph_stay_below_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    monkeypatch.setattr(alias, "bits", lambda *_: torch.tensor([0, UNITS - 1]))  # as a double the second is 2^62
    assert alias.uniform(2, None, torch.device("cpu")).tolist() == [0, 1 - 2**-53]


def test_a_mixture_is_drawn_under_vmap() -> None:
    """First one of two laws that have no class in common, then a class: 100 draws of 50 at once see all four."""
    mixture = Mixture([Categorical(double(0.5, 0.5, 0, 0)), Categorical(double(0, 0, 0.5, 0.5))], [0.25, 0.75])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        drawn = torch.func.vmap(lambda _: mixture.sample(50), randomness="different")(torch.zeros(100))
    assert drawn.shape == (100, 50)
    assert follows(drawn, double(0.125, 0.125, 0.375, 0.375))


Q = (0.5, 0.3, 0.2)


@pytest.mark.parametrize("rule", ["mask", "keep"])
@pytest.mark.parametrize("shared", [False, True])
def test_hits_are_marked_or_negatives_like_all_others_and_the_law_is_as_it_was(rule: Any, shared: bool) -> None:
    labels = torch.tensor([0, 1, 2, 0])
    drawn = samplers.draw(Categorical(double(*Q)), labels, 1000, hits=rule, shared=shared, generator=seeded())
    assert drawn.ids.shape == drawn.log_q.shape == ((1000,) if shared else (4, 1000))
    equal = drawn.ids == labels.unsqueeze(-1)
    assert equal.any()
    assert torch.equal(drawn.hits, equal & (rule == "mask"))
    assert torch.allclose(drawn.log_q, double(*Q).log()[drawn.ids])
    assert follows(drawn.ids, double(*Q))


@pytest.mark.parametrize("rule", ["mask", "redraw", "keep"])
def test_the_rule_for_hits_decides_the_expected_loss(rule: samplers.Hits) -> None:
    """All draws, with importance weights: the mean of the sampled sum is S, or 1 + S if the positive is kept in it."""
    q, logits, label = double(*Q), double(1.0, 0.5, -0.3), 0
    S = math.exp(0.5 - 1) + math.exp(-0.3 - 1)
    mean = 0.0
    for ids in product(range(3), repeat=2):
        if rule == "redraw" and label in ids:
            continue
        probability = math.prod((Q[i] / 0.5 if rule == "redraw" else Q[i]) for i in ids)
        drawn = torch.tensor([ids])
        log_q = q.log()[drawn] - (math.log(0.5) if rule == "redraw" else 0)
        hits = (drawn == label) if rule == "mask" else torch.zeros(1, 2, dtype=torch.bool)
        loss = functional.sampled_softmax(logits[:1], logits[drawn], log_q=log_q, correct="importance", hits=hits)
        mean += probability * math.expm1(loss.item())
    assert mean == pytest.approx(1 + S if rule == "keep" else S, rel=1e-13)


@pytest.mark.parametrize("q", [0.05, 0.3, 0.5, 0.9, 0.99, 0.9999, 1 - 1e-12])
def test_negatives_that_are_drawn_again_cost_the_same_whatever_the_label_s_probability(
    q: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most 1 / (1 - 1/8) draws each, up to chance; the law is q over the others, by counts and by the numbers."""
    rest, draws, bits = (1 - q) * double(0.5, 0.25, 0.125, 0.125), [], alias.bits
    monkeypatch.setattr(alias, "bits", lambda shape, *rest: draws.append(math.prod(shape)) or bits(shape, *rest))
    law, labels = Categorical(torch.cat([double(q), rest])), torch.tensor([0, 0, 1] * 100)
    drawn = samplers.draw(law, labels, 1000, hits="redraw", generator=seeded())
    assert drawn.ids.numel() <= sum(draws) < 1.15 * drawn.ids.numel()
    wanted = torch.cat([double(0), double(0.5, 0.25, 0.125, 0.125)])
    assert follows(drawn.ids[labels == 0], wanted)
    other = torch.cat([double(q, 0), rest[1:]]) / (1 - rest[0])
    assert follows(drawn.ids[labels == 1], other)
    assert torch.allclose(
        drawn.log_q[labels == 0].exp(), wanted[drawn.ids[labels == 0]], rtol=1e-3 if q > 0.9999 else 1e-9
    )
    assert torch.allclose(drawn.log_q[labels == 1].exp(), other[drawn.ids[labels == 1]], rtol=1e-9)


def test_each_label_of_a_batch_draws_exactly_the_law_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """All 64 values of 6 random bits, of laws on that grid; of the tables the integers."""
    q = (32, 16, 16, 0)
    law, labels, every = Categorical(double(*q) / 64), torch.tensor([3, 0, 0]), torch.arange(64) << 56
    monkeypatch.setattr(alias, "bits", lambda shape, *_: every.expand(shape).clone())
    drawn = samplers.draw(law, labels, 64, hits="redraw")
    for label, ids, log_q in zip(labels.tolist(), drawn.ids, drawn.log_q, strict=True):
        others = [0 if y == label else 64 * units // (64 - q[label]) for y, units in enumerate(q)]
        assert ids.bincount(minlength=4).tolist() == others
        assert log_q.exp().tolist() == pytest.approx([others[y] / 64 for y in ids.tolist()], rel=1e-15)
    beside = samplers.draw(law, labels, 64, exclude=[[3, -1, -1], [2, 0, 0], [1, 2, 3]])
    for left, ids, log_q in zip(([32, 16, 16], [0, 16], [32]), beside.ids, beside.log_q, strict=True):
        shares = [64 * each // sum(left) for each in left]
        assert ids.bincount(minlength=len(left)).tolist() == shares
        assert log_q.exp().tolist() == pytest.approx([shares[y] / 64 for y in ids.tolist()], rel=1e-15)
    tables = law.others["tables"]
    for label in range(3):
        start = int(tables.start[label])
        units = drawn_law(tables.words[start : start + 4], 4)
        others = [0 if y == label else each / (64 - q[label]) for y, each in enumerate(q)]
        assert [each / UNITS for each in units] == pytest.approx(others, rel=1e-15)
        assert tables.log_q[start : start + 4].exp().tolist() == pytest.approx(others, rel=1e-15)


class Operations(TorchDispatchMode):
    """Counts what torch does: time that the load of a machine does not change."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("shares", [[0.5], [0.9], [0.9999], [0.24] * 4])
@pytest.mark.parametrize("labels", [[0], [0, 1] * 16, [0, 1, 2] * 11])
@pytest.mark.parametrize("mixed", [False, True])
def test_redrawing_a_frequent_label_takes_twice_the_operations_of_keeping_it(
    shares: list[float], labels: list[int], mixed: bool
) -> None:
    law: Law = Categorical(torch.cat([double(*shares), (1 - sum(shares)) / 1000 * torch.ones(1000)]))
    law, counts = Mixture([law, Uniform(law.classes)], [0.99, 0.01]) if mixed else law, []
    for rule in ("redraw", "redraw", "keep"):  # the first builds tables
        with Operations() as operations:
            samplers.draw(law, labels, 5, hits=rule, generator=seeded())  # type: ignore[arg-type]
        counts.append(operations.count)
    assert counts[1] <= 2 * counts[2]


def test_histories_of_most_classes_take_no_more_operations_than_those_of_few() -> None:
    """Each of 4 or 64 examples has had other classes, of 3/10 or of 9/10 of the law."""
    law, counts = Categorical(torch.full((20,), 0.05, dtype=torch.float64)), []
    for size, had in ((4, 6), (4, 6), (4, 18), (64, 18)):  # the first builds the line of classes
        exclude = torch.stack([torch.randperm(20, generator=seeded(each))[:had] for each in range(size)])
        with Operations() as operations:
            samplers.draw(law, [0] * size, 5, exclude=exclude, generator=seeded())
        counts.append(operations.count)
    assert counts[0] > counts[1] == counts[2] == counts[3]


@pytest.mark.parametrize("rule", [{"hits": "redraw"}, {"exclude": [[0]] * 8}])
def test_laws_and_mixtures_draw_again_by_the_law_that_they_have_now(rule: dict[str, Any]) -> None:
    part = samplers.unigram([6.0, 1, 1], 1)
    laws, labels = (part, Mixture([part, Uniform(3)], [0.9, 0.1])), [0] * 8
    for law in laws:
        samplers.draw(law, labels, 4, generator=seeded(), **rule)
    part.load_state_dict(samplers.unigram([6.0, 1, 3], 1).state_dict())
    for law in laws:
        drawn, q = samplers.draw(law, labels, 4, generator=seeded(), **rule), law.log_prob(range(3)).exp()
        torch.testing.assert_close(drawn.log_q.exp(), q[drawn.ids] / (1 - q[0]))


def test_laws_without_a_label_stay_on_no_device_that_is_left() -> None:
    law = Uniform(3)
    samplers.draw(law, [0], 2, hits="redraw", generator=seeded())
    assert law.others
    assert not law.to("meta").others
    assert Mixture([law, law], [0.5, 0.5]).device.type == "meta"


def test_shares_may_be_as_far_off_as_their_precision_explains() -> None:
    law = Mixture([Uniform(3)] * 3, torch.full((3,), 1 / 3, dtype=torch.float16))  # type: ignore[arg-type]
    assert law.proportions.sum().item() == pytest.approx(1, abs=1e-15)


class Theirs:
    """A law as users write it: no module, and torch.multinomial refuses to draw nothing."""

    def __init__(self, q: Tensor) -> None:
        self.q, self.classes = q, len(q)

    def log_prob(self, ids: Tensor) -> Tensor:
        even = (self.q == self.q[0]).all()
        return self.q[0].log().float().expand(ids.shape) if even else self.q.log()[ids]

    def sample(self, shape: Sequence[int], generator: torch.Generator | None = None) -> Tensor:
        return torch.multinomial(self.q, math.prod(shape), replacement=True, generator=generator).view(*shape)


@pytest.mark.parametrize(
    "make",
    [Categorical, Theirs, lambda q: Mixture([Categorical(q), Theirs(q)], [1 - 1e-9, 1e-9])],
    ids=["table", "a user's", "mixture of both"],
)
@settings(max_examples=40, deadline=None)
@given(data=st.data(), rule=st.sampled_from(["keep", "mask", "redraw"]), even=st.booleans())
def test_excluded_classes_are_never_drawn_and_log_q_is_that_of_the_others(
    make: Callable[[Tensor], Sampler], data: st.DataObject, rule: Any, even: bool
) -> None:
    q = torch.full((6,), 1 / 6, dtype=torch.float64) if even else double(0.4, 0.3, 0.1, 0.1, 0.05, 0.05)
    sampler = make(q)
    exclude = data.draw(st.lists(st.lists(st.integers(-1, 4), min_size=3, max_size=3), min_size=4, max_size=4))
    labels = data.draw(st.lists(st.integers(0, 4), min_size=4, max_size=4))
    drawn = samplers.draw(sampler, labels, 200, hits=rule, exclude=exclude, generator=seeded())
    for row, label, ids, log_q, hits in zip(exclude, labels, drawn.ids, drawn.log_q, drawn.hits, strict=True):
        left = q.clone()
        left[[y for y in [*row, *([label] if rule == "redraw" else [])] if y >= 0]] = 0
        assert (left[ids] > 0).all()
        assert log_q.dtype == torch.float64
        assert torch.allclose(log_q.exp(), left[ids] / left.sum(), rtol=1e-6 if even else 1e-12)
        assert torch.equal(hits, ids == label) if rule == "mask" else not hits.any()
    shared = samplers.draw(sampler, labels, 50, exclude=exclude, shared=True, generator=seeded())
    assert shared.hits.tolist() == [[y in row for y in shared.ids.tolist()] for row in exclude]
    assert torch.allclose(shared.log_q.exp(), q[shared.ids])


def test_with_a_history_the_truth_is_the_minimum_if_the_label_s_log_q_is_shifted_too() -> None:
    """Class 0 is excluded: the mean loss over all labels and single negatives of the three left."""
    law, truth, left = Categorical(double(0.4, 0.3, 0.2, 0.1)), double(0.2, 0.3, 0.5), double(3, 2, 1) / 6
    label, negative = torch.cartesian_prod(torch.arange(3), torch.arange(3)).T
    drawn = samplers.draw(law, label + 1, 1, exclude=[[0]] * 9)
    shift = (drawn.log_q - law.log_prob(drawn.ids))[:, 0]
    f, log_q = truth.log().requires_grad_(), law.log_prob(torch.arange(1, 4))
    for own, least, most in ((shift, 0, 1e-15), (0, 0.01, 1)):
        margin = f[negative] - log_q[negative] - shift - (f[label] - log_q[label] - own)
        (slope,) = torch.autograd.grad((truth[label] * left[negative]) @ margin.exp().log1p(), f)
        assert least <= slope.abs().max() < most


@pytest.mark.parametrize("options", [{}, {"hits": "redraw"}, {"exclude": [[0, 1], [2, -1]]}, {"shared": True}])
def test_sequences_are_drawn_as_their_places(options: dict[str, Any]) -> None:
    """[B, T] labels as B T of them; a history of each sequence serves all of its places."""
    labels = torch.tensor([[3, 4, 0], [1, 1, 2]])
    flat = dict(options)
    if "exclude" in options:
        flat["exclude"] = torch.tensor(options["exclude"]).repeat_interleave(3, 0)
    negatives = samplers.draw(Uniform(6), labels, 5, generator=seeded(), **options)
    wanted = samplers.draw(Uniform(6), labels.flatten(), 5, generator=seeded(), **flat)
    assert negatives.hits.shape == (2, 3, 5)
    for actual, expected in zip(negatives, wanted, strict=True):
        assert torch.equal(actual.flatten(), expected.flatten())
    assert negatives.ids.shape == ((5,) if "shared" in options else (2, 3, 5))


def test_draws_without_the_excluded_classes_follow_their_law() -> None:
    """Rare and frequent histories, by counts: one is drawn again, of the other a table is made."""
    q = double(0.4, 0.3, 0.1, 0.1, 0.05, 0.05)
    for row in ([2, -1], [0, 1], [0, 0]):
        drawn = samplers.draw(Categorical(q), [5] * 100, 2000, exclude=[row] * 100, generator=seeded())
        left = q.clone()
        left[[y for y in row if y >= 0]] = 0
        assert follows(drawn.ids, left / left.sum())


MARKS = np.array([[True, False, True, False, False], [False] * 5, [False, True, False, False, True]])
HISTORIES: dict[str, Callable[[np.ndarray], Any]] = {
    **CONTAINERS,
    "int32": lambda m: torch.tensor([[2, 0], [-1, -1], [1, 4]], dtype=torch.int32),
    "any padding": lambda m: np.array([[0, 2, 2, -7], [-1, -7, -1, -1], [4, 1, -1, -1]]),
    "marks": torch.from_numpy,
    "array of marks": lambda m: m,
    "lists of marks": np.ndarray.tolist,
}


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("container", HISTORIES)
def test_a_history_is_the_same_in_every_container(container: str) -> None:
    drawn = samplers.draw(Uniform(5), [3, 3, 3], 50, exclude=HISTORIES[container](MARKS), generator=seeded())
    assert [set(row) for row in drawn.ids.tolist()] == [{1, 3, 4}, {0, 1, 2, 3, 4}, {0, 2, 3}]
    assert drawn.log_q.exp()[:, 0].tolist() == pytest.approx([1 / 3, 1 / 5, 1 / 3])


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
def test_nothing_is_excluded_in_every_container() -> None:
    kept = samplers.draw(Uniform(5), [3, 3, 3], 50, generator=seeded())
    none, padding = np.zeros((3, 5), bool), torch.full((3, 5), -1)
    for nothing in ([[], [], []], padding, padding[:, :0], *(make(none) for make in CONTAINERS.values())):
        negatives = samplers.draw(Uniform(5), [3, 3, 3], 50, exclude=nothing, generator=seeded())
        assert torch.equal(negatives.ids, kept.ids)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype stage")
def test_a_history_for_each_place_of_a_sequence() -> None:
    """Lists of unequal length, sets, tensors, nested ones, and tensors [B, T, H]."""
    labels, lists = [[3, 4], [3, 0]], [[[0, 1], []], [[2], [1, 2, 4]]]
    padded = torch.tensor([[[0, 1, -1], [-1, -1, -1]], [[2, -1, -1], [1, 2, 4]]])
    kinds: tuple[Any, ...] = set, frozenset, np.array, torch.LongTensor
    made = [[[kind(row) for row in rows] for rows in lists] for kind in kinds]
    for layout in (torch.strided, torch.jagged):
        made.append([torch.nested.nested_tensor(rows, layout=layout) for rows in made[3]])
    for exclude in (padded, lists, *made):
        drawn = samplers.draw(Uniform(5), labels, 50, exclude=exclude, generator=seeded()).ids
        assert [set(row) for row in drawn.flatten(0, 1).tolist()] == [{2, 3, 4}, {*range(5)}, {0, 1, 3, 4}, {0, 3}]


@pytest.mark.parametrize("power", [0, -0.5, -2, 0.75, 3])
def test_a_power_of_any_sign(power: float) -> None:
    counts = [8, 0, 2, 4]
    wanted = double(*(n**power if n else 0 for n in counts))
    assert law(samplers.unigram(counts, power)).tolist() == pytest.approx((wanted / wanted.sum()).tolist(), rel=1e-12)


def test_the_multiset_within_a_batch_is_the_other_labels() -> None:
    labels, log_prior = torch.tensor([2, 0, 2, 1]), double(*Q).log()
    drawn = samplers.within_batch(labels, log_prior, hits="mask")
    assert drawn.ids.tolist() == [[0, 2, 1], [2, 2, 1], [2, 0, 1], [2, 0, 2]]
    assert drawn.hits.tolist() == [[False, True, False], [False] * 3, [True, False, False], [False] * 3]
    assert not samplers.within_batch(labels, log_prior).hits.any()
    assert torch.equal(drawn.log_q, log_prior[drawn.ids])


@pytest.mark.parametrize("correct", ["all", "importance", "none"])
def test_the_shared_multiset_is_the_same_with_the_own_column_among_the_hits(correct: Any) -> None:
    labels, log_prior = torch.tensor([2, 0, 2, 1]), double(*Q).log()
    left_out = {
        "keep": [[i == j for j in range(4)] for i in range(4)],
        "mask": [[y == label for y in (2, 0, 2, 1)] for label in (2, 0, 2, 1)],
    }
    for hits, wanted_hits in left_out.items():
        drawn = samplers.within_batch(labels, log_prior, hits=hits, shared=True)  # type: ignore[arg-type]
        matrix = samplers.within_batch(labels, log_prior, hits=hits)  # type: ignore[arg-type]
        assert drawn.ids.tolist() == [2, 0, 2, 1]
        assert drawn.hits.tolist() == wanted_hits
        # m q is the expected count: 4 columns of 3/4 pi as 3 draws of pi.
        assert (4 * drawn.log_q.exp()).tolist() == pytest.approx([3 * Q[y] for y in (2, 0, 2, 1)])
        scores = torch.randn(4, 4, generator=seeded(), dtype=torch.float64)
        forms = (drawn, scores, drawn.log_q), (matrix, samplers.off_diagonal(scores), log_prior[labels])
        wide, narrow = (
            functional.sampled_softmax(
                scores.diagonal(), f, log_q=form.log_q, positive_log_q=law, correct=correct, hits=form.hits
            )
            for form, f, law in forms
        )
        assert wide.item() == pytest.approx(narrow.item(), rel=1e-14)


def test_with_the_log_q_of_the_own_column_two_examples_teach_the_truth() -> None:
    """All batches of two examples of two contexts: the slope of the mean loss, which is convex, is 0 at log P."""
    truth, total = double(0.9, 0.1, 0.4, 0.6).view(2, 2), torch.zeros(2, dtype=torch.float64)
    f, prior = truth.log().requires_grad_(), truth.mean(0).log()
    for x, y in product(torch.cartesian_prod(*[torch.arange(2)] * 2), repeat=2):
        drawn, scores = samplers.within_batch(y, prior, shared=True), f[x][:, y]
        law: dict[str, Any] = {"log_q": drawn.log_q, "hits": drawn.hits}
        for i, label_log_q in enumerate((drawn.log_q, prior[y])):
            loss = functional.sampled_softmax(scores.diagonal(), scores, positive_log_q=label_log_q, **law)
            total[i] += (truth[x, y] / 2).prod() * loss
    slopes = [torch.autograd.grad(each, f, retain_graph=True)[0].abs().max().item() for each in total]
    assert slopes[0] < 1e-15
    assert slopes[1] > 0.02  # log_prior[labels] belongs to the matrices


def test_the_union_within_a_batch_has_each_class_once_with_its_inclusion_probability() -> None:
    labels, log_prior = torch.tensor([2, 0, 2, 1]), double(*Q).log()
    drawn = samplers.within_batch(labels[:3], log_prior, union=True, hits="mask")
    assert drawn.ids.tolist() == [0, 2]
    # m q is the expected count: of 2 other labels, 1 - (1 - pi)^2
    assert (2 * drawn.log_q.exp()).tolist() == pytest.approx([1 - 0.5**2, 1 - 0.8**2])
    assert drawn.hits.tolist() == [[False, True], [True, False], [False, True]]
    # Kept, class 2 of the first and third example is there by the other one's label; class 0 by its own alone.
    kept = samplers.within_batch(labels[:3], log_prior, union=True)
    assert kept.hits.tolist() == [[False, False], [True, False], [False, False]]


def test_inclusion_probabilities_keep_their_digits() -> None:
    q = double(1e-18, 0.3, 1.0)
    expected = [5e-18, 1 - 0.7**5, 1]
    assert samplers.log_inclusion(q.log(), 5).exp().tolist() == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("union", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_a_label_that_the_prior_excludes_is_refused(union: bool, shared: bool) -> None:
    # Its correction would be infinite, and the gradients of the loss NaN.
    log_prior = double(0.5, 0.5, 0).log()
    with pytest.raises(ValueError, match="log_prior is -inf for label 2, which is in the batch"):
        samplers.within_batch(torch.tensor([0, 1, 2]), log_prior, union=union, shared=shared)
    for prior in (log_prior[:, None], log_prior[0]):
        with pytest.raises(ValueError, match=r"log_prior has shape \(.*\); it must be \[L\]"):
            samplers.within_batch(torch.tensor([0, 1, 1]), prior, union=union, shared=shared)
    assert samplers.within_batch(torch.tensor([0, 1, 1]), log_prior, union=union, shared=shared).log_q.isfinite().all()


def test_the_model_s_own_negatives_give_the_full_loss_for_every_draw() -> None:
    logits = torch.randn(5, 40, generator=seeded(4), dtype=torch.float64)
    labels = torch.arange(5)
    drawn = samplers.model_based(logits, labels, 3, hits="redraw", generator=seeded())
    positive = logits.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    sampled = functional.sampled_softmax(
        positive, logits.gather(-1, drawn.ids), log_q=drawn.log_q, correct="importance", reduction="none"
    )
    assert torch.allclose(sampled, functional.cross_entropy(logits, labels, reduction="none"), rtol=1e-13)


def test_the_model_s_own_negatives_kept_have_the_full_gradient_on_average() -> None:
    # log q off all logits leaves equal ones: the gradient is the mean over the draws of e_j - e_y by m + 1, and so
    # m / (m + 1) of the full softmax's, by all draws.
    f, label, m = double(1.0, 0.5, -0.3), 0, 2
    q = torch.softmax(f, 0)
    mean = torch.zeros(3, dtype=torch.float64)
    for ids in product(range(3), repeat=m):
        leaf, drawn = f.clone().requires_grad_(), torch.tensor([ids])
        loss = functional.sampled_softmax(
            leaf[label].view(1), leaf[drawn], log_q=q.log()[drawn], positive_log_q=q.log()[label].view(1)
        )
        assert loss.item() == pytest.approx(math.log(1 + m))
        mean += q[drawn].prod() * torch.autograd.grad(loss, leaf)[0]
    full = q - double(1, 0, 0)
    assert mean.tolist() == pytest.approx((m / (m + 1) * full).tolist(), rel=1e-13)


@pytest.mark.parametrize("rule", ["keep", "mask", "redraw"])
def test_the_model_s_negatives_follow_its_softmax(rule: samplers.Hits) -> None:
    logits = torch.cat([torch.randn(60, generator=seeded(5), dtype=torch.float64), double(-math.inf)])
    labels = torch.full((200,), 7)
    options: dict[str, Any] = {} if rule == "keep" else {"hits": rule}
    drawn = samplers.model_based(logits.expand(200, -1), labels, 2000, generator=seeded(), **options)
    scores = logits.clone()
    if rule == "redraw":
        scores[7] = -math.inf
    q = torch.softmax(scores, 0)
    assert follows(drawn.ids, q)
    assert torch.allclose(drawn.log_q, q.log()[drawn.ids])
    assert torch.equal(drawn.hits, (drawn.ids == 7) & (rule == "mask"))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_weights_of_half_precision_are_summed_in_single(dtype: torch.dtype) -> None:
    """q = e^-12 has the weight 162,755, which float16 does not hold."""
    log_q, label_log_q = torch.tensor([-12.0, -9.0], dtype=dtype), torch.tensor(-1.0, dtype=dtype)
    for weights in (
        lambda q, y: samplers.importance(q, 3),
        samplers.relative,
        lambda q, y: samplers.tail(q, 3, q + 1, y),
        lambda q, y: samplers.constant(q, 3),
        lambda q, y: functional.logit_adjusted(y, q),
        lambda q, y: functional.adaptive(q),
    ):
        actual = weights(log_q, label_log_q)
        assert actual.dtype == torch.float32
        torch.testing.assert_close(actual, weights(log_q.double(), label_log_q.double()).float())


def test_weights_of_table_1_by_hand() -> None:
    log_q, log_prior = double(0.25, 0.5).log(), double(0.1, 0.6).log()
    assert samplers.constant(log_q, 4).tolist() == [1 / 4, 1 / 4]
    assert samplers.importance(log_q, 4).tolist() == pytest.approx([1 / (4 * 0.25), 1 / (4 * 0.5)])
    assert samplers.relative(log_q, double(0.2).log()).tolist() == pytest.approx([0.2 / 0.25, 0.2 / 0.5])
    tail = samplers.tail(log_q, 4, log_prior, double(0.3).log())
    assert tail.tolist() == pytest.approx([0.1 / (4 * 0.25 * 0.3), 0.6 / (4 * 0.5 * 0.3)])


def drawn(labels: Any, m: int = 2, **options: Any) -> samplers.Negatives:
    return samplers.draw(Uniform(3), labels, m, **options)


def modelled(logits: Any, labels: Any) -> samplers.Negatives:
    return samplers.model_based(logits, labels, 2, hits="redraw")


WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: Categorical(double(0.5, 0.4)), "q sums to 0.9, not 1"),
    (lambda: Categorical(double(1.5, -0.5)), "got -0.5 at 1"),
    (lambda: Categorical(double(math.nan, 1)), "got nan at 0"),
    (lambda: Categorical(double(math.inf, 1)), "got inf at 0"),
    (lambda: Categorical(torch.empty(0)), r"q has shape \(0,\); it must be \[L\]"),
    (lambda: samplers.unigram([[1, 2]]), r"counts has shape \(1, 2\); it must be \[L\]"),
    (lambda: Uniform(0), "classes is 0"),
    (lambda: LogUniform(3, counts=[3, math.nan, 1]), "class 1 occurs nan times"),
    (lambda: LogUniform(3, counts=[8, 2, 9]), r"class 2 occurs 9 times and class 1, before it, 2: .*samplers\.unigram"),
    (lambda: LogUniform(5, counts=[1]), "one for each of 5 classes"),
    (lambda: LogUniform(2.5), "classes is 2.5"),  # type: ignore[arg-type]
    (lambda: samplers.unigram(double(1, -1)), "got -1.0 at 1"),
    (lambda: samplers.unigram(double(0, 0)), "all counts are 0"),
    (lambda: samplers.unigram(double(1, 2), math.nan), "power is nan"),
    (lambda: Mixture([Uniform(2), Uniform(3)], [0.5, 0.5]), r"\[2, 3\]"),
    (lambda: Mixture([Uniform(2)], [0.5, 0.5]), "1 laws and 2 proportions"),
    (lambda: Mixture([Uniform(2), Uniform(2)], [0.5, 0.6]), "proportions sums to 1.1"),
    (lambda: drawn([0, 3]), "a label is 3; the 3 classes are 0..2"),
    (lambda: drawn([-1]), "a label is -1"),
    (lambda: drawn(torch.zeros(0, dtype=torch.int64)), "labels must be integers"),
    (lambda: drawn([0], 0), "num_negatives is 0"),
    (lambda: drawn([0], hits="drop"), "hits is 'drop'"),
    (lambda: drawn([0], hits="redraw", shared=True), "shared negatives cannot be redrawn"),
    (lambda: samplers.draw(Categorical(double(0, 1)), [1], 2, hits="redraw"), "label 1 has probability 1 under q"),
    (lambda: drawn([1], exclude=[[0, 1, 2]]), "hold all classes of q"),
    (lambda: drawn([0], exclude=[[0], [1]]), r"exclude has shape \(2, 1\); it must be \[1, H\], padded by -1"),
    (lambda: drawn([[0, 1]], exclude=[[0], [1]]), r"exclude has shape \(2, 1\); it must be \[1, 2, H\]"),
    (lambda: drawn([0], exclude=[[7]]), "an excluded id is 7; the 3 classes are 0..2"),
    (lambda: drawn([0], exclude=[[0.5]]), "excluded ids are torch.float64; they must be integers"),
    (lambda: drawn([0], exclude=[["a"]]), r"exclude must be lists of numbers, one list for each row, got \[\['a'\]\]"),
    (lambda: drawn([0], exclude=[[[1], [2, 0]]]), "exclude must be lists of numbers"),
    (lambda: drawn([[0, 1]], exclude=[[[1], [2], []]]), r"exclude has \[3\] lists .*; it must have 2 in each of 1"),
    (lambda: drawn([0], exclude={0}), "exclude is a set, which has no order"),
    (lambda: drawn([0], exclude=scipy.sparse.csr_array((1, 4))), r"sparse of shape \(1, 4\); it must be \[1, 3\]"),
    (lambda: drawn([0], exclude=[[0, 1, 1]]), "holds 0 and 1 for each of 3 .* for classes one more column of -1"),
    (lambda: samplers.off_diagonal(torch.zeros(1, 1)), "a square of at least 2 x 2"),
    (lambda: samplers.within_batch([0], double(*Q).log()), "a batch of 1 has no other labels"),
    (
        lambda: samplers.within_batch([1, 0], double(2e-7, 1e-7)),
        "log_prior is 1e-07 for label 1.* must hold logarithms",
    ),
    (lambda: modelled(torch.zeros(2, 3), [0]), r"must be \[B, L\] and \[B\]"),
    (lambda: modelled(torch.tensor([[math.nan, 0.0]]), [0]), "NaN or \\+inf"),
    (lambda: modelled(torch.tensor([[0.0, -math.inf]]), [0]), "no class left"),
    (lambda: modelled(torch.zeros(1, 3), [5]), "a label is 5"),
    (lambda: samplers.distinct(Uniform(5), [0], 0), "num_negatives is 0"),
    (lambda: samplers.distinct(Uniform(5), [5], 1), "a label is 5"),
    (lambda: samplers.distinct(Uniform(5), [0], 4), "5 classes can be drawn, but .* need m \\+ 2 = 6"),
    (lambda: samplers.distinct(Categorical(double(0.5, 0.5, 0)), [0], 1), "2 classes can be drawn"),
    (lambda: samplers.distinct(Categorical(double(0, 0.25, 0.25, 0.25, 0.25)), [1, 0], 2), "label 0 has probability 0"),
    (lambda: samplers.relative(double(0.25, 0.5).log(), double(0).log()), "label that is never drawn has relative wei"),
]


@pytest.mark.parametrize("call, message", WRONG)
def test_one_clear_error(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_draws_follow_the_same_laws() -> None:
    q = torch.softmax(torch.randn(1000, generator=seeded(), dtype=torch.float64), 0)
    generator = torch.Generator("cuda").manual_seed(0)
    for sampler in (Categorical(q.cuda()), Uniform(1000, "cuda"), LogUniform(1000, "cuda")):
        ids = sampler.sample((1000, 500), generator)
        assert ids.device.type == "cuda"
        assert follows(ids.cpu(), sampler.log_prob(torch.arange(1000, device="cuda")).exp().cpu())
    assert torch.equal(Categorical(q.cuda()).table.cpu(), Categorical(q).table)
