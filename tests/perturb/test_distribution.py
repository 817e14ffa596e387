"""The laws as torch.distributions: what torch's tests ask of a distribution, against the laws that they replace."""

import copy
import math
import pickle
from collections.abc import Callable
from itertools import product
from typing import Any
from unittest import mock

import mpmath as mp
import pytest
import torch
from scipy import stats
from torch import Tensor
from torch.distributions import (
    Distribution,
    MultivariateNormal,
    OneHotCategorical,
    TransformedDistribution,
    biject_to,
    constraints,
    kl_divergence,
)
from torch.distributions.relaxed_categorical import ExpRelaxedCategorical
from torch.distributions.transforms import ExpTransform

from sumexp.distributions import PerturbArgmax, PerturbArgmaxStraightThrough, PerturbLogSoftmax, PerturbSoftmax
from sumexp.perturb import batched, softmax
from sumexp.perturb.noises import Cauchy, Exponential, Gaussian, Gumbel, Logistic, Uniform, signs
from tests.exact import vector
from tests.perturb.standard import CONTINUOUS, FINITE, second_moments

LOC = torch.tensor([1.0, 0.0, -2.0, 0.3], dtype=torch.float64)
BATCH = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

LAWS: dict[str, Callable[[Tensor], Distribution]] = {
    "PerturbSoftmax Gumbel": lambda loc: PerturbSoftmax(loc, 0.7),
    "PerturbSoftmax Gaussian": lambda loc: PerturbSoftmax(loc, 0.7, Gaussian()),
    "PerturbLogSoftmax Gumbel": lambda loc: PerturbLogSoftmax(loc, 0.7),
    "PerturbLogSoftmax Gaussian": lambda loc: PerturbLogSoftmax(loc, 0.7, Gaussian()),
    "PerturbArgmax Gumbel": lambda loc: PerturbArgmax(loc),
    "PerturbArgmaxStraightThrough": lambda loc: PerturbArgmaxStraightThrough(loc, Gaussian()),
    "PerturbArgmax uniform": lambda loc: PerturbArgmax(loc, Uniform()),
}
each = pytest.mark.parametrize("make", LAWS.values(), ids=LAWS)


@each
def test_shapes(make: Callable[[Tensor], Distribution], request: Any) -> None:
    law = make(BATCH)
    assert (law.batch_shape, law.event_shape) == ((3,), (4,))
    for shape in ((), (1,), (5, 2)):
        drawn = law.sample(torch.Size(shape))
        assert drawn.shape == (*shape, 3, 4)
        assert law.log_prob(drawn).shape == (*shape, 3)
        assert bool(law.support.check(drawn).all())  # type: ignore[attr-defined]
    # A value of one row serves all rows.
    assert law.log_prob(make(LOC).sample()).shape == (3,)
    request.addfinalizer(lambda: torch.set_default_dtype(torch.float32))
    torch.set_default_dtype(torch.float64)  # changes none
    assert make(BATCH.float()).log_prob(drawn.float()).dtype == torch.float32


@each
def test_expand(make: Callable[[Tensor], Distribution]) -> None:
    law = make(BATCH)
    for wide in (law.expand(torch.Size((2, 3))), law.expand(torch.Size((1, 3))).expand(torch.Size((2, 3)))):
        assert type(wide) is type(law)
        assert (wide.batch_shape, wide.event_shape) == ((2, 3), (4,))
        drawn = wide.sample()
        assert drawn.shape == (2, 3, 4)
        assert torch.equal(wide.log_prob(drawn), torch.stack([law.log_prob(row) for row in drawn]))
    # One product for all rows: some processors add up more of them in another order.
    mean = law.expand((2, 3)).mean  # type: ignore[arg-type]
    torch.testing.assert_close(mean, law.mean.expand(2, 3, 4), rtol=8 * 2**-52, atol=0)


@pytest.mark.parametrize("kind", [PerturbSoftmax, PerturbArgmax])
def test_expand_keeps_a_subclass_and_what_it_added(kind: Any) -> None:
    class Named(kind):  # type: ignore[misc]
        def __init__(self, loc: Tensor) -> None:
            super().__init__(loc, noise=Gaussian())
            self.name = "mine"

    wide = Named(LOC).expand((5,))
    assert (type(wide), wide.name, wide.noise) == (Named, "mine", Gaussian())


@each
def test_pickles_and_copies(make: Callable[[Tensor], Distribution]) -> None:
    law = make(BATCH)
    drawn = law.sample()
    for other in (pickle.loads(pickle.dumps(law)), copy.deepcopy(law)):  # noqa: S301
        assert torch.equal(other.log_prob(drawn), law.log_prob(drawn))


@each
def test_draws_of_many_rows_are_not_one_draw(make: Callable[[Tensor], Distribution]) -> None:
    torch.manual_seed(0)
    law = make(torch.zeros(40, 4, dtype=torch.float64))
    drawn = law.sample((50,))  # type: ignore[arg-type]
    drawn = drawn.exp() if law.support is constraints.real_vector else drawn
    assert len(drawn.flatten(0, 1).unique(dim=0)) >= 4
    # One comparison for each class and law at z < 5: false-alarm rate 40 * 6e-7.
    assert ((drawn.mean((0, 1)) - 0.25).abs() < 5 * 0.25**0.5 / 2000**0.5).all()


