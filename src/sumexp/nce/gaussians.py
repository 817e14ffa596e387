r"""Estimates of the mutual information of correlated Gaussians, which is known.

Coordinates are independent pairs of unit variance and correlation :math:`\rho`, so that

.. math:: I(X, Y) = -\frac d2 \log(1 - \rho^2), \qquad
    \log \frac{p(y \mid x)}{p(y)} = I + \frac{2\rho\,x \cdot y - \rho^2(|x|^2 + |y|^2)}{2(1 - \rho^2)}.

Two estimators are trained on fresh draws. *CPC* maximises InfoNCE's value B, a lower bound of I that never exceeds
log N. The *difference of entropies* (DoE) minimises the cross entropies of a model of y and of a model of y given x,
and reports their difference, which is no bound and has no ceiling.

Source: McAllester and Stratos, Formal Limitations on the Measurement of Mutual Information, 2020.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils import skip_init

from sumexp import _checks as checks
from sumexp import _descent as descent
from sumexp._checks import typed
from sumexp._runtime import NO_CHECKPOINT, Checkpoint, Progress, Result


@typed
def mutual_information(dim: int, rho: float) -> float:
    r""":math:`-\frac d2\log(1-\rho^2)`, in nats, for d >= 1 and :math:`|\rho|<1`."""
    checks.whole("dim", dim, 1)
    if not abs(rho) < 1:
        raise ValueError(f"rho is {rho!r}; a correlation lies between -1 and 1")
    # Of rho from 1/2 on 1 - rho is exact, the square is not.
    return -dim / 2 * (math.log1p(-rho * rho) if abs(rho) < 0.5 else math.log((1 - rho) * (1 + rho)))


@typed
def sample(dim: int, rho: float, shape: tuple[int, ...], generator: torch.Generator) -> tuple[Tensor, Tensor]:
    r"""Correlated pairs x and y, float32 [\*shape, dim] each, on the device of the generator."""
    mutual_information(dim, rho)
    shape = tuple(checks.whole("shape", size, 0) for size in shape)
    x, noise = torch.randn((2, *shape, dim), dtype=torch.float32, generator=generator, device=generator.device)
    return x, rho * x + math.sqrt(1 - rho * rho) * noise


@typed
def info_nce_value(scores: Tensor) -> Tensor:
    r"""InfoNCE's value on a batch, each row's negatives being the other rows' positives.

    .. math:: \hat B = \frac1N\sum_i \log\frac{e^{s_{ii}}}{\frac1N\sum_j e^{s_{ij}}}

    For scores s(x_i, y_j) [..., N, N] it is an unbiased estimate [...] of B(s) of Stratos, section 1.2.

    Raises:
        ValueError: if the scores are not [..., N, N] with N >= 1, or one is not finite.
    """
    if scores.ndim < 2 or scores.shape[-1] != scores.shape[-2] or not scores.shape[-1]:
        raise ValueError(f"scores have shape {tuple(scores.shape)}; a batch has [..., N, N], N >= 1")
    if not scores.is_floating_point() or not checks.read(scores.isfinite().all(), default=1)[0]:
        raise ValueError(f"scores are {scores.dtype}, or one is infinite; give finite floating-point scores")
    n = scores.shape[-1]
    return (scores.diagonal(dim1=-2, dim2=-1) - scores.logsumexp(-1)).mean(-1) + math.log(n)


@typed
def optimal_bound(dim: int, rho: float, candidates: int, nodes: int = 300) -> float:
    r"""The largest value of InfoNCE's bound, B of the optimal critic, by quadrature.

    With r the ratio p(y | x)/p(y), x fixed, and t > 0,

    .. math:: B = I - \int_0^\infty \frac{e^{-Nt} - \mathbb E_x\,\varphi_+(t)\,\varphi_-(t)^{N-1}}t\,dt, \qquad
        \varphi_\pm(t) = \mathbb E_\pm e^{-t r}.

    For these Gaussians log r depends on y through one non-central chi-square variable W of d degrees,

    .. math:: \log r = I + \frac{|x|^2}2 - \frac{\rho^2}2 W_+ = I + \frac{|x|^2}2 - \frac{\rho^2}{2(1-\rho^2)} W_-,

    whose non-centralities are :math:`|x|^2(1-\rho^2)/\rho^2` and :math:`|x|^2/\rho^2`, and :math:`|x|^2` is chi-square.

    ``dim`` is d, ``rho`` the correlation, not 0, ``candidates`` N. The rule for W has ``nodes``, that for :math:`|x|^2`
    half of them; doubling them shows the error.
    """
    checks.whole("nodes", nodes, 4, 10_000)
    if dim < 1 or candidates < 1 or not 0 < abs(rho) < 1:
        raise ValueError(
            f"dim {dim}, rho {rho}, candidates {candidates}: want dim >= 1, 0 < |rho| < 1, candidates >= 1"
        )
    from scipy.stats import chi2, ncx2

    tail, information, square, rest = 1e-15, mutual_information(dim, rho), rho * rho, (1 - rho) * (1 + rho)
    log_s = np.linspace(np.log(chi2.ppf(tail, dim)), np.log(chi2.isf(tail, dim)), nodes // 2)
    s = np.exp(log_s)
    if s[-1] > 3e10 * square:
        raise ValueError(f"rho is {rho}; SciPy's quantiles of W need one of size {math.sqrt(s[-1] / 3e10):.0e} or more")
    weight_s = chi2.pdf(s, dim) * s
    weight_s /= weight_s.sum()

    def ratios(noncentrality: NDArray[np.float64], slope: float) -> tuple[Tensor, Tensor]:
        """log r and its probabilities, [|x|^2, W] each."""
        low, high = np.log(ncx2.ppf(tail, dim, noncentrality)), np.log(ncx2.isf(tail, dim, noncentrality))
        w = np.exp(np.linspace(low, high, nodes, axis=-1))
        mass = ncx2.pdf(w, dim, noncentrality[:, None]) * w
        return torch.from_numpy(information + s[:, None] / 2 - slope * w), torch.from_numpy(
            mass / mass.sum(1, keepdims=True)
        )

    positive = ratios(s * rest / square, square / 2)
    negative = ratios(s / square, square / (2 * rest))
    low = -max(float(positive[0].max()), math.log(candidates)) - 38
    high = 4 - min(float(positive[0].min()), 0.0)
    step = 0.25
    u = low + step * torch.arange(math.ceil((high - low) / step) + 1, dtype=torch.float64)

    def lost(log_r: Tensor, mass: Tensor) -> Tensor:
        """1 - phi on the nodes, [|x|^2, t]."""
        rows = [m @ -torch.expm1(-torch.exp(r[:, None] + u)) for r, m in zip(log_r, mass, strict=True)]
        return torch.stack(rows).clamp(max=1.0)

    log_product = torch.log1p(-lost(*positive)) + torch.special.xlog1py(candidates - 1, -lost(*negative))
    # e^{-Nt} - phi phi^{N-1} as a difference of two numbers that both start at 0.
    gap = torch.expm1(-candidates * u.exp()) - torch.from_numpy(weight_s) @ torch.expm1(log_product)
    return information - step * float(gap.sum())


@dataclass(frozen=True)
class GaussianConfig:
    """One configuration of an estimator, and its task.

    Attributes:
        estimator: ``cpc`` or ``doe``.
        hidden: width of the hidden ReLU layer of each network; 0 makes the networks linear, and CPC's critic bilinear.
            CPC's networks have ``dim`` outputs, whose product is the score.
        family: of DoE's models of each coordinate.
        learning_rate: of Adam at the first step; it falls to zero along a cosine.
        dim: d.
        rho: correlation.
        candidates: N, the number of pairs in a batch.
        steps: of training, each on a fresh batch.
        evaluations: number of fresh batches for validation, and again for the test.
        seed: of all random draws.
    """

    estimator: Literal["cpc", "doe"] = "cpc"
    hidden: int = 0
    family: Literal["normal", "logistic"] = "normal"
    learning_rate: float = 1e-3
    dim: int = 128
    rho: float = 0.5
    candidates: int = 128
    steps: int = 3000
    evaluations: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        checks.attributes(self)
        checks.positive(self, "learning_rate", "dim", "candidates", "steps", "evaluations")
        if not abs(self.rho) < 1:
            raise ValueError(f"rho must lie strictly between -1 and 1, got {self.rho!r}")
        if self.hidden < 0:
            raise ValueError(f"hidden must not be negative, got {self.hidden!r}; 0 makes the networks linear")

    @property
    def name(self) -> str:
        """The name in tables."""
        shape = f"MLP {self.hidden}" if self.hidden else {"cpc": "bilinear", "doe": "linear"}[self.estimator]
        return f"{shape}{f', {self.family}' if self.estimator == 'doe' else ''}, lr {self.learning_rate:g}"


class Critic(nn.Module):
    """CPC's score f(x) · g(y); with linear networks x'Wy."""

    def __init__(self, config: GaussianConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.f = _network(config.dim, config.dim, config.hidden, generator)
        self.g = _network(config.dim, config.dim, config.hidden, generator) if config.hidden else nn.Identity()

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """InfoNCE's value of a batch x, y [..., N, d]: [..., 1]."""
        return info_nce_value(self.f(x) @ self.g(y).mT)[..., None]

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """The objective to minimise: minus the value."""
        return -self.forward(x, y).mean()


