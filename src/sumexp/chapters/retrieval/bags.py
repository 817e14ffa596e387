"""The features of a few sparse examples, as the embedding bags of torch take them."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sumexp.datasets.extreme import Part


@dataclass(frozen=True)
class Bag:
    """Non-zero features of examples: concatenated ids, their float32 values, the first index of each example [B]."""

    ids: Tensor
    values: Tensor
    starts: Tensor


def bag(part: Part, rows: NDArray[np.int64], device: str = "cpu", size: int = 0) -> Bag:
    """Non-zero features of the examples ``rows`` [B], padded with zeros of the last example to ``size`` features."""
    table = part.features
    first, counts = table.indptr[rows], np.diff(table.indptr)[rows]
    starts = np.concatenate([[0], counts.cumsum()])
    places = np.repeat(first - starts[:-1], counts) + np.arange(starts[-1])
    padded = (0, max(0, size - len(places)))
    ids, values = np.pad(table.indices[places].astype(np.int64), padded), np.pad(table.data[places], padded)
    tensors = (torch.from_numpy(ids), torch.from_numpy(values), torch.from_numpy(starts[:-1].astype(np.int64)))
    return Bag(*(tensor.to(device) for tensor in tensors))
