r"""Two parametrisations of one minimum: log q in the loss, or log q in the served score.

Train on the sampled softmax with :math:`\log q` subtracted from all logits and hits kept, and serve f; or train without
a correction and serve :math:`g=f+\log q`. As functions of the served score both losses are the same function of
:math:`g-\log q`. If the model can represent a set F of functions, the first minimises over :math:`g\in F`, the second
over :math:`g\in F+\log q`.

- If :math:`F+\log q=F`, as with free scores or an unregularised number per item, both have the same served minima. From
  the same served score gradient descent and Adam take the same path.
- Otherwise neither set contains the other, and the data decide. Examples are towers without a number per item, cosines,
  and weight decay on the number, which pulls g to the zero of F in the first case and to :math:`\log q` in the second.

If popularity changes between training and serving, :math:`P'(y\mid x)\propto P(y\mid x)\,q'(y)/q(y)`, add
:math:`\log q'-\log q` to the served score in either case: the second then serves :math:`f+\log q'`. If only the
*proposal* changes and P does not, the served score of training stays right.

This module trains both from the same towers on the world of :mod:`sumexp.chapters.towers`, by L-BFGS on the exact mean
over P of the full softmax of the served scores: the limit of many negatives. If the set does not contain the truth, the
minimum can move with their number.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from sumexp import _checks as checks
from sumexp.chapters import towers

Model = Literal["number per item", "no number per item", "cosine"]
"""What the towers can hold: each a set F."""
Served = Literal["f", "f + log q"]
"""The score that is served: with log q subtracted from all logits in training, or without a correction."""

MODELS: tuple[Model, ...] = ("number per item", "no number per item", "cosine")
SERVED: tuple[Served, ...] = ("f", "f + log q")

LOSS_NAMES: Mapping[str, str] = {
    "full": "all items",
    "none": "no log q",
    "kept": "log q from all logits, hits kept",
    "masked": "log q from all logits, hits masked",
    "importance": "log(m q) from negatives, hits masked",
    "negatives": "log q from negatives, hits masked",
    "baseline": "log q from negatives, hits masked",
    "refined": "refined",
    "mixed": "mixed negatives",
    "popularity": "negatives by popularity",
    "siglip": "SigLIP",
    "gbce": "gBCE",
}
"""The chapter's words for the losses of :mod:`sumexp.negatives.enumerated` and :mod:`sumexp.chapters.catalogue.forms`.

The catalogue's ``negatives`` and the enumeration's ``baseline`` are the same loss.
"""


@dataclass(frozen=True)
class Limited:
    """Towers, a linear one for contexts and a vector for each item, and their limits.

    Attributes:
        model: the set F; cosines have a learned temperature.
        decay: of the items' biases: half of it times their mean square is added to the loss.

    Raises:
        ValueError: if the model is unknown or the decay negative.
    """

    model: Model = "number per item"
    decay: float = 0.0

    def __post_init__(self) -> None:
        checks.choice("model", self.model, MODELS)
        if not self.decay >= 0:
            raise ValueError(f"decay is {self.decay!r}; it must be a number >= 0")


def trained(world: towers.World, limited: Limited, served: Served, steps: int = 300, seed: int = 0) -> Tensor:
    """The served scores [contexts, items] at the smallest mean loss that L-BFGS finds."""
    checks.choice("served", served, SERVED)
    generator = torch.Generator().manual_seed(seed)
    features, (items, width) = world.contexts, world.items.shape
    offset = world.log_q if served == "f + log q" else torch.zeros_like(world.log_q)
    start = torch.cat([
        torch.eye(width, dtype=torch.float64).flatten(),
        0.1 * torch.randn(items * width, generator=generator, dtype=torch.float64),
        torch.zeros(items + 1, dtype=torch.float64),
    ])  # fmt: skip
    if limited.model == "number per item":
        start[-items - 1 : -1] = world.log_q - offset  # either way the served score starts at the popularity
    p = world.log_p.exp()

    def scores(flat: Tensor) -> tuple[Tensor, Tensor]:
        sizes = [width * width, items * width, items + 1]
        context, item, numbers = torch.split(flat, sizes)
        left, right = features @ context.view(width, width), item.view(items, width)
        match limited.model:
            case "cosine":
                left, right = (torch.nn.functional.normalize(side, dim=-1) for side in (left, right))
                return torch.exp(numbers[-1]) * left @ right.T + offset, numbers[:-1]
            case "no number per item":
                return left @ right.T + offset, numbers[:-1]
        return left @ right.T + numbers[:-1] + offset, numbers[:-1]

    def risk(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        flat = torch.tensor(point, requires_grad=True)
        values, numbers = scores(flat)
        loss = -(p * torch.log_softmax(values, -1)).sum(-1).mean() + limited.decay / 2 * numbers.square().mean()
        (slope,) = torch.autograd.grad(loss, flat)
        return loss.item(), slope.numpy()

    first: NDArray[np.float64] = start.numpy()
    solution = minimize(risk, first, jac=True, method="L-BFGS-B", options={"maxiter": steps, "ftol": 0, "gtol": 1e-8})
    return scores(torch.from_numpy(solution.x))[0]


def level(setting: towers.Setting, generator: torch.Generator) -> towers.World:
    r"""A world without an independent popularity: :math:`\log P=\sigma\,u_x\cdot v_y/\sqrt d`, up to a constant.

    Contexts have one direction in common, so that items along it are frequent: the towers alone can represent P,
    but not :math:`\log P-\log q`.
    """
    contexts = torch.randn(setting.contexts, setting.features, generator=generator, dtype=torch.float64)
    contexts[:, 0] += 2
    items = torch.randn(setting.items, setting.features, generator=generator, dtype=torch.float64)
    log_p = torch.log_softmax(setting.taste * contexts @ items.T / setting.features**0.5, -1)
    log_q = torch.logsumexp(log_p, 0) - torch.tensor(setting.contexts, dtype=torch.float64).log()
    return towers.World(contexts, items, log_p, log_q)
