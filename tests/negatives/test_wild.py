"""The faults of samplers in use: each exists, and its exact measure is right."""

from fractions import Fraction
from math import log, sqrt

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sumexp.negatives import consistency, wild
from sumexp.samplers import LogUniform
from tests.exact import log_of, union


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_last_class_is_never_drawn() -> None:
    drawn, believed = wild.one_class_short(5)
    assert drawn.exp().sum().item() == pytest.approx(1)
    assert believed.exp().tolist() == pytest.approx(LogUniform(5).log_prob(torch.arange(5)).exp().tolist())
    u = torch.linspace(0, 1 - 1e-9, 100_001, dtype=torch.float64)
    ids = (u * log(5)).exp().floor().long() - 1
    assert ids.max() == 3  # N - 2
    shares = ids.bincount(minlength=5) / len(ids)
    assert shares.tolist() == pytest.approx(drawn.exp().tolist(), abs=1e-4)


def test_the_other_classes_are_right_and_the_last_has_no_bound() -> None:
    """Relative weights by the believed law: a common factor cancels, and nothing holds the last score down."""
    drawn, believed = wild.one_class_short(4)
    weights = consistency.factors("relative", believed, 3)
    risk = consistency.multiset_losses(drawn, 3, weights, "keep")
    p = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
    far = p.log() + torch.tensor([0.0, 0.0, 0.0, 40.0], dtype=torch.float64)
    far.requires_grad_()
    (slope,) = torch.autograd.grad(p @ risk(far), far)
    assert slope.abs().max() < 1e-13  # flat in the limit: f_last at infinity, the others at log p


def test_adding_a_tiny_number_changes_no_logit() -> None:
    logits = torch.randn(3, 4, generator=generator())
    hits = torch.tensor([[True, False, False, True]] * 3)
    got = wild.add_tiny(logits, hits)
    assert torch.equal(got, logits)
    tiny = torch.finfo(torch.float32).tiny / 100
    assert torch.equal(got, torch.where(hits, logits + tiny, logits))  # what the test of it asked for


@given(st.lists(st.integers(0, 9), min_size=2, max_size=4).filter(any), st.integers(1, 5), st.integers(1, 3))
@example([10**17, 1, 10**5], 4, 2)
@settings(deadline=None, max_examples=40)
def test_inclusion_of_a_sorted_slice_by_enumeration(counts: list[int], tries: int, kept: int) -> None:
    q = [Fraction(n, sum(counts)) for n in counts]
    expected = [Fraction(0)] * len(q)
    for drawn, p in union(q, tries).items():
        for y in drawn[:kept]:
            expected[y] += p
    got = wild.slice_inclusion(log_of(q), tries, kept)
    assert got.tolist() == pytest.approx([float(x) for x in expected], rel=1e-12, abs=0)


def test_a_word_modulo_the_number_of_classes() -> None:
    assert wild.modulo_share(3, 3, 1) == Fraction(3, 8)  # words 0, 3, 6
    assert wild.modulo_share(3, 3, 2) == Fraction(6, 8)
    assert wild.modulo_share(32, 1 << 20, 1 << 18) == Fraction(1, 4)  # a power of two divides evenly
    classes = 3 << 26
    assert float(wild.modulo_share(32, classes, classes // 4)) == pytest.approx(0.2578, abs=5e-5)
    assert float(wild.modulo_share(62, classes, classes // 4)) == pytest.approx(0.25, abs=1e-10)


@pytest.mark.parametrize("classes, bits", [(3 << 26, 32), (3 << 27, 32 if torch.__version__ < "2.7" else 64)])
def test_randint_reduces_32_bits_below_2_to_the_28_and_64_from_there(classes: int, bits: int) -> None:
    """10^6 ids; the share of the first quarter, which 32 bits would make .2578 in both cases, 16 standard deviations
    from .25. Within 5 standard deviations, one value: false alarm 6e-7 each."""
    ids = torch.randint(classes, (1_000_000,), generator=generator(2))
    share = (ids < classes // 4).double().mean().item()
    assert abs(share - float(wild.modulo_share(bits, classes, classes // 4))) < 5 * sqrt(3 / 16 / 1_000_000)
    assert float(wild.modulo_share(32, classes, classes // 4)) == pytest.approx(0.2578, abs=5e-5)
