"""The stacked networks against torch's own layers, member by member."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from sumexp.chapters.vae import Member, stack

PIXELS, VARIABLES, HIDDEN = 20, 3, 12
MIXED = (
    Member("gumbel", seed=1),
    Member("gumbel", scale=2.0, seed=1),
    Member("gaussian", scale=1.3, seed=2, straight_through=True),
    Member("logistic", scale=0.5, seed=1),
)


def parameters(members: tuple[Member, ...] = MIXED) -> dict[str, Tensor]:
    return stack.initial(members, PIXELS, VARIABLES, HIDDEN, torch.float64)


def draws(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def networks(tensors: dict[str, Tensor]) -> tuple[nn.Sequential, nn.Sequential]:
    """A stack of one as torch's layers, which hold their weights the other way round."""
    pair = []
    for half in ("encoder", "decoder"):
        layers = []
        for name in (f"{half}_hidden", f"{half}_out"):
            weight, bias = tensors[f"{name}_weight"][0], tensors[f"{name}_bias"][0, 0]
            layer = nn.Linear(*weight.shape, dtype=torch.float64)
            with torch.no_grad():
                layer.weight.copy_(weight.T)
                layer.bias.copy_(bias)
            layers.append(layer)
        pair.append(nn.Sequential(layers[0], nn.ReLU(), layers[1]))
    return pair[0], pair[1]


def test_encode_and_decode_are_torchs_layers() -> None:
    stacked, x = parameters(), draws(len(MIXED), 5, PIXELS)
    z = draws(len(MIXED), 5, VARIABLES, 10, seed=1)
    logits, pixels = stack.encode(stacked, x, 10), stack.decode(stacked, z)
    assert logits.shape == (4, 5, VARIABLES, 10)
    assert pixels.shape == (4, 5, PIXELS)
    for s in range(len(MIXED)):
        encoder, decoder = networks(stack.member(stacked, s))
        torch.testing.assert_close(logits[s], encoder(x[s]).view(5, VARIABLES, 10), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(pixels[s], decoder(z[s].flatten(1)), rtol=1e-12, atol=1e-12)


def test_a_member_starts_as_if_alone() -> None:
    stacked = parameters()
    for s, member in enumerate(MIXED):
        tensors = stack.member(stacked, s)
        alone = parameters((member,))
        assert all(torch.equal(tensors[name], alone[name]) for name in alone)


@pytest.mark.parametrize("layer, inputs", [("encoder_hidden", 784), ("decoder_hidden", 100)])
def test_initial_law_is_that_of_torchs_layers(layer: str, inputs: int) -> None:
    """Uniform on +-b with b = 1/sqrt(inputs).

    The variance is b^2/3 up to 5 standard errors, sqrt(0.8/n) of it each: one false alarm in 1.7 million. The largest
    of n values misses (1 - 20/n) b with probability e^-20.
    """
    ours = stack.initial((Member(seed=3),), 784, 10, 300, torch.float64)
    linear = nn.Linear(inputs, 300)
    bound = 1 / math.sqrt(inputs)
    for part, reference in (("weight", linear.weight), ("bias", linear.bias)):
        for tensor in (ours[f"{layer}_{part}"], reference):
            assert bound * (1 - 20 / tensor.numel()) < tensor.abs().max() <= bound
            assert abs(tensor.var() / (bound**2 / 3) - 1) < 5 * math.sqrt(0.8 / tensor.numel())


def test_equal_seeds_share_weights_and_others_do_not() -> None:
    hidden = parameters()["encoder_hidden_weight"]
    assert torch.equal(hidden[0], hidden[1])
    assert not torch.equal(hidden[0], hidden[2])


def test_float32_starts_where_float64_does() -> None:
    short = stack.initial(MIXED, PIXELS, VARIABLES, HIDDEN, torch.float32)
    assert all(torch.equal(short[name], tensor.float()) for name, tensor in parameters().items())


def test_perturbations_are_quantiles_of_the_same_uniforms() -> None:
    u = draws(1, 7, VARIABLES, 4).expand(4, -1, -1, -1)
    quantiles = stack.perturbations(u, MIXED).numpy()

    laws = [stats.gumbel_r(), stats.gumbel_r(scale=2.0), stats.norm(scale=1.3), stats.logistic(scale=0.5)]
    for values, law in zip(quantiles, laws, strict=True):
        np.testing.assert_allclose(values, law.ppf(u[0]), rtol=1e-12)
    assert (np.argsort(quantiles[0], -1) == np.argsort(quantiles[2], -1)).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("noise", ["gumbel", "gaussian", "logistic"])
def test_perturbations_are_finite_at_the_ends(noise: str, dtype: torch.dtype) -> None:
    eps = torch.finfo(dtype).eps
    ends = torch.tensor([[eps / 4, 1 - eps / 2]], dtype=dtype)
    quantiles = stack.perturbations(ends, [Member(noise)])
    assert quantiles.isfinite().all()
    assert quantiles[0, 0] < -2 < 3 < quantiles[0, 1]


def test_relaxed_by_hand() -> None:
    # u = e^{-1}, e^{-e}: Gumbel noises -log(-log u) = 0 and -1. Logits 0 and 1 + log 3: scores 0 and log 3; at
    # temperature 1/2 the weights are 1 and 3^2 = 9.
    u = torch.tensor([math.exp(-1), math.exp(-math.e)], dtype=torch.float64).view(1, 1, 1, 2)
    logits = torch.tensor([0.0, 1 + math.log(3)], dtype=torch.float64).view(1, 1, 1, 2)
    z = stack.relaxed(logits, u, [Member(categories=2)], torch.tensor([0.5], dtype=torch.float64))
    torch.testing.assert_close(z.flatten(), torch.tensor([0.1, 0.9], dtype=torch.float64), rtol=1e-14, atol=0)
    hard = Member(categories=2, straight_through=True)
    assert stack.relaxed(logits, u, [hard], torch.tensor([0.5])).flatten().tolist() == pytest.approx([0, 1], abs=1e-15)


def test_straight_through_has_the_gradient_of_the_softmax() -> None:
    u, weight = draws(1, 6, VARIABLES, 4), draws(1, 6, VARIABLES, 4, seed=1)
    gradients = []
    for straight in (False, True):
        logits = draws(1, 6, VARIABLES, 4, seed=2).requires_grad_()
        member = Member("gaussian", categories=4, straight_through=straight)
        z = stack.relaxed(logits, u, [member], torch.tensor([0.7], dtype=torch.float64))
        gradients.append(torch.autograd.grad((z * weight).sum(), logits)[0])
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-12, atol=0)
