"""The sampled softmax as a layer: one call from hidden vectors and labels to a loss."""

import math
import weakref
from typing import Any, get_args

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_pre_hook

from sumexp import _checks as checks
from sumexp import functional, samplers
from sumexp.functional._arguments import REDUCTIONS, Correct, Reduction, divided
from sumexp.functional._batch import InBatchHits, reduced
from sumexp.nn._losses import IGNORED, Tempered
from sumexp.nn._output import SampledOutput
from sumexp.samplers._laws import log_q_of

SPARSE = (torch.optim.SGD, torch.optim.Adagrad, torch.optim.SparseAdam)
"""Optimisers that take sparse gradients."""

DENSE = ("weight_decay", "fused")
"""Options with which they take none."""


class SampledSoftmax(Tempered):
    r"""A classifier of very many classes that trains on m sampled negatives, shared by the batch.

    .. math:: \ell = \log\Big(1 + \sum_{j=1}^m e^{s_{c_j} - s_y}\Big), \qquad s_c = (v_c\cdot h + b_c)/T - \log q_c

    The defaults are those whose minimum is the full softmax's for every m and q: :math:`\log q` subtracted from all
    logits, hits kept (the chapter :doc:`/notebooks/negatives`). Under autocast all scores are rounded alike.

    >>> layer = nn.SampledSoftmax(8, 1000, samplers.LogUniform(1000), 100)
    >>> layer(torch.zeros(4, 8), [1, 7, -100, 999]).shape
    torch.Size([])
    >>> layer.logits(torch.zeros(4, 8)).shape
    torch.Size([4, 1000])

    Where frequencies count, start ``output.bias`` at :math:`T\log\pi`, with the frequencies :math:`\pi` of the classes.

    Args:
        features: length d of the hidden vectors.
        classes: number of classes L.
        sampler: the law q; it moves and is saved with this module.
        num_negatives: m, the negatives of a batch.
        correct: from which logits log q is subtracted, as :mod:`sumexp.functional` has it.
        hits: ``keep`` accidental hits, draws of an example's own class, as negatives, or ``mask`` them: leave them out.
        bias, normalize: as :class:`SampledOutput` has them; cosines want a small temperature.
        sparse: as there; the step of one of torch's optimisers that takes no sparse gradients raises what
            :meth:`check_optimiser` raises, before it begins.
        temperature, learn_temperature, ignore_index, reduction: as :class:`InBatchSoftmax` has them.
        generator, device, dtype: of the first weights.

    Raises:
        ValueError: if a size is not positive, the sampler has other classes, an option unknown, T not positive, the
            ``ignore_index`` no whole number.

    Source: the chapter *negatives*, theorem "consistent"; the estimator is that of Jean et al. (2015).
    """

    shown = ("num_negatives", "correct", "hits", "temperature", "reduction")

    def __init__(
        self,
        features: int,
        classes: int,
        sampler: samplers.Sampler,
        num_negatives: int,
        *,
        correct: Correct = "all",
        hits: InBatchHits = "keep",
        bias: bool = True,
        normalize: bool = False,
        sparse: bool = False,
        temperature: float | Tensor = 1.0,
        learn_temperature: bool = False,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        generator: torch.Generator | None = None,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        checks.choice("correct", correct, get_args(Correct))
        checks.choice("hits", hits, get_args(InBatchHits))
        checks.choice("reduction", reduction, REDUCTIONS)
        if not all(hasattr(sampler, name) for name in ("classes", "log_prob", "sample")):
            raise ValueError(f"the sampler is {sampler!r}; it must be a law, as samplers.Uniform({classes})")
        if sampler.classes != (classes := checks.whole("classes", classes, 1)):
            raise ValueError(f"the sampler has {sampler.classes} classes and the layer {classes}: make them the same")
        self.output = SampledOutput(
            features,
            classes,
            bias=bias,
            normalize=normalize,
            sparse=sparse,
            generator=generator,
            device=device,
            dtype=dtype,
        )
        self.sampler, self.num_negatives = sampler, checks.whole("num_negatives", num_negatives, 1, 1 << 31)
        self.correct, self.hits, self.reduction = correct, hits, reduction
        self.ignore_index = checks.whole("ignore_index", ignore_index, *IGNORED)
        self._set_temperature(temperature, learn_temperature, device, dtype)
        self._watch_optimisers()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights and set the learned numbers as at the start: ``to_empty`` leaves them undefined."""
        super().reset_parameters()
        self.output.reset_parameters(generator)

    def forward(self, hidden: Tensor, labels: checks.Values, *, generator: torch.Generator | None = None) -> Tensor:
        r"""The loss of a batch.

        Args:
            hidden: [B, features] or [B, T, features].
            labels: [B] or [B, T] classes; ``ignore_index`` where there is no example.
            generator: source of the negatives, on the sampler's device; processes seeded alike draw the same.

        Raises:
            ValueError: for hidden vectors of another type or device than the weights', shapes that do not fit, a label
                that is no class or that the sampler draws with probability 0, NaN or infinite scores, the mean of no
                example, and a generator that workers share.
        """
        checks.floating("hidden", hidden, "[B, d] or [B, T, d]", 2, 3)
        if hidden.device != (device := self.output.weight.device):
            raise ValueError(f"hidden lies on {hidden.device} and the weights on {device}: move one by .to()")
        given = checks.integers("label", labels).to(hidden.device)
        if hidden.shape[:-1] != given.shape or given.ndim not in (1, 2):
            raise ValueError(
                f"hidden {tuple(hidden.shape)} and labels {tuple(given.shape)} must be [B, d] and [B], "
                "or [B, T, d] and [B, T]"
            )
        present = (given != self.ignore_index).flatten()
        # What stands where there is no example may be NaN.
        flat = torch.where(present.unsqueeze(-1), hidden.flatten(0, -2), 0)
        generator = samplers.check_worker_generator(generator)
        ids = self.sampler.sample((self.num_negatives,), generator).to(hidden.device)
        # A row that is read anyway, so that no other class has a gradient.
        classes = torch.where(present, given.flatten(), ids[0])
        positive, negative = (divided(part, self._divisor) for part in self.output(flat, classes, ids))
        if self.correct != "none":
            copies = self.num_negatives if self.correct == "importance" else 1
            negative = negative - (log_q_of(self.sampler, ids) + math.log(copies)).to(negative.dtype)
        if self.correct == "all":
            log_q = log_q_of(self.sampler, classes)
            if __debug__ and classes.shape[0] and not checks.read(torch.where(present, log_q, 0).min())[0] > -math.inf:
                wrong = int(classes[(log_q == -math.inf) & present][0])
                raise ValueError(
                    f"label {wrong} has probability 0 under the sampler: it was never counted; give every class that "
                    "can occur a positive probability (counts + 1)"
                )
            positive = positive - log_q.to(positive.dtype)
        hits = ids == classes.unsqueeze(-1) if self.hits == "mask" else None
        each = functional.sampled_softmax(positive, negative, hits=hits, reduction="none")
        losses = reduced(each, present, self.reduction)
        return losses.view(given.shape) if self.reduction == "none" else losses

    def logits(self, hidden: Tensor) -> Tensor:
        """All logits [B, L], for evaluation: log probabilities up to a constant, if log q was subtracted from all."""
        return divided(self.output.logits(hidden), self._divisor)

    def check_optimiser(self, optimiser: torch.optim.Optimizer) -> None:
        """Check that an optimiser takes the gradients of the parameters that it is given.

        Raises:
            ValueError: if it cannot take a sparse gradient, or SparseAdam is given a dense one.
        """
        kind, table = type(optimiser).__name__, {id(parameter) for parameter in self.output.parameters()}
        for group in optimiser.param_groups:
            for parameter in group["params"]:
                sparse = self.output.sparse and id(parameter) in table
                options = [option for option in DENSE if group.get(option)] if isinstance(optimiser, SPARSE) else []
                if sparse and (not isinstance(optimiser, SPARSE) or options):
                    raise ValueError(
                        f"{kind}{f' with {options[0]}' if options else ''} takes no sparse gradients; give "
                        "output.parameters() to SparseAdam, or SGD or Adagrad without weight_decay and fused, and the "
                        "rest to another optimiser, or use sparse=False"
                    )
                if not sparse and isinstance(optimiser, torch.optim.SparseAdam):
                    raise ValueError(
                        f"SparseAdam takes sparse gradients alone, and a parameter of shape {tuple(parameter.shape)} "
                        "has none; give it output.parameters() of a module with sparse=True, and no others"
                    )

    def _watch_optimisers(self) -> None:
        """Check an optimiser before its step, if it holds sparse gradients of this module."""
        if not self.output.sparse:
            return
        module = weakref.ref(self)

        def look(optimiser: torch.optim.Optimizer, *_: Any) -> None:
            # A user's own optimiser may take sparse gradients: only torch's are known not to.
            if (layer := module()) is not None and type(optimiser).__module__.startswith("torch.optim."):
                held = {id(parameter) for group in optimiser.param_groups for parameter in group["params"]}
                gradients = [table.grad for table in layer.output.parameters() if id(table) in held]
                if any(gradient is not None and gradient.is_sparse for gradient in gradients):
                    layer.check_optimiser(optimiser)

        weakref.finalize(self, register_optimizer_step_pre_hook(look).remove)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._watch_optimisers()
