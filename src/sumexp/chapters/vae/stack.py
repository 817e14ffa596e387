r"""Several categorical VAEs at once: pure functions on their stacked parameters.

A model has N variables of K categories. The encoder maps P pixels through H hidden units (ReLU) to logits [N, K], the
decoder maps the relaxed one-hot vectors z [N, K] through H hidden units to the logits of P Bernoulli pixels. S models
are one dict of tensors with a leading dimension S, and each layer is one batched matrix product.

========================= =========== ========================= ===========
name                      shape       name                      shape
========================= =========== ========================= ===========
``encoder_hidden_weight`` [S, P, H]   ``decoder_hidden_weight`` [S, N K, H]
``encoder_hidden_bias``   [S, 1, H]   ``decoder_hidden_bias``   [S, 1, H]
``encoder_out_weight``    [S, H, N K] ``decoder_out_weight``    [S, H, P]
``encoder_out_bias``      [S, 1, N K] ``decoder_out_bias``      [S, 1, P]
========================= =========== ========================= ===========
"""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TypeAlias

import torch
from torch import Tensor

from sumexp._descent import generator
from sumexp.chapters.vae.config import Member
from sumexp.perturb.noises import Family

Parameters: TypeAlias = Mapping[str, Tensor]


def initial(
    members: Sequence[Member], pixels: int, variables: int, hidden: int, dtype: torch.dtype, device: str = "cpu"
) -> dict[str, Tensor]:
    r"""Weights and biases uniform on :math:`\pm 1/\sqrt{\text{inputs}}` (the default of ``torch.nn.Linear``).

    The weights of a member depend on its seed alone: they are drawn in float64 and in the order of the table.
    """
    singles = [_initial(member, pixels, variables, hidden) for member in members]
    return {name: torch.stack([single[name] for single in singles]).to(device, dtype) for name in singles[0]}


def _initial(member: Member, pixels: int, variables: int, hidden: int) -> dict[str, Tensor]:
    source, code = generator(member.seed, "weights"), variables * member.categories
    layers = {
        "encoder_hidden": (pixels, hidden),
        "encoder_out": (hidden, code),
        "decoder_hidden": (code, hidden),
        "decoder_out": (hidden, pixels),
    }

    def uniform(rows: int, columns: int, inputs: int) -> Tensor:
        return torch.rand(rows, columns, dtype=torch.float64, generator=source).mul(2).sub(1).div(math.sqrt(inputs))

    return {
        f"{layer}_{part}": uniform(rows, outputs, inputs)
        for layer, (inputs, outputs) in layers.items()
        for part, rows in (("weight", inputs), ("bias", 1))
    }


def member(parameters: Parameters, which: int) -> dict[str, Tensor]:
    """The parameters of one member as a stack of one, S = 1."""
    return {name: tensor[which].unsqueeze(0) for name, tensor in parameters.items()}


def encode(parameters: Parameters, x: Tensor, categories: int) -> Tensor:
    """The logits [S, B, N, K] of the variables of each image; ``x`` has the images of each member [S, B, P]."""
    hidden = _layer(parameters, "encoder_hidden", x).relu()
    return torch.unflatten(_layer(parameters, "encoder_out", hidden), -1, (-1, categories))


def decode(parameters: Parameters, z: Tensor) -> Tensor:
    r"""The logits of the pixels, :math:`\log p(x_i = 1 | z) - \log p(x_i = 0 | z)`.

    From z [S, B, N, K], one-hot or relaxed, to [S, B, P].
    """
    hidden = _layer(parameters, "decoder_hidden", z.flatten(-2)).relu()
    return _layer(parameters, "decoder_out", hidden)


def _layer(parameters: Parameters, name: str, x: Tensor) -> Tensor:
    result: Tensor = torch.baddbmm(parameters[f"{name}_bias"], x, parameters[f"{name}_weight"])
    return result


_QUANTILE: Mapping[Family, Callable[[Tensor], Tensor]] = {
    "gumbel": lambda u: u.log().neg_().log_().neg_(),
    "gaussian": torch.special.ndtri,
    "logistic": torch.logit,
}


def perturbations(uniforms: Tensor, members: Sequence[Member]) -> Tensor:
    """The noise of each member [S, ...] at the quantiles ``uniforms``; equal uniforms give comonotone noises."""
    return torch.cat(
        [
            _QUANTILE[case.noise](part) if case.scale == 1 else case.scale * _QUANTILE[case.noise](part)
            for case, part in alike(uniforms, members, lambda case: (case.noise, case.scale))
        ]
    )


def relaxed(logits: Tensor, uniforms: Tensor, members: Sequence[Member], temperatures: Tensor) -> Tensor:
    r"""The Perturb-Softmax :math:`z = \mathrm{softmax}((\ell + \gamma)/\tau)` of every variable, [S, B, N, K].

    A member with ``straight_through`` takes :math:`e_{\arg\max}` for z, with the gradient of the softmax. The noise
    :math:`\gamma` is the quantile of the uniforms, inside (0, 1); temperatures :math:`\tau` are [S].
    """
    noisy = logits + perturbations(uniforms, members)
    scores = noisy / temperatures.view(-1, 1, 1, 1)
    soft = torch.softmax(scores.mT, -2).mT  # on a CPU many times faster than along a short last dimension
    if not any(case.straight_through for case in members):
        return soft
    return torch.cat(
        [
            part + (one_hot(part) - part).detach() if case.straight_through else part
            for case, part in alike(soft, members, lambda case: case.straight_through)
        ]
    )


def one_hot(scores: Tensor) -> Tensor:
    """The one-hot vector of the largest score along the last dimension."""
    return one_hot_of(scores.max(-1, keepdim=True).indices, scores)


def one_hot_of(which: Tensor, classes: Tensor) -> Tensor:
    """The one-hot vectors of chosen classes [..., 1], in shape and type of another tensor [..., K]."""
    return torch.zeros_like(classes).scatter_(-1, which, 1.0)


def alike(
    tensor: Tensor, members: Sequence[Member], key: Callable[[Member], Hashable]
) -> Iterator[tuple[Member, Tensor]]:
    """The slices of a tensor [S, ...] for each run of members with equal key, each with its first member."""
    runs = [list(run) for _, run in groupby(members, key)]
    return zip((run[0] for run in runs), torch.split(tensor, [len(run) for run in runs]), strict=True)
