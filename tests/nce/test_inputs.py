"""Every public function of the chapter meets every legal but nasty input: a right number or one clear error."""

import math
from collections.abc import Callable, Iterator
from inspect import isfunction

import numpy as np
import pytest
import torch
from torch import Tensor

from sumexp.nce import Joint, families, gan, gaussians, global_nce, gradient, local_nce
from tests.calls import Call
from tests.test_inputs import VALUES, outcome, same, scores

INF = math.inf


def double(*values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


JOINT = Joint(double([0.1, 0.2, 0.0], [0.2, 0.2, 0.3]))
LOG_Q = double(0.5, 0.25, 0.25).log()
SCORES = double([0.5, -1.0, 2.0], [0.0, 1.0, -0.5])  # exact in every precision


@pytest.mark.parametrize("n", [np.int64(3), torch.tensor(3)])
def test_any_integer_counts_candidates(n: int) -> None:
    for module in (global_nce, local_nce):
        assert module.cross_entropy(JOINT, SCORES, n, LOG_Q) == module.cross_entropy(JOINT, SCORES, 3, LOG_Q)
    assert global_nce.cross_entropy(JOINT, SCORES, [n, 5], LOG_Q).shape == (2,)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_every_precision_is_computed_in_double(dtype: torch.dtype) -> None:
    for module in (global_nce, local_nce):
        low, high = (module.cross_entropy(JOINT, s, 3, LOG_Q) for s in (SCORES.to(dtype), SCORES))
        assert torch.equal(low, high)
    assert torch.equal(global_nce.recover(SCORES.to(dtype), LOG_Q), global_nce.recover(SCORES, LOG_Q))
    assert torch.equal(local_nce.recover(SCORES.to(dtype), 3, LOG_Q), local_nce.recover(SCORES, 3, LOG_Q))
    assert torch.equal(gradient.best_noise(SCORES[0].to(dtype), 0), gradient.best_noise(SCORES[0], 0))


def test_strided_and_empty_scores() -> None:
    strided = torch.stack([SCORES, -SCORES], -1)[..., 0]
    assert torch.equal(global_nce.recover(strided, LOG_Q), global_nce.recover(SCORES, LOG_Q))
    torch.testing.assert_close(
        global_nce.cross_entropy(JOINT, strided, 3), global_nce.cross_entropy(JOINT, SCORES, 3), rtol=1e-14, atol=0
    )
    assert global_nce.recover(SCORES[:0], LOG_Q).shape == (0, 3)
    assert local_nce.recover(SCORES[:0], 3, LOG_Q).shape == (0, 3)
    rows = gradient.best_noise(SCORES, 1)
    for row, alone in zip(rows, SCORES, strict=True):
        assert torch.equal(row, gradient.best_noise(alone, 1))


@pytest.mark.parametrize("scale", [1e-300, 1.0, 200.0])
def test_ties_masks_and_extreme_scales(scale: float) -> None:
    for values in (torch.zeros(2, 3).double(), scale * SCORES, torch.where(JOINT.p > 0, scale * SCORES, -INF)):
        for module in (global_nce, local_nce):
            assert math.isfinite(module.cross_entropy(JOINT, values, 4, LOG_Q).item())
        assert torch.allclose(global_nce.recover(values, LOG_Q).sum(-1), torch.ones(2).double())


@pytest.mark.parametrize("call,message", [
    (lambda: global_nce.recover(torch.full((2, 3), -INF), LOG_Q), r"row \[0\] where q\(y\) > 0 is -inf"),
    (lambda: global_nce.recover(double([0.0, 0.0, 0.0], [0.0, math.nan, 0.0]), LOG_Q), "is nan; it must be a number"),
    (lambda: global_nce.recover(double(0.0, INF, 0.0), LOG_Q), "is inf"),
    (lambda: gradient.best_noise(double(0.0, -INF, -INF), 0), "largest logit of a negative is -inf"),
    (lambda: gradient.best_noise(double(0.0, math.nan, 0.0), 0), "is nan"),
    (lambda: gradient.best_noise(double(0.0, 1.0), 2), "target is 2"),
    (lambda: gradient.expected_gradient(double(0.0, 1.0), 5, 1, double(0.0, 0.0)), "target is 5"),
    (lambda: gradient.expected_gradient(double(0.0, 1.0), 0, 10**400, double(-INF, 0.0)), "m is 1000"),
    (lambda: global_nce.bound(JOINT, SCORES, 1), "n is 1; NCE compares"),
    (lambda: global_nce.bound(JOINT, SCORES, []), "n is 0; NCE compares"),
    (lambda: global_nce.ceiling(JOINT, 1), "n is 1; NCE compares"),
    (lambda: global_nce.ceiling(JOINT, 2.5), "n is 2.5; it must be a whole number"),
    (lambda: global_nce.ceiling(JOINT, 2**53 + 1), "n is 9007199254740993; NCE compares n >= 2 candidates, 2.53 at"),
])  # fmt: skip
def test_bad_input_is_one_clear_error(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("call,message", [
    (lambda: global_nce.posterior(JOINT, 0, torch.tensor([0, 1], dtype=torch.uint8)), "must be integers, int32"),
    (lambda: global_nce.posterior(JOINT, 0, torch.tensor([True, False])), "must be integers, int32"),
    (lambda: global_nce.posterior(JOINT, 0, torch.tensor(1)), "n is 0"),
    (lambda: global_nce.posterior(JOINT, torch.tensor([0, 1, 1]), torch.tensor([[0, 1], [1, 0]])), r"x \(3,\) and ys"),
    (lambda: global_nce.cross_entropy(JOINT, SCORES, 10**30), "whole number of at most 64 bits"),
    (lambda: local_nce.cross_entropy(JOINT, SCORES, 10**400), "whole number of at most 64 bits"),
    (lambda: local_nce.recover(double(0.0, math.nan, 0.0), 3, LOG_Q), "is nan; it must be a number"),
    (lambda: local_nce.recover(double(0.0, INF, 0.0), 3, LOG_Q), "NaN or .inf where"),
    (lambda: gradient.loss(SCORES, 3), "target is 3"),
    (lambda: gradient.gradient(SCORES, 3), "target is 3"),
    (lambda: families.scores(SCORES, double(1.0)), r"features is \(2, 3\)"),
    (lambda: families.scores(SCORES.unsqueeze(-1), double(1.0, 2.0)), r"theta is \[1.0, 2.0\]; it must be \[1\]"),
    (lambda: families.scores(SCORES.unsqueeze(-1), double(INF)), r"theta is \[inf\]"),
    (lambda: families.scores(double([[0.0], [-INF]]), double(0.0)), "finite"),
    (lambda: families.tilted(SCORES.unsqueeze(-1), double(1.0), double(1.0), LOG_Q), r"x has shape \(1,\)"),
    (lambda: families.tilted(SCORES.unsqueeze(-1), double(1.0), double(0.5, 0.6), LOG_Q), "x sums to 1.1"),
    (lambda: families.tilted(1e200 * SCORES.unsqueeze(-1), double(1e200), double(0.5, 0.5), LOG_Q), "double precision"),
    (lambda: families.fit(SCORES[..., None][..., :0], lambda s: s.sum()), "K at least 1"),
    (lambda: families.fit(SCORES[..., None], lambda s: s.sum()), "has no minimum"),
    (lambda: families.fit(SCORES[..., None], lambda s: s.square().sum(), 0.0), "tolerance is 0.0"),
    (lambda: gan.best_discriminator(double(2.0, 3.0), double(0.5, 0.5)), "pop sums to 5.0"),
    (lambda: gan.best_discriminator(double(math.nan, 1.0), double(0.5, 0.5)), r"pop\[0\] is nan"),
    (lambda: gan.best_discriminator(double(0.5, 0.5), double(0.5, 0.25, 0.25)), "pop has 2 classes and q 3"),
    (lambda: gan.value(double(0.5, 0.5), double(0.5, 0.5), double(0.5)), r"shape \(1,\); it must be \[..., 2\]"),
    (lambda: gan.play(double(0.5, 0.5), double(0.0, 0.0), 2.5), "steps is 2.5"),  # type: ignore[arg-type]
    (lambda: gan.play(double(0.5, 0.5), double(0.0, 0.0), -1), "steps is -1"),
    (lambda: gan.play(double(0.5, 0.5), double(0.0, 0.0), 1, rate=0.0), "rate is 0.0"),
    (lambda: gan.play(double(0.5, 0.5), double(0.0, 0.0), 1, discriminator_rate=INF), "rate is inf"),
    (lambda: gan.play(double(0.5, 0.5), double(0.0, 0.0), 1, ascents=-1), "ascents is -1"),
    (lambda: gan.play(double(0.5, 0.5), double(0.0, INF), 1), "largest logit is inf"),
    (lambda: gan.play(double(0.5, 0.5), double(0.0, math.nan), 1), r"generator\[1\] is nan"),
    (lambda: gan.play(double(0.5, 0.5), double(0.0, 0.1), 9, 1e300, 1e300), "left the numbers after"),
])  # fmt: skip
def test_bad_input_to_posteriors_families_and_games(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_a_discriminator_of_half_precision_keeps_its_digits() -> None:
    """1 - 2^-14 is 1 in half precision, of which the logarithm is 0."""
    d = torch.tensor([2.0**-14, 2.0**-14], dtype=torch.float16)
    half = double(0.5, 0.5)
    expected = math.log(2.0**-14) + math.log1p(-(2.0**-14))
    assert gan.value(half, half, d).item() == pytest.approx(expected, rel=1e-15)


def test_a_class_of_neither_player_is_left_alone() -> None:
    """With -inf for a class that the target lacks too, the game is that of the other classes."""
    padded = gan.play(double(0.25, 0.75, 0.0), double(0.5, 0.0, -INF), 20)
    alone = gan.play(double(0.25, 0.75), double(0.5, 0.0), 20)
    assert torch.allclose(padded.value, alone.value, rtol=1e-14)
    assert torch.equal(padded.q[:, 2], torch.zeros(21).double())


# The table --------------------------------------------------------------------------------------------------------


def population(z: Tensor) -> Joint:
    """A law of pairs as large as the scores, every pair possible."""
    return Joint.from_counts(1.0 + torch.arange(z.numel()).reshape(z.shape) % 3)


def noise(z: Tensor) -> Tensor:
    return torch.log_softmax(torch.arange(z.shape[1]).double() % 3, -1)


def of_scores(function: Callable[..., Tensor], *n: int) -> Call:
    return lambda z: function(population(z), z, *n, noise(z))


def of_law(function: Callable[..., Tensor], *n: int) -> Call:
    """A population made of the scores, whose masked pairs are never seen."""
    return lambda z: function(Joint.from_counts(torch.softmax(z.double(), -1)), *n, noise(z))


def tied(z: Tensor) -> Tensor:
    """The two divergences."""
    return torch.stack(local_nce.divergences(Joint.from_counts(torch.softmax(z.double(), -1)), 3, noise(z)))


def candidates(z: Tensor) -> Tensor:
    ids = torch.arange(z.shape[1], dtype=torch.int32).flip(0).expand(*z.shape)
    return global_nce.posterior(population(z), torch.arange(len(z)), ids, noise(z))


def features(z: Tensor) -> Tensor:
    return torch.stack([z, z.flip(-1)], -1)


def fitted(z: Tensor) -> Tensor:
    return families.fit(features(z), lambda s: (s - 1).square().mean(), 1e-6)


def tilt(z: Tensor) -> Tensor:
    rows = torch.full((len(z),), 1 / max(1, len(z)))
    return families.tilted(features(z), torch.tensor([0.5, -0.25]), rows, noise(z)).p


def laws(z: Tensor) -> tuple[Tensor, Tensor]:
    """Two laws for each row."""
    p = torch.softmax(z.double(), -1)
    return p, p.flip(-1)


def first(z: Tensor) -> Tensor:
    if not len(z):
        raise ValueError("no example")
    return z[0]


def beside_first(z: Tensor) -> Tensor:
    """Noise on all classes but the first."""
    return torch.log_softmax(noise(z).index_fill(0, torch.tensor([0]), -INF), -1) if z.shape[1] else noise(z)


def drawn(z: Tensor) -> tuple[Tensor, int, Tensor, Tensor]:
    return first(z), 0, torch.tensor([[z.shape[1] - 1] * 3]), beside_first(z)


TABLE: dict[str, Call] = {
    "families.fit": fitted,
    "families.scores": lambda z: families.scores(features(z), torch.tensor([1.0, 2.0])),
    "families.tilted": tilt,
    "gan.best_discriminator": lambda z: gan.best_discriminator(*laws(z)),
    "gan.play": lambda z: gan.play(laws(z)[0][:1].flatten(), z[:1].flatten(), 3).value,
    "gan.printed_value": lambda z: gan.printed_value(laws(z)[0], torch.sigmoid(z.double())),
    "gan.value": lambda z: gan.value(*laws(z), torch.sigmoid(z.double())),
    "gaussians.info_nce_value": lambda z: gaussians.info_nce_value(z[:, : len(z)]),
    "gaussians.log_ratio": lambda z: gaussians.log_ratio(z.tanh(), z.tanh(), 0.5),
    "global_nce.bound": of_scores(global_nce.bound, 3),
    "global_nce.ceiling": of_law(global_nce.ceiling, 3),
    "global_nce.cross_entropy": of_scores(global_nce.cross_entropy, 3),
    "global_nce.entropy": of_law(global_nce.entropy, 3),
    "global_nce.optimal_scores": of_law(global_nce.optimal_scores),
    "global_nce.posterior": candidates,
    "global_nce.recover": lambda z: global_nce.recover(z, noise(z)),
    "gradient.best_noise": lambda z: gradient.best_noise(first(z), 0),
    "gradient.expected_gradient": lambda z: gradient.expected_gradient(first(z), 0, 3, beside_first(z)),
    "gradient.gradient": lambda z: gradient.gradient(first(z), 0),
    "gradient.loss": lambda z: gradient.loss(first(z), 0),
    "gradient.phi": lambda z: gradient.phi(*drawn(z)),
    "gradient.sampled_loss": lambda z: gradient.sampled_loss(*drawn(z)),
    "gradient.sampled_partition": lambda z: gradient.sampled_partition(*drawn(z)),
    "local_nce.cross_entropy": of_scores(local_nce.cross_entropy, 3),
    "local_nce.divergences": tied,
    "local_nce.entropy": of_law(local_nce.entropy, 3),
    "local_nce.jensen_shannon": of_law(local_nce.jensen_shannon),
    "local_nce.optimal_scores": of_law(local_nce.optimal_scores, 3),
    "local_nce.posterior": of_law(local_nce.posterior, 3),
    "local_nce.recover": lambda z: local_nce.recover(z, 3, noise(z)),
    "local_nce.self_normalisation_defect": lambda z: local_nce.self_normalisation_defect(z, 3, noise(z)),
}
"""Each public function, and what it is given of scores [X, Y]."""

NOT_CALLED = {
    "gaussians.estimates", "gaussians.honest", "gaussians.mutual_information", "gaussians.optimal_bound",
    "gaussians.oracle", "gaussians.sample", "gaussians.train",
    "gradient.rational_best_noise", "gradient.rational_draws", "gradient.rational_expected_gradient",
    "gradient.rational_gradient", "gradient.rational_partition",
}  # fmt: skip
"""What takes no tensor of scores, but numbers, fractions or the columns of runs."""

every_function = pytest.mark.parametrize("name", TABLE)


def public() -> Iterator[str]:
    for module in (families, gan, gaussians, global_nce, gradient, local_nce):
        for name, thing in vars(module).items():
            if isfunction(thing) and thing.__module__ == module.__name__ and not name.startswith("_"):
                yield f"{module.__name__.removeprefix('sumexp.nce.')}.{name}"


def test_every_public_function_is_in_the_table() -> None:
    assert set(public()) - NOT_CALLED == set(TABLE)


@every_function
def test_layouts(name: str) -> None:
    z = scores(4, 4)
    wanted = outcome(TABLE[name], z)
    assert isinstance(wanted, Tensor), wanted
    for other in (z.T.contiguous().T, torch.stack([z, z + 1], -1)[..., 0], z.clone().requires_grad_()):
        assert same(outcome(TABLE[name], other), wanted, 1e-12)


@every_function
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_types(name: str, dtype: torch.dtype) -> None:
    """What is given in a type of few digits is computed in double, but for what networks are trained by."""
    z = scores(4, 4)
    tolerance = 1e3 * torch.finfo(dtype).eps if name.startswith("gaussians.") else 1e-12
    assert same(outcome(TABLE[name], z.to(dtype)), outcome(TABLE[name], z), tolerance)


@every_function
@pytest.mark.parametrize("shape", [(0, 4), (1, 4), (4, 1), (1, 1), (1, 0), (0, 0), (3, 9)])
def test_sizes(name: str, shape: tuple[int, int]) -> None:
    outcome(TABLE[name], scores(*shape))


@every_function
@pytest.mark.parametrize("values", VALUES)
def test_values(name: str, values: str) -> None:
    z = torch.tensor([VALUES[values]] * 4, dtype=torch.float64)
    outcome(TABLE[name], z)
