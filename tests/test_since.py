"""Two parametrisations of one minimum: where they agree, and a world for each in which it is the better."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import Tensor

from sumexp.chapters import since, towers
from sumexp.chapters.catalogue.forms import FORMS
from sumexp.chapters.since import Limited, level, trained
from sumexp.negatives import enumerated

SMALL = towers.Setting(items=40, contexts=30, features=4)


def kl(world: towers.World, scores: Tensor) -> float:
    return towers.of_scores(scores, world)["kl"]


@pytest.fixture(scope="module")
def popular() -> towers.World:
    return towers.world(SMALL, torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def plain() -> towers.World:
    return level(SMALL, torch.Generator().manual_seed(0))


@pytest.mark.claim("sumexp-two-parametrisations", shows="statement", evidence="quadrature")
def test_with_a_number_per_item_both_end_at_the_same_scores(popular: towers.World) -> None:
    ends = [trained(popular, Limited("number per item"), served) for served in since.SERVED]
    assert torch.allclose(ends[0].log_softmax(-1), ends[1].log_softmax(-1), atol=1e-3)
    assert kl(popular, ends[0]) < 1e-4


@pytest.mark.claim("sumexp-two-parametrisations", shows="statement", evidence="quadrature")
def test_without_one_either_can_be_the_better(popular: towers.World, plain: towers.World) -> None:
    kls = {
        (name, served): kl(world, trained(world, Limited("no number per item"), served))
        for (name, world), served in product((("popular", popular), ("plain", plain)), since.SERVED)
    }
    assert kls["popular", "f + log q"] < 0.5 * kls["popular", "f"]
    assert kls["plain", "f"] < 0.5 * kls["plain", "f + log q"]


@pytest.mark.claim("sumexp-two-parametrisations", shows="statement", evidence="quadrature")
def test_decay_of_the_number_pulls_to_zero_or_to_the_popularity(popular: towers.World) -> None:
    by_f, by_sum = (kl(popular, trained(popular, Limited(decay=1.0), served)) for served in since.SERVED)
    assert by_sum < 0.5 * by_f


def test_cosines_of_one_feature_are_plus_and_minus_the_learned_scale() -> None:
    line = towers.world(replace(SMALL, features=1), torch.Generator().manual_seed(0))
    cosines = trained(line, Limited("cosine"), "f + log q", steps=50) - line.log_q
    assert torch.allclose(cosines.abs(), cosines.abs().max())
    assert len(cosines.sign().unique()) == 2
    assert (cosines.abs().max() - 1).abs() > 0.01


def test_a_change_of_popularity_is_one_summand_for_both() -> None:
    """What an item says of its contexts, P(x | y), stays; three items, two contexts, by Bayes."""
    joint = torch.tensor([[0.2, 0.1, 0.2], [0.1, 0.3, 0.1]], dtype=torch.float64)
    old, new = joint.sum(0), torch.tensor([0.1, 0.2, 0.7], dtype=torch.float64)
    changed = joint / old * new
    by_bayes = changed / changed.sum(1, keepdim=True)
    log_p = (joint / joint.sum(1, keepdim=True)).log()
    assert torch.allclose((log_p + new.log() - old.log()).softmax(-1), by_bayes)
    uncorrected = log_p - old.log()  # what is learned without a correction
    assert torch.allclose((uncorrected + new.log()).softmax(-1), by_bayes)


def test_every_loss_of_the_chapter_has_a_name() -> None:
    assert since.LOSS_NAMES.keys() == {*FORMS, *enumerated.LOSSES}


def test_what_is_unknown_is_refused(popular: towers.World) -> None:
    with pytest.raises(ValueError, match="model is 'deep'"):
        Limited("deep")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"decay is -1.0"):
        Limited(decay=-1.0)
    with pytest.raises(ValueError, match="served is 'g'"):
        trained(popular, Limited(), "g")  # type: ignore[arg-type]
