"""Few numbers on the host as NumPy's arrays, which take a fifth of the time of tensors; all others as tensors."""

from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

Array = Any
"""A torch tensor or a NumPy array, float64 or bool."""

FEW = 1 << 15
"""Most numbers of an array of NumPy."""


def light(*tensors: Tensor, count: int) -> list[Array]:
    """The tensors, as arrays that share their memory if they are on the host and what is computed has few numbers."""
    few = count <= FEW and all(values.is_cpu for values in tensors)
    return [values.detach().numpy() for values in tensors] if few else list(tensors)


def tensor(values: Array) -> Tensor:
    """The array as a tensor that shares its memory."""
    return values if isinstance(values, Tensor) else torch.from_numpy(values)


def alike(values: Array, example: Array) -> Array:
    """The array or tensor as the example is, which then is on the same device."""
    if isinstance(example, np.ndarray):
        return values.cpu().numpy() if isinstance(values, Tensor) else values
    return tensor(values).to(example.device)


def namespace(values: Array) -> ModuleType:
    """The module with the functions of such arrays."""
    return np if isinstance(values, np.ndarray) else torch


def zeros(shape: tuple[int, ...], example: Array) -> Array:
    """Zeros in float64, as the example is."""
    return np.zeros(shape) if isinstance(example, np.ndarray) else example.new_zeros(shape)


def strided(values: Array, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> Array:
    """A view; strides and offset count elements."""
    return alike(tensor(values).as_strided(shape, strides, offset), values)
