"""An output layer that reads and updates only the rows a sampled loss needs."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sumexp import _checks as checks
from sumexp.functional._arguments import unit


class SampledOutput(nn.Embedding):
    r"""The last layer :math:`f_y = v_y \cdot h + b_y` of a classifier of very many classes.

    ``forward`` gathers the rows of the labels and of the negatives. With ``sparse=True`` their gradients are sparse: a
    step with ``torch.optim.SGD`` (without momentum) or ``torch.optim.SparseAdam`` takes time and memory for those rows
    alone, whatever L. The default is dense, as in ``torch.nn.Embedding``, since every optimiser takes that. ``logits``
    gives all classes, for evaluation. Under autocast all products are in half precision, those
    of an example with its own class as those with negatives; the losses sum them in float32.

    With ``normalize=True`` h and :math:`v_y` are divided by their lengths, so that the product is a cosine; of the
    table only the rows that are read. A cosine is bounded: give it a temperature, and a bias where frequencies count.
    ``output.weight = embedding.weight`` ties the table to an embedding's.

    >>> output = nn.SampledOutput(8, 1000)
    >>> positive, negative = output(torch.zeros(4, 8), [1, 7, 7, 999], torch.arange(50))
    >>> positive.shape, negative.shape
    (torch.Size([4]), torch.Size([4, 50]))

    Args:
        features: length d of the hidden vector.
        classes: number of classes L.
        bias: whether there are :math:`b_y`.
        normalize: whether h and :math:`v_y` are divided by their lengths.
        sparse: sparse gradients, so that a step costs the rows it needs; only SGD, Adagrad and SparseAdam take them.
        generator: source of the first weights, uniform in :math:`\pm1/\sqrt d` as in ``torch.nn.Linear``.
        device: where the parameters lie.
        dtype: their type.

    Raises:
        ValueError: if a size is not positive.
        MemoryError: if the weights take more memory than there is.
    """

    def __init__(
        self,
        features: int,
        classes: int,
        *,
        bias: bool = True,
        normalize: bool = False,
        sparse: bool = False,
        generator: torch.Generator | None = None,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        features, classes = checks.whole("features", features, 1), checks.whole("classes", classes, 1)
        # An embedding, as DistributedDataParallel asks which modules have sparse gradients.
        super().__init__(classes, features, sparse=sparse, _weight=_table(classes, features, device, dtype))
        self.normalize = normalize
        self.bias = nn.Parameter(torch.zeros(classes, 1, device=device, dtype=dtype)) if bias else None
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights and set the biases to 0, as at the start: ``to_empty`` leaves them undefined."""
        bound = 1 / math.sqrt(self.embedding_dim)
        nn.init.uniform_(self.weight, -bound, bound, checks.source(generator))
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(  # type: ignore[override]
        self, hidden: Tensor, labels: checks.Values, ids: checks.Values
    ) -> tuple[Tensor, Tensor]:
        """The logits of each example's own class [B] and of its negatives [B, m].

        Args:
            hidden: [B, features].
            labels: [B] own classes.
            ids: [m] negatives that all examples share (one matrix product), or [B, m].

        Raises:
            ValueError: if a shape or a type does not fit, or an id is no class.
        """
        checks.floating("hidden", hidden, f"[B, {self.weight.shape[1]}]", 2)
        labels = checks.integers("label", labels).to(hidden.device)
        ids = checks.integers("negative", ids).to(hidden.device)
        self._check(hidden, labels, ids)
        # One look-up, so that the table has one gradient.
        size, every = labels.shape[0], torch.cat([labels, ids.flatten()])
        weights = F.embedding(every, self.weight, sparse=self.sparse)
        if self.normalize:
            hidden, weights = unit(hidden), unit(weights)
        label_rows, rows = weights[:size], weights[size:].view(*ids.shape, self.embedding_dim)
        own_bias, bias = None, None
        if self.bias is not None:
            biases = F.embedding(every, self.bias, sparse=self.sparse).squeeze(-1)
            own_bias, bias = biases[:size], biases[size:].view(ids.shape)
        # Both are matrix products, so that autocast rounds the positives as it does the negatives.
        positive = torch.bmm(hidden.unsqueeze(1), label_rows.unsqueeze(2)).flatten()
        if own_bias is not None:
            positive = positive + own_bias.to(positive.dtype)
        if ids.ndim == 1:
            return positive, F.linear(hidden, rows, bias)
        negative = torch.einsum("bd,bmd->bm", hidden, rows)
        return positive, negative if bias is None else negative + bias.to(negative.dtype)

    def logits(self, hidden: Tensor) -> Tensor:
        """All logits [B, L], for evaluation or a full loss."""
        bias = None if self.bias is None else self.bias.squeeze(-1)
        if self.normalize:
            return F.linear(unit(hidden), unit(self.weight), bias)
        return F.linear(hidden, self.weight, bias)

    def extra_repr(self) -> str:
        """The options and their values."""
        classes, features = self.weight.shape
        options = f"bias={self.bias is not None}, normalize={self.normalize}, sparse={self.sparse}"
        return f"features={features}, classes={classes}, {options}"

    def _check(self, hidden: Tensor, labels: Tensor, ids: Tensor) -> None:
        classes, features = self.weight.shape
        size = labels.shape[0]
        if hidden.shape != (size, features) or labels.ndim != 1:
            raise ValueError(
                f"hidden {tuple(hidden.shape)} and labels {tuple(labels.shape)} must be [B, {features}] and [B]"
            )
        kind = hidden.device.type
        if hidden.dtype != self.weight.dtype and (kind == "meta" or not torch.is_autocast_enabled(kind)):
            raise ValueError(
                f"hidden is {hidden.dtype} and the weights {self.weight.dtype}: move one by .to(), or use autocast"
            )
        if ids.ndim not in (1, 2) or (ids.ndim == 2 and ids.shape[0] != size):
            raise ValueError(f"ids have shape {tuple(ids.shape)}; expected [m], or [{size}, m]")
        if __debug__:
            checks.ids("label", labels, classes)
            checks.ids("negative", ids, classes)


def _table(classes: int, features: int, device: torch.device | str, dtype: torch.dtype) -> Tensor:
    """An empty table; MemoryError with its size where the allocator fails."""
    try:
        return torch.empty(classes, features, device=device, dtype=dtype)
    except RuntimeError as error:
        if not any(word in str(error) for word in ("allocate", "out of memory", "Storage size calculation overflowed")):
            raise
        size = f"{classes * features * dtype.itemsize / 1e9:,.0f} GB"
        raise MemoryError(
            f"{classes:,} classes of {features:,} features take {size} of memory, more than there is on {device}"
        ) from error