@pytest.mark.parametrize("name", ["PerturbArgmax Gumbel", "PerturbArgmax uniform"])
def test_support_mode_and_entropy_of_one_hot_vectors(name: str) -> None:
    law = LAWS[name](BATCH)
    assert law.has_enumerate_support
    every, unexpanded = law.enumerate_support(), law.enumerate_support(expand=False)
    assert (every.shape, unexpanded.shape) == ((4, 3, 4), (4, 1, 4))
    assert torch.equal(every, unexpanded.expand(4, 3, 4))
    logs = law.log_prob(every)
    assert (logs.exp().sum(0) - 1).abs().max() < 1e-12
    assert torch.equal(law.log_prob(unexpanded), logs)
    by_support = -(logs.exp() * logs.clamp_min(-1e9)).sum(0)
    assert (law.entropy() - by_support).abs().max() < 1e-12
    assert torch.equal(law.mode, every.gather(0, logs.argmax(0)[None, :, None].expand(1, 3, 4))[0])
    assert bool(law.support.check(law.mode).all())  # type: ignore[attr-defined]
    assert LAWS[name](torch.zeros(3)).mode.tolist() == [1, 0, 0]  # one of several equals


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("noise", CONTINUOUS, ids=str)
def test_a_masked_class_leaves_the_law_of_the_others(noise: Any, dtype: torch.dtype) -> None:
    """Rows of three different masks, one of a single class, against the law of the classes that are left."""
    masks = torch.tensor([[1, 1, 0, 1], [0, 1, 1, 0], [1, 1, 0, 1], [0, 0, 1, 0]], dtype=torch.bool)
    full, prior = (0.4 * torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(0))).to(dtype)
    loc = full.masked_fill(~masks, -math.inf).requires_grad_()
    law, other = PerturbArgmax(loc, noise), PerturbArgmax(prior.masked_fill(~masks, -math.inf), noise)
    digits = {torch.float16: 2e-3, torch.float32: 2e-5, torch.float64: 1e-12}[dtype]
    drawn = law.sample((50,), generator=torch.Generator().manual_seed(1))
    assert not drawn[:, ~masks].any()
    results: dict[str, Tensor] = {
        "entropy": law.entropy(),
        "kl": kl_divergence(law, other),
        "log_prob": law.log_prob(drawn[0]),
    }
    assert torch.equal(law.mean == 0, ~masks)
    assert law.log_prob(law.enumerate_support())[~masks.T].isneginf().all()
    for row, mask in enumerate(masks):
        alone = loc.detach()[row, mask].requires_grad_()
        if len(alone) == 1:
            assert law.mean[row, 2].item() == pytest.approx(1, abs=digits)
            assert law.variance[row, 2].item() == 0
            assert all(value[row].item() == pytest.approx(0, abs=digits) for value in results.values())
            continue
        left, second = PerturbArgmax(alone, noise), PerturbArgmax(prior[row, mask], noise)
        wanted = {
            "entropy": left.entropy(), "kl": kl_divergence(left, second), "log_prob": left.log_prob(drawn[0, row, mask])
        }  # fmt: skip
        torch.testing.assert_close(law.mean[row, mask], left.mean, rtol=digits, atol=digits)
        torch.testing.assert_close(law.variance[row, mask], left.variance, rtol=digits, atol=digits)
        for name, value in wanted.items():
            torch.testing.assert_close(results[name][row], value, rtol=digits, atol=digits)
            [slope] = torch.autograd.grad(results[name][row], loc, retain_graph=True)
            [of_left] = torch.autograd.grad(value, alone, retain_graph=True)
            torch.testing.assert_close(slope[row, mask], of_left, rtol=20 * digits, atol=20 * digits)
            assert not slope[row, ~mask].any()
    assert kl_divergence(PerturbArgmax(full, noise), law)[1].isinf()


@pytest.mark.parametrize("noise", CONTINUOUS, ids=str)
@pytest.mark.parametrize("theta", [(3.0, 0.0), (120.0, 0.0), (0.0, 0.0), (0.0, -1e6, 5.0)], ids=str)
def test_log_probabilities_of_its_own_draws_are_finite(noise: Any, theta: tuple[float, ...]) -> None:
    for dtype in (torch.float32, torch.float64):
        law = PerturbArgmax(torch.tensor(theta, dtype=dtype), noise)
        drawn = law.sample((100,), generator=torch.Generator().manual_seed(0))
        assert bool(law.log_prob(drawn).isfinite().all())
        assert bool((law.log_prob(law.enumerate_support()) <= 1e-15).all())


def test_log_probability_of_the_sure_and_of_the_impossible() -> None:
    law = PerturbArgmax(vector(3, 0), Uniform())  # the difference of the noises is below 2
    assert law.log_prob(torch.eye(2, dtype=torch.float64)).tolist() == [0, -math.inf]
    assert law.entropy().item() == 0
    # In single precision e^-120 is 0, its logarithm is not.
    assert PerturbArgmax(torch.tensor([120.0, 0.0])).log_prob(torch.eye(2)).tolist() == [0, -120]


@pytest.mark.parametrize("noise", [Gumbel(), Gaussian()], ids=str)
def test_a_value_on_the_boundary_pulls_at_nothing(noise: Any) -> None:
    loc = vector(1.0, 0.0, -2.0).requires_grad_()
    law = PerturbSoftmax(loc, 0.7, noise)
    inside, edge = vector(0.2, 0.5, 0.3), vector(0.4, 0.6, 0.0)
    [alone] = torch.autograd.grad(law.log_prob(inside), loc)
    [both] = torch.autograd.grad(law.log_prob(torch.stack([inside, edge])).sum(), loc)
    assert both.tolist() == alone.tolist() != [0, 0, 0]


@pytest.mark.parametrize("noise", [Gumbel(), Gaussian(), Cauchy(), Uniform(), signs()], ids=str)
@pytest.mark.parametrize("tau", [0.02, 0.5, 3.0])
def test_relaxed_draws_lie_in_the_open_simplex(noise: Any, tau: float) -> None:
    law = PerturbSoftmax(torch.zeros(10), tau, noise)
    drawn = law.sample((2000,), generator=torch.Generator().manual_seed(0))
    assert bool((drawn > 0).all())
    assert bool(law.support.check(drawn).all())
    if tau > 0.1:
        assert bool(biject_to(law.support).inv(drawn).isfinite().all())
    if isinstance(noise, Gumbel | Gaussian):
        underflows = (drawn == torch.finfo(torch.float32).tiny).any(-1)
        assert bool(underflows.any()) == (tau < 0.1)
        assert torch.equal(law.log_prob(drawn).isnan(), underflows)
        half, double = (PerturbSoftmax(law.loc.to(t), tau, noise, False) for t in (torch.float16, torch.float64))
        assert torch.equal(double.log_prob(drawn.double()).isnan(), underflows)
        drawn = half.sample((2000,), generator=torch.Generator().manual_seed(0))
        for other, value in ((half, drawn.float()), (law, drawn)):
            assert torch.equal(other.log_prob(value).isnan(), (drawn == 2**-24).any(-1))
        assert law.log_prob(torch.tensor([1.0] + [0.0] * 9)).item() == -math.inf


