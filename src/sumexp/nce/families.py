r"""The best member of a family of scores that is linear in its parameters, under the exact population losses.

Global NCE is consistent if the family has :math:`s(x,y) = \log\frac{\mathrm{pop}(y|x)}{q(y)} + c(x)` for some c; local
NCE needs :math:`c = -\log(n-1)`, scores that are self-normalised at every x.

Source: Stratos, section 2.2, last paragraph.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from sumexp._checks import law, typed
from sumexp.nce._inputs import checked_law
from sumexp.nce.joint import Joint


@typed
def scores(features: Tensor, theta: Tensor) -> Tensor:
    r"""[X, Y] :math:`s_\theta(x,y) = \sum_k\theta_kf_k(x,y)` in float64, for ``features`` [X, Y, K] and ``theta`` [K].

    Raises:
        ValueError: if a shape does not fit, or a feature or parameter is not finite.
    """
    f = _features(features)
    if theta.shape != f.shape[-1:] or not bool(theta.isfinite().all()):
        raise ValueError(f"theta is {theta.tolist()}; it must be [{f.shape[-1]}] finite numbers, one for each feature")
    return f @ theta.to(torch.float64)


@typed
def tilted(features: Tensor, theta: Tensor, x: Tensor, log_q: Tensor) -> Joint:
    r"""The joint law with :math:`\mathrm{pop}(y|x) \propto q(y)e^{s_\theta(x,y)}`, which the family fits up to c(x).

    ``features`` are [X, Y, K], ``theta`` [K] the true parameters, ``x`` [X] the marginal, ``log_q`` [Y] of the noise.

    Raises:
        ValueError: if ``log_q`` or ``x`` is no law, a shape does not fit, or a score is not finite.
    """
    s = scores(features, theta)
    if x.shape != s.shape[:1] or not bool(s.isfinite().all()):
        shapes = f"x has shape {tuple(x.shape)}, the scores {tuple(s.shape)}"
        raise ValueError(f"{shapes}; they must be [X] and [X, Y], the scores within double precision")
    return Joint(law("x", x).unsqueeze(1) * torch.softmax(s + checked_law(log_q, s), -1))


@typed
@torch.inference_mode(False)
@torch.enable_grad()
def fit(features: Tensor, loss: Callable[[Tensor], Tensor], tolerance: float = 1e-9) -> Tensor:
    """[K] the parameters that minimise a convex population loss of the scores, deterministic.

    Args:
        features: [X, Y, K].
        loss: from scores [X, Y] to a scalar, such as ``lambda s: global_nce.cross_entropy(joint, s, n, log_q)``.
        tolerance: the search stops where no entry of the gradient is larger.

    Raises:
        ValueError: if there is no feature, a shape does not fit, or the gradient stays too large. (A loss that flattens
            out towards infinity has small gradients without a minimum.)
    """
    features = _features(features).clone()
    if not tolerance > 0:
        raise ValueError(f"tolerance is {tolerance!r}; it must be positive")
    theta = torch.zeros(features.shape[-1], dtype=torch.float64, device=features.device, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [theta], max_iter=500, tolerance_grad=tolerance, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimiser.zero_grad()
        current = loss(features @ theta)
        current.backward()  # type: ignore[no-untyped-call]
        return current

    optimiser.step(closure)  # type: ignore[no-untyped-call]
    closure()
    slope = 0.0 if theta.grad is None else theta.grad.abs().max().item()
    if not slope <= 100 * tolerance:
        raise ValueError(
            f"the gradient is still {slope:.1e} at {theta.tolist()}: the loss has no minimum (add a penalty), or "
            f"tolerance = {tolerance:.0e} is too small"
        )
    return theta.detach()


def _features(features: Tensor) -> Tensor:
    """The features in float64."""
    if features.ndim != 3 or 0 in features.shape[1:] or not bool(features.isfinite().all()):
        raise ValueError(
            f"features is {tuple(features.shape)}; it must be [X, Y, K] finite numbers, Y and K at least 1"
        )
    return features.to(torch.float64)
