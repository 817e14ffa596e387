"""Laws move, are saved, print themselves, and take the inputs that users have."""

import copy
import io
import math
import pickle
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from sumexp import samplers
from sumexp.samplers import _alias as alias
from sumexp.samplers._base import Law
from tests.calls import SAMPLERS
from tests.samplers.test_samplers import drawn_law

COUNTS = [8, 4, 2, 1, 1]


def made(kind: str, counts: Sequence[float]) -> Law:
    shares = torch.tensor(counts, dtype=torch.float64)
    return SAMPLERS[kind](shares / shares.sum())


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def saved(law: Law) -> Law:
    """The same through a file, into another law of its kind."""
    file = io.BytesIO()
    torch.save(law.state_dict(), file)
    file.seek(0)
    other = copy.deepcopy(law)
    for part in other.modules():
        if isinstance(part, samplers.Categorical):
            part.load_state_dict(samplers.unigram(range(1, part.classes + 1)).state_dict())
    other.load_state_dict(read := torch.load(file, weights_only=True))
    for value in read.values():
        value.zero_()  # what was read is the reader's, the law has a copy
    return other


def averaged(law: Law, **options: Any) -> Law:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), law)
    copied = AveragedModel(model, **options)
    for _ in range(4):
        copied.update_parameters(model)
    return cast(Law, copied.module[1])


def written_over(law: Law) -> Law:
    """What some averages do to the values of ``state_dict``."""
    for value in law.state_dict().values():
        value.copy_(0.7 * value)
    return law


SURVIVED: dict[str, Callable[[Law], Law]] = {
    "half": lambda law: law.half(),
    "bfloat16": lambda law: law.to(torch.bfloat16),
    "half and back": lambda law: law.half().double(),
    "deepcopy": copy.deepcopy,
    "pickle": lambda law: pickle.loads(pickle.dumps(law)),  # noqa: S301
    "saved": saved,
    "averaged": lambda law: averaged(law, use_buffers=True),
    "averaged, weights alone": lambda law: averaged(law, multi_avg_fn=get_ema_multi_avg_fn(0.9)),
    "EMA": lambda law: averaged(law, use_buffers=True, multi_avg_fn=get_ema_multi_avg_fn(0.9)),
    "EMA, written": lambda law: averaged(law, use_buffers=True, avg_fn=lambda a, b, _: 0.3 * a + 0.7 * b),
    "written over": written_over,
    "meta and back": lambda law: cast(Law, law.to("meta").to_empty(device="cpu")),
    "meta of a model": lambda law: cast(Law, torch.nn.Sequential(law).to("meta").to_empty(device="cpu")[0]),
}
SHARES = st.lists(st.one_of(st.just(0.0), st.floats(1e-20, 1.0)), min_size=1, max_size=20).filter(any)


def units(law: Law) -> list[Fraction]:
    """The probability of each class, by what a draw does with each of its 2^62 numbers."""
    if isinstance(law, samplers.Mixture):
        bounds = [0, *law._ends.tolist(), alias.FULL]
        shares = [Fraction(b - a, alias.FULL) for a, b in pairwise(bounds)]
        parts = [units(part) for part in law.samplers]  # type: ignore[arg-type]
        return [sum(s * q for s, q in zip(shares, column, strict=True)) for column in zip(*parts, strict=True)]
    if not isinstance(law, samplers.Categorical):
        return [Fraction(q) for q in law.log_prob(range(law.classes)).exp().tolist()]
    return [Fraction(each, alias.FULL) for each in drawn_law(law.table, law.classes)]


@pytest.mark.parametrize("kind", SAMPLERS)
@pytest.mark.parametrize("change", SURVIVED)
@settings(max_examples=6, deadline=None)
@given(shares=SHARES)
def test_the_law_reported_is_exactly_the_law_drawn_whatever_was_done_to_the_model(
    change: str, kind: str, shares: list[float]
) -> None:
    law = made(kind, shares)
    wanted, drawn = law.log_prob(range(law.classes)), law.sample(50, seeded())
    changed = SURVIVED[change](law)
    assert torch.equal(changed.log_prob(range(law.classes)), wanted)
    assert torch.equal(changed.sample(50, seeded()), drawn)
    exact = [math.log(q) if q else -math.inf for q in units(changed)]
    assert wanted.tolist() == pytest.approx(exact, rel=1e-14, abs=1e-14)


@pytest.mark.parametrize("change", [Tensor.half, lambda v: v // 2, lambda v: v[None], lambda v: v[:0], repr])
@pytest.mark.parametrize("kind", ["Categorical", "Mixture"])
def test_a_saved_law_that_was_rounded_or_averaged_is_refused(kind: str, change: Any) -> None:
    law = made(kind, COUNTS)
    wanted = law.log_prob(range(5))
    with pytest.raises(ValueError, match="was rounded or averaged after it was saved: take it as one checkpoint"):
        law.load_state_dict({name: change(value) for name, value in law.state_dict().items()})
    assert torch.equal(law.log_prob(range(5)), wanted)
    for other in (made(kind, [1] * 3), made(kind, [1] * 7), samplers.Mixture([samplers.Uniform(5)] * 3, [1 / 3] * 3)):
        with pytest.raises(ValueError, match="is not one of 5 classes"):
            law.load_state_dict(other.state_dict())


def test_laws_print_themselves() -> None:
    assert repr(samplers.Uniform(5)) == "Uniform(classes=5)"
    shown = repr(made("Mixture", COUNTS).to("meta"))
    assert "proportions=[0.25, 0.75]" in shown
    assert "Categorical(classes=5)" in shown


@pytest.mark.parametrize("kind", SAMPLERS)
def test_ids_labels_and_shapes_are_what_users_have(kind: str) -> None:
    law = made(kind, COUNTS)
    wanted = law.log_prob(torch.tensor([0, 3]))
    assert law.log_prob(torch.tensor([0, 3], device="meta")).shape == (2,)
    for ids in ([0, 3], np.array([0, 3]), np.array([0, 3], dtype=np.int32), torch.tensor([0, 3], dtype=torch.int32)):
        assert torch.equal(law.log_prob(ids), wanted)
        drawn = samplers.draw(law, ids, np.int64(3), generator=seeded())  # type: ignore[arg-type]
        assert torch.equal(drawn.ids, samplers.draw(law, torch.tensor([0, 3]), 3, generator=seeded()).ids)
    for shape in (5, np.int64(5), (5,), [5], torch.Size([5])):
        assert torch.equal(law.sample(shape, seeded()), law.sample((5,), seeded()))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"shape is 2\.5; it must be a whole number"):
        law.sample(2.5, seeded())  # type: ignore[arg-type]