@pytest.mark.parametrize("dtype, shape", [
    (torch.float16, (4096, 10)), (torch.bfloat16, (4096, 10)), (torch.bfloat16, (8, 200_000)),
    (torch.float16, (8, 50_000)), (torch.float32, (16, 200_000)), (torch.float32, (4, 1_000_000)),
])  # fmt: skip
def test_a_law_takes_its_own_draws(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    loc = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    for kind in (PerturbSoftmax, PerturbLogSoftmax):
        law = kind(loc, 0.5)
        assert law.log_prob(law.sample(generator=torch.Generator().manual_seed(1))).shape == shape[:1]
    off = torch.full((2, 10), 0.1, dtype=dtype)
    off[1, 0] += 2 * 0.1  # a sum of 1.2
    assert PerturbSoftmax(off).support.check(off).tolist() == [True, False]


def test_a_gradient_through_an_underflow_is_nan() -> None:
    loc = torch.zeros(2, 2, requires_grad=True)
    tiny = torch.finfo(torch.float32).tiny
    PerturbSoftmax(loc, 0.5).log_prob(torch.tensor([[0.5, 0.5], [1.0, tiny]])).sum().backward()
    assert loc.grad is not None
    assert loc.grad.isnan().all(-1).tolist() == [False, True]


@pytest.mark.claim("perturb-gaussian-kl", shows="statement", evidence="sampled")
@pytest.mark.parametrize("tau", [1.0, 0.1, 0.03, 0.001])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_divergences_by_draws_hold_in_log_space_at_every_temperature(dtype: torch.dtype, tau: float) -> None:
    """Against the exact divergence: 32 laws and their entropies, z < 5, false-alarm rate 64 * 6e-7.

    Half precision rounds each logarithm by up to 2^-9 of itself: 1 % of the divergence is left to that.
    """
    loc, zero = torch.arange(5.0).to(dtype), torch.zeros(5, dtype=dtype)
    for noise in (Gumbel(), Gaussian()):
        law, other = PerturbLogSoftmax(loc, tau, noise), PerturbLogSoftmax(zero, tau, noise)
        drawn = law.sample((20_000,), generator=torch.Generator().manual_seed(3))
        log_ratios = (law.log_prob(drawn) - other.log_prob(drawn)).double()
        expected = kl_divergence(
            PerturbSoftmax(loc.double(), tau, noise), PerturbSoftmax(zero.double(), tau, noise)
        ).item()
        error = 5 * log_ratios.std().item() / 20_000**0.5 + (0.01 if dtype.itemsize == 2 else 0) * expected
        assert abs(log_ratios.mean().item() - expected) < error
        logs, entropy = law.log_prob(drawn).double(), PerturbLogSoftmax(loc.double(), tau, noise).entropy()
        assert abs(logs.mean() + entropy) < 5 * logs.std() / 20_000**0.5 + (0.03 if dtype.itemsize == 2 else 0)


@pytest.mark.parametrize("noise", [Gumbel(), Gaussian(0.3, 2.0), Logistic()], ids=str)
def test_log_space_is_the_logarithm_of_the_simplex(noise: Any) -> None:
    law, logs = PerturbSoftmax(BATCH, 0.7, noise), PerturbLogSoftmax(BATCH, 0.7, noise)
    drawn, of_logs = (each.sample((500,), generator=torch.Generator().manual_seed(2)) for each in (law, logs))
    assert (of_logs.exp() - drawn).abs().max() < 1e-14
    means = logs.rsample((40_000,), generator=torch.Generator().manual_seed(4))
    # Twelve coordinates, z < 5, three noises: false-alarm rate 36 * 6e-7.
    assert bool(((means.mean(0) - logs.mean).abs() < 5 * means.std(0) / 200).all())
    if isinstance(noise, Logistic):
        with pytest.raises(NotImplementedError, match="density of the relaxed draw is closed for Gumbel and Gaussian"):
            logs.log_prob(of_logs)
        return
    pushed = TransformedDistribution(logs, ExpTransform())
    assert (pushed.log_prob(drawn) - law.log_prob(drawn)).abs().max() < 1e-11
    if isinstance(noise, Gumbel):
        relaxed = ExpRelaxedCategorical(vector(0.7), logits=BATCH)
        assert (relaxed.log_prob(of_logs) - logs.log_prob(of_logs)).abs().max() < 1e-12


@pytest.mark.parametrize("noise", [Gumbel(), Gumbel(0.3, 2.0), Gaussian(), Gaussian(-1.0, 0.5), Logistic()], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_draws_have_the_law_of_the_noise(noise: Any, dtype: torch.dtype) -> None:
    """Kolmogorov and Smirnov's test of 20,000 draws; each of the ten cases raises a false alarm once in 10^9."""
    loc = torch.zeros(20_000, 1, dtype=dtype)
    draws = PerturbSoftmax(loc.expand(-1, 2), 1.0, noise)._perturb((), torch.Generator().manual_seed(5))[:, 0]
    assert draws.dtype == dtype
    cdf = lambda x: noise.log_cdf(torch.from_numpy(x)).exp().numpy()  # noqa: E731
    assert stats.kstest(draws.double().numpy(), cdf).pvalue > 1e-9


def test_no_uniform_gives_an_infinite_gumbel() -> None:
    """A generator may give 0: a stand-in for it, as in single precision that comes once in 16 million."""
    with mock.patch.object(torch, "rand", lambda shape, generator, **like: torch.zeros(shape, **like)):
        drawn = PerturbSoftmax(torch.zeros(2), 1.0)._perturb((), torch.Generator())
    assert drawn.tolist() == pytest.approx([-math.log(25 * math.log(2))] * 2)  # u = 2^-25


def test_variance_where_one_class_is_all_but_sure() -> None:
    # Two classes, theta = (40, 0), tau = 1: E p_2 and E p_2^2 over the logistic difference of two Gumbels.
    density = lambda z: mp.exp(-z) / (1 + mp.exp(-z)) ** 2  # noqa: E731
    p = lambda z: 1 / (1 + mp.exp(40 + z))  # noqa: E731
    cuts = [-120, -60, -45, -40, -35, -20, 0, 20, 60]
    mean, square = (mp.quad(lambda z, k=k: p(z) ** k * density(z), cuts) for k in (1, 2))
    law = PerturbSoftmax(vector(40, 0))
    assert law.variance.tolist() == pytest.approx([float(square - mean**2)] * 2, rel=1e-10)  # 4.2e-18
    # Gaussian: p_2 = e^{-40 + Z}, Z of variance 2, up to e^-40 relative: e^-80 (e^4 - e^2).
    expected = math.exp(-80) * (math.exp(4) - math.exp(2))
    assert PerturbSoftmax(vector(40, 0), 1.0, Gaussian()).variance.tolist() == pytest.approx([expected] * 2, rel=1e-10)
    for noise, tau in [*product(FINITE, (1.0, 1e9)), (Cauchy(), 1e9)]:
        assert bool(PerturbSoftmax(vector(40, 0, 39, -3), tau, noise).stddev.isfinite().all())
    likely = PerturbArgmax(vector(40, 0)).variance
    assert likely.tolist() == pytest.approx([math.exp(-40)] * 2, rel=1e-14)


@pytest.mark.parametrize("noise", [Gumbel(), Gaussian(), Uniform(), signs()], ids=str)
def test_variance_by_second_moments(noise: Any) -> None:
    mean, squares = (f(BATCH, noise, 0.6) for f in (softmax.mean, second_moments))
    expected = squares.diagonal(dim1=-2, dim2=-1) - mean.square()
    assert (softmax.variance(BATCH, noise, 0.6) - expected).abs().max() < 1e-14
    assert (squares.sum(-1) - mean).abs().max() < 1e-14


def test_mean_and_pull_are_mean_and_product() -> None:
    for noise in (Gumbel(), Gaussian()):
        p, pulled = softmax.mean_and_pull(BATCH, torch.log, noise, 0.6)
        assert torch.equal(p, softmax.mean(BATCH, noise, 0.6))
        assert (pulled - softmax.hessian_product(BATCH, p.log(), noise, 0.6)).abs().max() < 1e-15


@pytest.mark.parametrize("noise", [Gumbel(0.0, 1.5), Gaussian(0.4, 0.7)], ids=str)
def test_density_has_mass_one_and_the_exact_moments(noise: Any) -> None:
    # Two classes, x = (y, 1 - y) with y = sigmoid(z), dy = y (1 - y) dz: the trapezoid rule in z.
    law = PerturbSoftmax(LOC[:2], 0.8, noise)
    z = torch.arange(-60, 60, 0.05, dtype=torch.float64)
    value = torch.stack([torch.sigmoid(z), torch.sigmoid(-z)], -1)
    logs = law.log_prob(value)
    density = logs.exp() * value.prod(-1) * 0.05
    assert abs(density.sum().item() - 1) < 1e-12
    assert abs(density @ logs + law.entropy()) < 1e-10
    assert (density @ value - law.mean).abs().max() < 1e-12
    assert (density @ value.square() - law.mean.square() - law.variance).abs().max() < 1e-12


def test_draws_follow_mean_and_variance() -> None:
    # Two laws, 4 + 4 comparisons each at z < 5: false-alarm rate 1e-5.
    n = 100_000
    for law in (PerturbSoftmax(LOC, 0.7, Gaussian()), PerturbArgmax(LOC, Logistic())):
        draws = law.sample((n,), generator=torch.Generator().manual_seed(4))
        assert draws.shape == (n, 4)
        assert bool(((draws.mean(0) - law.mean).abs() < 5 * (law.variance / n).sqrt()).all())
        fourth = (draws - law.mean).pow(4).mean(0)
        assert bool(((draws.var(0) - law.variance).abs() < 5 * ((fourth - law.variance**2) / n).sqrt() + 1e-12).all())


def test_divergences_between_argmax_laws() -> None:
    first, second = PerturbArgmax(BATCH, Gaussian()), PerturbArgmax(BATCH.flip(0))
    by_support = first.log_prob(first.enumerate_support()) - second.log_prob(first.enumerate_support())
    expected = (first.mean.T * by_support).sum(0)
    assert (kl_divergence(first, second) - expected).abs().max() < 1e-12
    gumbel, onehot = PerturbArgmax(3 * BATCH, Gumbel(0.2, 3.0)), OneHotCategorical(logits=BATCH)
    divergences = kl_divergence(gumbel, second), kl_divergence(onehot, OneHotCategorical(logits=BATCH.flip(0)))
    torch.testing.assert_close(*divergences, rtol=0, atol=1e-12)
    value = onehot.enumerate_support()
    for actual, right in ((gumbel.log_prob(value), onehot.log_prob(value)), (gumbel.variance, onehot.variance)):
        torch.testing.assert_close(actual, right, rtol=1e-13, atol=1e-15)
    sure = PerturbArgmax(vector(3, 0), Uniform())
    assert kl_divergence(sure, PerturbArgmax(vector(0, 0))).item() == pytest.approx(math.log(2))
    assert kl_divergence(PerturbArgmax(vector(0, 0)), sure).item() == math.inf


@pytest.mark.parametrize("noise", [Gaussian(0.3, 2.0), Logistic()], ids=str)
@pytest.mark.parametrize("classes", [2, 50])
def test_single_precision_gives_what_double_precision_gives(noise: Any, classes: int) -> None:
    """Values, and the slopes of all together."""
    given, pull = torch.randn(2, 2, 20, classes, generator=torch.Generator().manual_seed(0))

    def of(leaf: Tensor) -> list[Tensor]:
        law, prior = (PerturbArgmax(loc, noise) for loc in leaf.requires_grad_())
        uniform = OneHotCategorical(logits=torch.zeros_like(leaf[0]))
        pairs = ((law, prior), (law, uniform), (uniform, law))
        values = [law.mean, law.entropy(), *(kl_divergence(*pair) for pair in pairs)]
        total = (law.mean * pull[0]).sum() + (torch.stack(values[1:]).T * pull[1, :, :1]).sum()
        return [*values, *torch.autograd.grad(total, leaf)]

    for single, double in zip(of(given.clone()), of(given.double()), strict=True):
        assert single.dtype == torch.float32
        torch.testing.assert_close(single.double(), double, rtol=0, atol=1e-4)


@pytest.mark.claim("perturb-gaussian-kl", shows="statement", evidence="quadrature")
def test_divergence_between_gaussian_softmaxes() -> None:
    first, second = PerturbSoftmax(LOC, 0.5, Gaussian(0.3, 2.0)), PerturbSoftmax(LOC.flip(0), 0.8, Gaussian())
    # The ratios to the last class have the law N(differences/tau, (scale/tau)^2 (I + 1 1^T)).
    normals = [
        MultivariateNormal(
            (law.loc[:-1] - law.loc[-1]) / law.temperature,
            (law.noise.reduced.scale / law.temperature) ** 2 * (torch.eye(3, dtype=torch.float64) + 1),
        )
        for law in (first, second)
    ]
    assert abs(kl_divergence(first, second) - kl_divergence(*normals)) < 1e-12
    logs = [PerturbLogSoftmax(law.loc, law.temperature, law.noise) for law in (first, second)]
    assert kl_divergence(*logs) == kl_divergence(first, second)
    alike, v = PerturbSoftmax(LOC.square(), 0.5, Gaussian(1.0, 2.0)), LOC - LOC.square()
    assert abs(kl_divergence(first, alike) - (v - v.mean()).square().sum() / (2 * 2**2)) < 1e-12
    for law in (PerturbSoftmax(LOC), PerturbSoftmax(LOC, 0.5, Logistic())):
        with pytest.raises(NotImplementedError, match="closed between Gaussian noises, and between Gumbel noises"):
            kl_divergence(first, law)
    for tau, noise in ((0.8, Gumbel()), (torch.tensor(0.8), Gumbel()), (0.5, Gumbel(0.0, 2.0)), (0.5, Logistic())):
        with pytest.raises(NotImplementedError, match=r"at 0\.5 and .* at .*0\.[58]"):
            kl_divergence(PerturbSoftmax(LOC, 0.5), PerturbSoftmax(LOC, tau, noise))  # type: ignore[arg-type]
    learned = torch.tensor(0.5, requires_grad=True)  # equal now, but the divergence changes with it
    with pytest.raises(NotImplementedError, match="if learned, one tensor in both"):
        kl_divergence(PerturbSoftmax(LOC, learned), PerturbSoftmax(LOC, 0.5))


def divergence(theta: Tensor, other: Tensor) -> float:
    r"""KL between two relaxed Gumbel laws of one temperature, on which it does not depend, by mpmath.

    With standard exponentials E and a_j = e^{-(theta_j - other_j)} it is the sum of theta - other, plus d times
    E log sum a_j E_j - E log sum E_j; and E log Y is the integral of (e^-t - E e^{-tY})/t.
    """
    gaps = [mp.mpf(gap) for gap in (theta - other).tolist()]

    def mean_log(a: list[Any]) -> Any:
        value = lambda u: mp.exp(-mp.exp(u)) - mp.fprod(1 / (1 + b * mp.exp(u)) for b in a)  # noqa: E731
        return mp.quad(value, [-60, -20, -5, 0, 2, 5, 10, 20, 60])

    return float(mp.fsum(gaps) + len(gaps) * (mean_log([mp.exp(-gap) for gap in gaps]) - mp.digamma(len(gaps))))


@pytest.mark.parametrize("theta", [(0.0, 0.0), (4.0, -3.0), (0.0, 1.0, 2.0, 3.0, 4.0), (30.0, 0.0, -30.0)], ids=str)
def test_divergence_between_gumbel_softmaxes(theta: tuple[float, ...]) -> None:
    loc, scale = vector(*theta), 1.5
    laws = [PerturbSoftmax(at * scale, 0.3, Gumbel(0.2, scale)) for at in (loc, torch.zeros_like(loc))]
    expected = divergence(loc, torch.zeros_like(loc))
    assert kl_divergence(*laws).item() == pytest.approx(expected, rel=1e-12, abs=1e-12)
    at = loc.clone().requires_grad_()
    [slope] = torch.autograd.grad(kl_divergence(PerturbSoftmax(at), PerturbSoftmax(at.detach() * 0)), at)
    step = torch.eye(len(theta), dtype=torch.float64)[0] * 1e-5
    ends = [kl_divergence(PerturbSoftmax(loc + step * sign), PerturbSoftmax(loc * 0)).item() for sign in (1, -1)]
    assert slope[0].item() == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("kind", [PerturbSoftmax, PerturbArgmax])
def test_without_validation_no_value_is_read(kind: Any) -> None:
    scans = []

    def counted(name: str) -> Any:
        original = getattr(torch, name)
        return mock.patch.object(torch, name, lambda *a, **k: scans.append(name) or original(*a, **k))

    with counted("isfinite"), counted("isnan"), mock.patch.object(Tensor, "item", lambda _: scans.append("item")):  # noqa: PT008
        law = kind(BATCH, noise=Gumbel(), validate_args=False)
        drawn = law.sample((2,))
        law.expand((2, 3))
        law.log_prob(drawn)
    assert scans == []
    with counted("isfinite"):
        kind(BATCH)
    assert scans == ["isfinite"]
    with pytest.raises(ValueError, match="nan"):
        kind(vector(0, math.nan), validate_args=True)
    kind(vector(0, math.nan), validate_args=False)


@pytest.mark.parametrize("noise", [Gaussian(), Logistic()], ids=str)
def test_rare_classes_keep_their_digits_in_single_precision(noise: Any) -> None:
    loc = torch.tensor([[30.0, 0.0, 29.0], [0.0, 0.0, 0.0], [0.0, -12.0, 1.0]])
    single, double = PerturbArgmax(loc, noise), PerturbArgmax(loc.double(), noise)
    logs = double.log_prob(double.enumerate_support())
    assert logs.min() < -12
    assert torch.allclose(single.log_prob(single.enumerate_support()).double(), logs, rtol=1e-5)
    assert torch.allclose(single.log_prob(single.enumerate_support(expand=False)).double(), logs, rtol=1e-5)
    assert torch.allclose(PerturbArgmax(loc[0], noise).log_prob(torch.eye(3)).double(), logs[:, 0], rtol=1e-5)
    uniform = torch.zeros(3, 3)
    divergence = kl_divergence(PerturbArgmax(uniform, noise), single)
    exact = kl_divergence(PerturbArgmax(uniform.double(), noise), double)
    assert torch.allclose(divergence.double(), exact, rtol=1e-5)
    half = kl_divergence(single, PerturbArgmax(uniform.half(), noise))
    assert torch.allclose(half.double(), kl_divergence(double, PerturbArgmax(uniform.double(), noise)), atol=1e-6)


@pytest.mark.parametrize("noise", [Gumbel(), Gaussian(), Uniform()], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_divergences_from_and_of_torchs_categorical(noise: Any, dtype: torch.dtype) -> None:
    loc = BATCH.to(dtype)
    law, onehot = PerturbArgmax(loc, noise), OneHotCategorical(logits=loc.flip(-1))
    p, q = law.mean, onehot.probs
    digits = 1e-5 if dtype == torch.float32 else 1e-12
    forth = (torch.special.xlogy(p, p) - p * q.log()).sum(-1)
    assert torch.allclose(kl_divergence(law, onehot), forth, rtol=digits, atol=digits)
    assert torch.allclose(kl_divergence(onehot, law), (q * (q.log() - p.log())).sum(-1), rtol=digits, atol=digits)
    two_classes = OneHotCategorical(probs=torch.tensor([0.5, 0.5, 0.0, 0.0], dtype=dtype))
    assert kl_divergence(law, two_classes).tolist() == [math.inf] * 3
    by_hand = (0.5 * (math.log(0.5) - p[:, :2].log())).sum(-1)  # infinite for uniform noise, where a class cannot win
    assert torch.allclose(kl_divergence(two_classes, law), by_hand, rtol=digits, atol=digits)
    with torch.autograd.forward_ad.dual_level():  # equal rows, which move apart
        rows = torch.autograd.forward_ad.make_dual(torch.zeros(2, 4), torch.eye(2, 4))
        value = PerturbArgmax(rows, Gaussian()).log_prob(torch.eye(2, 4))
        assert torch.autograd.forward_ad.unpack_dual(value).tangent.diff().abs() < 1e-6
    prior = kl_divergence(law, PerturbArgmax(torch.zeros(4, dtype=dtype)))  # broadcast
    assert torch.allclose(prior, math.log(4) - law.entropy(), atol=10 * digits)


@pytest.mark.parametrize("noise", [Gumbel(), Gaussian(), Uniform()], ids=str)
def test_straight_through_draws_one_hot_vectors_with_the_mean_s_gradient(noise: Any) -> None:
    loc, weights = BATCH.clone().requires_grad_(), torch.randn(3, 4, dtype=torch.float64)
    law = PerturbArgmaxStraightThrough(loc, noise)
    drawn = law.rsample((5,), generator=torch.Generator().manual_seed(0))
    assert torch.allclose(drawn, law.sample((5,), generator=torch.Generator().manual_seed(0)))
    [slope] = torch.autograd.grad((drawn * weights).sum() / 5, loc)
    [of_mean] = torch.autograd.grad((PerturbArgmax(loc, noise).mean * weights).sum(), loc)
    assert torch.allclose(slope, of_mean, atol=1e-12)


PRIOR = OneHotCategorical(logits=torch.zeros(5))
TRACED: dict[str, Callable[[Tensor], Tensor]] = {
    "relaxed draws": lambda t: PerturbSoftmax(t, 0.5).rsample(),
    "relaxed draws, Gaussian": lambda t: PerturbSoftmax(t, torch.tensor(0.5), Gaussian()).rsample(),
    "logarithms": lambda t: PerturbLogSoftmax(t, 0.5).rsample(),
    "density": lambda t: PerturbSoftmax(t, 0.5).log_prob(torch.full((3, 5), 0.2)),
    "density of logarithms": lambda t: PerturbLogSoftmax(t, 0.5).log_prob(torch.full((3, 5), 0.2).log()),
    "one-hot draws": lambda t: PerturbArgmax(t).sample(),
    "probability": lambda t: PerturbArgmax(t).log_prob(torch.eye(5)[:3]),
    "entropy": lambda t: PerturbArgmax(t).entropy(),
    "straight-through": lambda t: PerturbArgmaxStraightThrough(t).rsample(),
    "divergence": lambda t: kl_divergence(PerturbArgmax(t), PRIOR),
}


@pytest.mark.parametrize("name", TRACED)
def test_what_torch_traces_is_traced(name: str) -> None:
    call, loc = TRACED[name], torch.zeros(3, 5)
    shape = call(loc).shape
    torch._dynamo.reset()
    compiled = torch.compile(lambda t: call(t).sum(), fullgraph=True, backend="eager")
    assert compiled(loc).shape == ()
    mapped = torch.func.vmap(call, randomness="different")(loc.expand(4, 3, 5))
    assert mapped.shape == (4, *shape)
    if "draws" in name:
        assert len(mapped.flatten(1).unique(dim=0)) > 1


@pytest.mark.parametrize("name", ["probability", "entropy", "divergence", "straight-through"])
@pytest.mark.parametrize("noise", [Gaussian(), Logistic(), Cauchy()])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_quadratures_are_mapped_or_say_so(name: str, noise: Any, dtype: torch.dtype, monkeypatch: Any) -> None:
    """Each row of values and gradients is that of all rows at once."""
    for law in (PerturbArgmax, PerturbArgmaxStraightThrough):
        monkeypatch.setitem(globals(), law.__name__, lambda loc, law=law: law(loc, noise))
    loc = (torch.arange(60, dtype=dtype).view(4, 3, 5).sin() * 3).masked_fill(torch.arange(5) == 4, -math.inf)
    call = {
        "probability": lambda t: PerturbArgmax(t).log_prob(torch.eye(3, 5, dtype=dtype)),
        "divergence": lambda t: kl_divergence(PerturbArgmax(t), PerturbArgmax(t.detach() / 2)),
        "straight-through": lambda t: PerturbArgmax(t).mean,
    }.get(name, TRACED[name])
    if isinstance(noise, Cauchy):
        for quadrature in (call, lambda t: PerturbSoftmax(t, 0.5, noise).mean):
            with pytest.raises(NotImplementedError, match=r"torch.func maps no quadrature of Cauchy.*: give all rows"):
                torch.func.vmap(quadrature)(loc)
        return
    slope, value = torch.func.vmap(torch.func.grad_and_value(lambda t: call(t).square().sum()))(loc)
    torch.testing.assert_close(value, call(loc).square().flatten(1).sum(-1))
    (expected,) = torch.autograd.grad(call(loc.requires_grad_()).square().sum(), loc)
    torch.testing.assert_close(slope, expected, atol=2e-5 if dtype == torch.float32 else 1e-10, rtol=1e-4)
    if name == "entropy" and dtype == torch.float64:
        torch.autograd.gradcheck(lambda t: torch.func.grad(lambda s: call(s).sum())(t), loc[0, :, :4])


FAR: dict[Any, Callable[[Tensor], Tensor]] = {  # log P of the lower of two classes, for large gaps
    Gaussian(1.0, 2.0): lambda gap: torch.special.log_ndtr(-gap / 2 / math.sqrt(2)),
    Logistic(): lambda gap: (gap - 1 + (-gap).exp()).log() - gap - 2 * torch.log1p(-(-gap).exp()),
    Exponential(0.0, 2.0): lambda gap: -gap / 2 - math.log(2),
}


@pytest.mark.parametrize("dtype, digits", [(torch.float32, 1e-6), (torch.float64, 1e-9)])
@pytest.mark.parametrize("noise", FAR, ids=str)
@pytest.mark.parametrize("gap", [24.0, 30.0, 60.0, 107.0, 120.0, 715.0, 1430.0, 1500.0])
def test_the_rarest_classes_and_their_gradients(noise: Any, gap: float, dtype: Any, digits: float) -> None:
    """Eager and mapped, beyond what double precision holds; in graphs divergences of Gaussian laws end at e^-1500."""
    wide, loc, hot = vector(gap).requires_grad_(), vector(0, -gap, -math.inf).to(dtype), torch.eye(3, dtype=dtype)[1]
    right = FAR[noise](wide).squeeze()
    [slope] = torch.autograd.grad(right, wide)
    point, prior = OneHotCategorical(probs=hot), OneHotCategorical(logits=torch.zeros_like(loc))
    log_p = lambda t: PerturbArgmax(t, noise).log_prob(hot)  # noqa: E731
    forth = lambda t: -kl_divergence(point, PerturbArgmax(t, noise))  # noqa: E731
    back = lambda t: kl_divergence(PerturbArgmax(t, noise), prior)  # noqa: E731
    eager = lambda f: (torch.autograd.grad(f(leaf := loc.clone().requires_grad_()), leaf)[0], f(loc))  # noqa: E731
    for take in (eager,) if isinstance(noise, Exponential) else (eager, lambda f: torch.func.grad_and_value(f)(loc)):
        assert take(back)[0].isfinite().all()
        ends = take is not eager and isinstance(noise, Gaussian) and right.item() < -1500
        assert not ends or take(forth)[1].item() == -math.inf
        for actual in map(take, (log_p,) if ends else (log_p, forth)):
            wanted = (torch.cat([slope, -slope, 0 * slope]).to(dtype), right.to(dtype))
            torch.testing.assert_close(actual, wanted, rtol=digits, atol=0)


@pytest.mark.parametrize("noise", [Gaussian(0.3, 0.3), Logistic()], ids=str)
def test_rows_of_far_classes_by_rows_and_all_at_once(noise: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """From likely ones to e^-600 and below, with gradients; all at once, most are of another quadrature."""
    monkeypatch.setitem(batched.BLOCK, "cpu", 4000)  # few of them at a time
    loc = 5 * torch.randn(50, 10, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    prior, leaf = OneHotCategorical(logits=torch.zeros_like(loc[0])), loc.clone().requires_grad_()
    value = PerturbArgmax(leaf, noise).log_prob(torch.eye(10).unsqueeze(1)).sum(0)
    [slope] = torch.autograd.grad(value.sum(), leaf)
    assert value.min() < (-2000 if isinstance(noise, Gaussian) else -100)
    torch.testing.assert_close(PerturbArgmax(loc[value.argmin()], noise).log_prob(torch.eye(10)).sum(), value.min())
    for call in (
        lambda t: PerturbArgmax(t, noise).log_prob(torch.eye(10)).sum(),
        lambda t: -10 * (kl_divergence(prior, PerturbArgmax(t, noise)) + math.log(10)),
    ):
        mapped = torch.func.vmap(torch.func.grad_and_value(call))(loc)
        torch.testing.assert_close(mapped, (slope, value), rtol=1e-9, atol=1e-9)
    point = lambda p: torch.func.hessian(lambda t: kl_divergence(OneHotCategorical(p), PerturbArgmax(t, noise)))  # noqa: E731
    hessians = point(vector(0.5, 0.5, 0))(vector(0, 1, -math.inf))[:2, :2], point(vector(0.5, 0.5))(vector(0, 1))
    torch.testing.assert_close(*hessians)


@pytest.mark.parametrize("noise", [Gumbel(), Gaussian(), Logistic(), Cauchy()], ids=str)
def test_a_single_class_left_in_every_row_has_the_gradient_0(noise: Any) -> None:
    loc = vector(1, -math.inf).requires_grad_()
    law = PerturbArgmax(loc, noise)
    for value in (law.log_prob(vector(1, 0)), law.entropy(), law.mean[0], law.variance[0]):
        assert not torch.autograd.grad(value, loc)[0].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_second_derivatives_that_are_not_known_are_refused(dtype: torch.dtype) -> None:
    loc = torch.tensor([1.0, 0.0, -1.0], dtype=dtype, requires_grad=True)
    law = PerturbArgmax(loc, Gaussian())
    for value in (law.mean[0], law.entropy(), kl_divergence(law, PerturbArgmax(torch.zeros(3), Gaussian()))):
        with pytest.raises(RuntimeError, match="only first derivatives are known here: leave out create_graph"):
            torch.autograd.grad(value, loc, create_graph=True)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: PerturbSoftmax(torch.zeros(3).int(), 1.0), "loc must be a floating-point tensor"),  # type: ignore[arg-type]
        (lambda: PerturbArgmax(torch.zeros(3, 1)), r"loc has shape \(3, 1\)"),
        (lambda: PerturbArgmax(torch.zeros(0, 3)), r"loc has shape \(0, 3\): no row"),
        (lambda: PerturbLogSoftmax(vector(0, math.nan)), "loc holds nan"),
        (lambda: PerturbSoftmax(vector(0, math.inf), validate_args=False).mean, "loc holds inf"),
        (lambda: PerturbArgmax(torch.full((3,), -math.inf)), "loc holds -inf"),
        (lambda: PerturbArgmax(vector(0, -math.inf, math.inf)), "loc holds inf"),
        (lambda: PerturbSoftmax(vector(0, -math.inf)), "loc holds -inf; .*leave it out"),
        (lambda: PerturbSoftmax(LOC, -1.0), "temperature is -1.0"),
        (lambda: PerturbSoftmax(LOC, "1/2"), "temperature is '1/2'; it must be one finite number > 0"),  # type: ignore[arg-type]
        (lambda: PerturbSoftmax(LOC).sample((), 3), "generator is 3; it must be a torch.Generator"),  # type: ignore[arg-type]
        (lambda: kl_divergence(PerturbArgmax(torch.zeros(4, 3)), PerturbArgmax(torch.zeros(2))), "do not broadcast"),
        (lambda: kl_divergence(PerturbSoftmax(torch.zeros(4, 3)), PerturbSoftmax(torch.zeros(2))), "do not broadcast"),
        (lambda: PerturbLogSoftmax(LOC, vector(1, 2)), r"temperature is of shape \(2,\)"),
        (lambda: PerturbSoftmax(LOC, 1.0, "gumbel"), r"give one of sumexp\.perturb\.noises"),  # type: ignore[arg-type]
        (lambda: PerturbArgmax(LOC, Gumbel), r"give one of sumexp\.perturb\.noises"),  # type: ignore[arg-type]
        (lambda: softmax.mean(LOC, 1.0), "noise is 1.0; it must be a Noise"),  # type: ignore[arg-type]
    ],
)
def test_errors_name_what_the_caller_gave(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("noise", [Gumbel(), Gaussian(0.3, 2.0)], ids=str)
@pytest.mark.parametrize("kind", [PerturbSoftmax, PerturbLogSoftmax])
def test_a_temperature_for_each_row_is_that_of_the_row(kind: Any, noise: Any) -> None:
    taus = vector(0.5, 1.0, 2.0).unsqueeze(-1)
    law, rows = kind(BATCH, taus, noise), [kind(row, tau, noise) for row, tau in zip(BATCH, taus, strict=True)]
    drawn = law.sample((6,))
    assert drawn.shape == (6, 3, 4)
    prior = kind(BATCH.flip(0), taus, noise)
    for i, row in enumerate(rows):  # tau of shape [1]
        assert torch.allclose(law.log_prob(drawn)[:, i], row.log_prob(drawn[:, i]), rtol=1e-13)
        for name in ("mean", "variance") if kind is PerturbSoftmax else ("mean",):
            assert torch.allclose(getattr(law, name)[i], getattr(row, name), rtol=1e-12)
        assert torch.allclose(law.entropy()[i], row.entropy(), rtol=1e-12)
        single = kl_divergence(row, kind(BATCH.flip(0)[i], taus[i], noise))
        assert torch.allclose(kl_divergence(law, prior)[i], single, rtol=1e-12)
    assert law.expand((2, 3)).log_prob(drawn[:2]).shape == (2, 3)
    assert kind(BATCH.half(), taus, noise).sample().dtype == torch.float16
    assert kind(BATCH[0].float(), taus[0, 0], noise).log_prob(drawn[0, 0].float()).dtype == torch.float32
    for bad, message in ((vector(1, -1, 1)[:, None], "temperature is -1"), (torch.ones(2, 1), r"is of shape \(2, 1\)")):
        with pytest.raises(ValueError, match=message):
            kind(BATCH, bad, noise)
