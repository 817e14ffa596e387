"""When one temperature for two scales of noise is another unit: the last layer must start and learn in proportion."""

import torch
from torch import Tensor
from torch.nn import functional as F

from sumexp.chapters.vae import Member, posterior, stack

S, TAU, CATEGORIES, PIXELS, VARIABLES = 1.7, 0.6, 4, 9, 3
LAST = ("encoder_out_weight", "encoder_out_bias")


def draws(*shape: int, seed: int) -> Tensor:
    return torch.rand(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def trained(scale: float, start: float, rate: float) -> tuple[Tensor, Tensor]:
    """Losses of ten steps of Adam, noise of a scale at temperature scale * tau, and the logits divided by the scale.

    Of the encoder's last layer, `start` multiplies initial weights and biases, `rate` the step length.
    """
    members = [Member("gaussian", scale, "exact", CATEGORIES)]
    tensors = stack.initial(members, PIXELS, VARIABLES, 8, torch.float64)
    tensors = {name: (value * (start if name in LAST else 1.0)).requires_grad_() for name, value in tensors.items()}
    last, others = ([value for name, value in tensors.items() if (name in LAST) is chosen] for chosen in (True, False))
    # Without the eps that keeps a step finite where a gradient is 0, Adam's steps do not change with a gradient's unit.
    adam = torch.optim.Adam([{"params": last, "lr": 0.01 * rate}, {"params": others, "lr": 0.01}], eps=1e-300)
    x, losses = (draws(1, 6, PIXELS, seed=1) > 0.5).double(), []
    for step in range(10):
        logits = stack.encode(tensors, x, CATEGORIES)
        uniforms = draws(1, 6, VARIABLES, CATEGORIES, seed=10 + step)
        z = stack.relaxed(logits, uniforms, members, torch.tensor([scale * TAU], dtype=torch.float64))
        missed = F.binary_cross_entropy_with_logits(stack.decode(tensors, z), x, reduction="sum")
        loss = missed + posterior.divergence(logits, members).sum()
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    return torch.tensor(losses), stack.encode(tensors, x, CATEGORIES).detach() / scale


def test_in_proportion_training_is_the_same_step_by_step() -> None:
    (losses, logits), (wide_losses, wide_logits) = trained(1.0, 1.0, 1.0), trained(S, S, S)
    torch.testing.assert_close(wide_losses, losses, rtol=1e-9, atol=0)
    torch.testing.assert_close(wide_logits, logits, rtol=1e-8, atol=1e-10)


def test_from_the_usual_start_it_is_another_run() -> None:
    assert (trained(S, 1.0, S)[0] - trained(1.0, 1.0, 1.0)[0])[0].abs() > 1e-3  # from the first loss on


def test_with_the_usual_rate_it_is_another_run() -> None:
    apart = (trained(S, S, 1.0)[0] - trained(1.0, 1.0, 1.0)[0]).abs()
    assert apart[0] < 1e-9
    assert apart[-1] > 1e-3