class Entropies(nn.Module):
    """DoE's models: independent coordinates for y, and for y given x with location and log scale by a network."""

    def __init__(self, config: GaussianConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.log_density = {"normal": _log_normal, "logistic": _log_logistic}[config.family]
        self.marginal = nn.Parameter(torch.zeros(2 * config.dim, dtype=torch.float32))
        self.conditional = _network(config.dim, 2 * config.dim, config.hidden, generator)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """The two cross entropies of a batch x, y [..., N, d]: [..., 2]."""
        both = [-self.log_density(y, *p.chunk(2, -1)).sum(-1).mean(-1) for p in (self.marginal, self.conditional(x))]
        return torch.stack(both, -1)

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """The objective to minimise: the sum of both, which share no parameter."""
        return self.forward(x, y).sum(-1).mean()


def _log_normal(y: Tensor, loc: Tensor, log_scale: Tensor) -> Tensor:
    return -0.5 * ((y - loc) * torch.exp(-log_scale)).square() - log_scale - 0.5 * math.log(2 * math.pi)


def _log_logistic(y: Tensor, loc: Tensor, log_scale: Tensor) -> Tensor:
    z = (y - loc) * torch.exp(-log_scale)
    return -log_scale - z - 2 * nn.functional.softplus(-z)  # softplus(z) = softplus(-z) + z


def _network(inputs: int, outputs: int, hidden: int, generator: torch.Generator) -> nn.Module:
    """A linear map, or two with ReLU between; the first weights are Xavier's, from the generator."""
    layers: list[nn.Module] = []
    for ends in pairwise((inputs, hidden, outputs) if hidden else (inputs, outputs)):
        layer = skip_init(nn.Linear, *ends, dtype=torch.float32)  # type: ignore[no-untyped-call]
        nn.init.xavier_uniform_(layer.weight, generator=generator)
        nn.init.zeros_(layer.bias)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def train(
    config: GaussianConfig, /, *, device: str = "cpu", progress: Progress = iter, checkpoint: Checkpoint = NO_CHECKPOINT
) -> Result:
    """Train one configuration, then evaluate it on fresh batches.

    ``validation`` and ``test``, [evaluations, columns], are InfoNCE's value (CPC) or both cross entropies (DoE) of each
    batch; the metrics are the means of their columns, ``validation_0``, ...
    """
    generator = torch.Generator().manual_seed(config.seed)
    # All configurations of one seed are compared on the same fresh batches.
    unseen = torch.Generator().manual_seed(config.seed + 1_000_003)
    model = (Critic if config.estimator == "cpc" else Entropies)(config, generator)
    model.to(device)
    if descent.on_gpu(device):
        generator = torch.Generator(device).manual_seed(config.seed)

    def batches(source: torch.Generator, *shape: int) -> tuple[Tensor, Tensor]:
        x, y = sample(config.dim, config.rho, (*shape, config.candidates), source)
        return x.to(device), y.to(device)

    optimiser = descent.adam(model.parameters(), config.learning_rate, device)
    descent.train_steps(
        config.estimator,
        optimiser,
        model.loss,
        lambda: batches(generator),
        config.steps,
        device=device,
        progress=progress,
    )
    with torch.no_grad():
        losses = {name: model(*batches(unseen, config.evaluations)).double() for name in ("validation", "test")}
    metrics = {f"{name}_{i}": v.item() for name, values in losses.items() for i, v in enumerate(values.mean(0))}
    return Result({name: values.cpu().numpy() for name, values in losses.items()}, metrics)


def estimates(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Estimates of I from columns [..., c]: the value, or the first cross entropy minus the second."""
    return np.asarray(columns[..., 0] - columns[..., 1:].sum(-1))


def honest(validation: NDArray[np.float64]) -> tuple[int, ...]:
    """The configuration to report for each column of ``validation``, [configurations, columns], without the truth.

    InfoNCE's value is a lower bound: the largest is best. Each of DoE's cross entropies is an upper bound: the smallest
    is best. Their difference is no bound and selects nothing.
    """
    best = validation.argmax(0) if validation.shape[1] == 1 else validation.argmin(0)
    return tuple(int(i) for i in best)


def oracle(test: NDArray[np.float64], truth: float) -> int:
    """The configuration whose estimate on the test, [configurations, columns], comes closest to the truth I."""
    return int(np.abs(estimates(test) - truth).argmin())


def _grid(rates: Sequence[float], widths: Sequence[int], like: GaussianConfig) -> tuple[GaussianConfig, ...]:
    """Both estimators with each width and rate, DoE also with logistic models; all else as in ``like``."""
    kinds: tuple[dict[str, Any], ...] = ({}, {"estimator": "doe"}, {"estimator": "doe", "family": "logistic"})
    return tuple(replace(like, hidden=h, learning_rate=r, **kind) for kind in kinds for h in widths for r in rates)


GRIDS: Mapping[str, tuple[GaussianConfig, ...]] = MappingProxyType(
    {
        "smoke": _grid([3e-2], [0, 16], GaussianConfig(dim=16, candidates=16, steps=60, evaluations=20)),
        "cpu": (*_grid([1e-3, 3e-3], [0], GaussianConfig()), GaussianConfig(hidden=256, learning_rate=3e-3)),
        "paper": _grid([3e-4, 1e-3, 3e-3, 1e-2], [0, 256, 1024], GaussianConfig()),
    }
)
"""The configurations that each profile compares; ``cpu`` and ``paper`` train for the published 3,000 steps."""
