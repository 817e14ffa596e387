"""What torch's machinery makes of each loss, sampler and law: compiled whole, exported, under vmap, autocast, twice."""

import copy
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributions import OneHotCategorical, kl_divergence
from torch.nn.parallel import DistributedDataParallel

from sumexp import functional, nn, samplers
from sumexp.distributions import PerturbArgmax, PerturbArgmaxStraightThrough, PerturbLogSoftmax, PerturbSoftmax
from sumexp.perturb import Gaussian, Gumbel, Logistic, Noise
from tests import calls
from tests.calls import Call

B, L, M = 5, 6, 3
SIZES = (5, 3, 400)
"""Of batches of which one graph is made; the squares of the last are more than eager mode sums by the formula."""

LABELS = torch.tensor([0, 3, 5, 3, 1, 2, 0, 4])
LOG_Q = torch.log_softmax(torch.arange(M, dtype=torch.float64), 0)
CLASSES = torch.tensor([0, 3, 0, 2**40, 1, 3])
HITS = torch.tensor([[False, True, False]])
GAINS = torch.tensor([[1, 0, 2, 0, -100, -100]])
MARKS = torch.tensor([False, True, False, False, False, True])
RISING = torch.log_softmax(torch.arange(L, dtype=torch.float64), 0)
PRIOR_LAW = OneHotCategorical(logits=RISING)
PRIOR_LAW.probs  # noqa: B018 - kept from the first use on, which must not be in a graph


def repeated(values: Tensor, z: Tensor) -> Tensor:
    """Constants for as many rows as there are, however many."""
    return values[torch.arange(z.shape[0]) % len(values)]


def paired(loss: Callable[..., Tensor], ids: Tensor = CLASSES, **options: Any) -> Call:
    """A loss of scores [B, B + 1], products of vectors."""

    def call(z: Tensor) -> Tensor:
        columns = torch.arange(z.shape[0] + 1) % L
        given = {name: value[columns] if isinstance(value, Tensor) else value for name, value in options.items()}
        if "positives" in given:
            given["positives"] = given["positives"].expand(z.shape[0], -1)
        return loss(z @ torch.cat([z.tanh(), RISING.to(z).unsqueeze(0)]).T, ids[columns], **given)

    return call


def sampled(loss: Callable[..., Tensor], **options: Any) -> Call:
    def call(z: Tensor) -> Tensor:
        rows = {"hits": repeated(HITS, z)} if "hits" in options else {}
        return loss(z[:, 0], z[:, 1 : 1 + M], **(options | rows))

    return call


def summed(call: Call) -> Call:
    return lambda z: call(z).sum()


def label(z: Tensor) -> Tensor:
    return repeated(LABELS, z)


def of_own(z: Tensor) -> Tensor:
    return RISING[label(z)].unsqueeze(-1)


def margined(z: Tensor, log_rho: Tensor) -> Tensor:
    return functional.pairwise_margin(z, label(z), log_rho)


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


CATEGORICAL = samplers.Categorical([0.3, 0.2, 0.2, 0.1, 0.1, 0.1])


def softmax(**options: Any) -> nn.SampledSoftmax:
    law = samplers.LogUniform(L)
    return nn.SampledSoftmax(L, L, law, M, learn_temperature=True, generator=seeded(), dtype=torch.float64, **options)


LAYERS: dict[str, torch.nn.Module] = {
    "nn.BinaryNCE": nn.BinaryNCE(),
    "nn.GBCE": nn.GBCE(9),
    "nn.InBatchSoftmax": nn.InBatchSoftmax(temperature=0.5, learn_temperature=True, dtype=torch.float64),
    "nn.ListNet": nn.ListNet(),
    "nn.SampledOutput": nn.SampledOutput(L, L, generator=seeded(), dtype=torch.float64),
    "nn.SampledSoftmax": softmax(),
    "nn.SampledSoftmax (sparse)": softmax(sparse=True),
    "nn.SigmoidPairs": nn.SigmoidPairs(
        temperature=0.5, hits="mask", learn_temperature=True, learn_logit_bias=True, dtype=torch.float64
    ),
    "nn.StreamingLogQ": nn.StreamingLogQ(L),
    "nn.StreamingLogQ (update)": nn.StreamingLogQ(L),
}
"""By the row that they are called in, with all that can be learned."""
LAYERS["nn.StreamingLogQ"].update([0, 1, 0, 2, 3, 4, 5, 0])  # type: ignore[operator]


def layer(name: str) -> Callable[..., Any]:
    """The layer of a row, found when it is called."""
    return lambda *given, **options: LAYERS[name](*given, **options)


LOSSES: dict[str, Call] = {
    **{name: summed(call) for name, call in calls.TABLE.items() if name.startswith("functional.")},
    "functional.adaptive": lambda z: margined(z, functional.adaptive(of_own(z))),
    "functional.arcface_margin": lambda z: margined(z.tanh(), functional.arcface_margin(z[:, :1].tanh(), 0.5)),
    "functional.binary_nce": sampled(functional.binary_nce, log_q=LOG_Q, positive_log_q=LOG_Q[:1], hits=HITS),
    "functional.decoupled": lambda z: functional.decoupled(
        z[0], z.mT[:, 1:], log_q=LOG_Q[:1], correct="importance", hits=HITS[:1, :1]
    ),
    "functional.equalised": lambda z: margined(z, functional.equalised(RISING, 0.5)),
    "functional.hinge": sampled(functional.hinge, hits=HITS),
    "functional.in_batch": paired(functional.in_batch, log_q=RISING, temperature=0.5),
    "functional.in_batch (mask)": paired(functional.in_batch, correct="none", hits="mask"),
    "functional.in_batch (options)": paired(
        functional.in_batch, log_q=RISING, correct="importance", positives=MARKS, label_smoothing=0.1, symmetric=True
    ),
    "functional.linear_in_batch": lambda z: functional.linear_in_batch(z, z.tanh(), label(z), log_q=RISING[label(z)]),
    "functional.logit_adjusted": lambda z: margined(z, functional.logit_adjusted(of_own(z), RISING)),
    "functional.sampled_softmax": sampled(
        functional.sampled_softmax, log_q=LOG_Q, positive_log_q=LOG_Q[:1], weights=torch.arange(1.0, 1 + M), hits=HITS
    ),
    "functional.sigmoid_pairs": paired(functional.sigmoid_pairs, log_q=RISING),
    "nn.BinaryNCE": sampled(layer("nn.BinaryNCE"), log_q=LOG_Q, positive_log_q=LOG_Q[:1], hits=HITS),
    "nn.GBCE": sampled(layer("nn.GBCE"), log_q=LOG_Q, positive_log_q=LOG_Q[:1], hits=HITS),
    "nn.InBatchSoftmax": paired(layer("nn.InBatchSoftmax"), torch.arange(L) - 100, log_q=RISING),
    "nn.SigmoidPairs": paired(layer("nn.SigmoidPairs"), log_q=RISING),
    "nn.ListNet": lambda z: layer("nn.ListNet")(z, repeated(GAINS, z)),
    "nn.SampledOutput": lambda z: functional.info_nce(*layer("nn.SampledOutput")(z, label(z), torch.tensor([1, 2]))),
}
"""Of scores, or hidden vectors, [B, L]: a number. Where the plain call leaves options out, there is another here."""


def drawn(negatives: samplers.Negatives) -> Tensor:
    return negatives.log_q.sum() + 0 * negatives.ids.sum() + negatives.hits.sum()


def argmax(noise: Noise) -> Call:
    """The log probability of a vector, the entropy and the divergence from a law."""

    def call(z: Tensor) -> Tensor:
        law = PerturbArgmax(z, noise)
        return (law.log_prob(torch.eye(L)[label(z)]) + law.entropy() + kl_divergence(law, PRIOR_LAW)).sum()

    return call


def densities(z: Tensor) -> Tensor:
    """Of relaxed draws, with a temperature for each row, and a divergence."""
    total = z.sum()
    for noise in (Gumbel(), Gaussian()):
        law, prior = PerturbSoftmax(z, 0.5, noise), PerturbSoftmax(RISING, 0.5, noise)
        total = total + kl_divergence(law, prior).sum()
        total = total + PerturbSoftmax(z, z[:, :1].exp(), noise).log_prob(RISING.exp()).sum()
    return total


def moments(z: Tensor) -> Tensor:
    law = PerturbSoftmax(z, 0.5)
    return (law.mean * RISING).sum() + law.variance.sum() + law.entropy().sum()


LAWS: dict[str, Call] = {
    "distributions.PerturbArgmax": argmax(Gumbel()),
    "distributions.PerturbArgmax (Gaussian)": argmax(Gaussian()),
    "distributions.PerturbArgmax (logistic)": argmax(Logistic()),
    "distributions.PerturbSoftmax": densities,
}
"""Of parameters [B, L]: log probabilities, entropies and divergences."""


def relaxed(z: Tensor) -> Tensor:
    """Draws with three noises and a temperature for each row."""
    total = z.sum()
    for noise in (Gumbel(), Gaussian(), Logistic()):
        total = total + PerturbSoftmax(z, z[:, :1].exp(), noise).rsample((2,)).square().sum()
    return total


def logarithms(z: Tensor) -> Tensor:
    law = PerturbLogSoftmax(z, 0.5)
    return law.log_prob(law.rsample()).sum()


def one_hot(z: Tensor) -> Tensor:
    laws = [PerturbArgmaxStraightThrough(z, noise) for noise in (Gumbel(), Gaussian(), Logistic())]
    return sum((((law.sample() + law.rsample()) * RISING).sum() for law in laws), z.sum())


def of_law(law: samplers.Sampler) -> Call:
    return lambda z: z.sum() + law.log_prob(law.sample((B, M))).sum()


SAMPLERS: dict[str, Call] = {
    "distributions.PerturbArgmax (draws)": one_hot,
    "distributions.PerturbLogSoftmax (draws)": logarithms,
    "distributions.PerturbSoftmax (draws)": relaxed,
    "nn.SampledSoftmax": lambda z: layer("nn.SampledSoftmax")(z, label(z)),
    "nn.SampledSoftmax (sparse)": lambda z: layer("nn.SampledSoftmax (sparse)")(z, label(z)),
    **{f"samplers.{name}": of_law(make(RISING.exp())) for name, make in calls.SAMPLERS.items() if name != "unigram"},
    "samplers.distinct": lambda z: z.sum() + samplers.distinct(CATEGORICAL, label(z), 2).weights.sum(),
    "samplers.draw": lambda z: z.sum() + drawn(samplers.draw(CATEGORICAL, label(z), M)),
    "samplers.draw (redraw)": lambda z: z.sum() + drawn(samplers.draw(CATEGORICAL, label(z), M, hits="redraw")),
    "samplers.model_based": lambda z: drawn(samplers.model_based(z, label(z), M)) + z.sum(),
    "samplers.within_batch": lambda z: (
        z.sum() + sum(drawn(samplers.within_batch(label(z), RISING, shared=shared)) for shared in (False, True))
    ),
    "samplers.within_batch (union)": lambda z: z.sum() + drawn(samplers.within_batch(label(z), RISING, union=True)),
}
"""Of the same, with draws by torch's global generator."""


def updated(z: Tensor) -> Tensor:
    stream: Any = LAYERS["nn.StreamingLogQ (update)"]
    stream.update(label(z))
    return z.sum() + 0 * stream(label(z)).sum()


STATEFUL: dict[str, Call] = {
    "distributions.PerturbSoftmax (moments)": moments,
    "nn.StreamingLogQ": lambda z: paired(
        functional.in_batch, torch.arange(L), log_q=layer("nn.StreamingLogQ")(torch.arange(L))
    )(z),
    "nn.StreamingLogQ (update)": updated,
    "functional.distributed_in_batch": lambda z: functional.distributed_in_batch(
        z, z.roll(1, 0).tanh(), label(z), log_q=repeated(RISING, z), symmetric=True
    ),
}
"""Of the same: exact moments, tables that a stream fills, and the batches of all processes, of which there is one."""

CALLS = LOSSES | LAWS | SAMPLERS | STATEFUL


def scores(seed: int = 0, size: int = B) -> Tensor:
    return torch.randn(size, L, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Model(torch.nn.Module):
    """A function of what a parameter multiplies, with the layer that its row calls."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.call, self.layer = CALLS[name], LAYERS.get(name)
        self.scale = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))

    def forward(self, z: Tensor) -> Tensor:
        return self.call(z * self.scale)


def agrees(call: Call, other: Call, random: bool, size: int = B) -> bool:
    """Whether two functions have one value; where both draw, whether both have a number."""
    torch.manual_seed(0)
    wanted = call(scores(size=size))
    torch.manual_seed(0)
    actual = other(scores(size=size))
    return bool(actual.isfinite().all()) if random else torch.allclose(actual, wanted)


def compiles(name: str, random: bool) -> bool | str:
    """Whole, and for three sizes of batches once."""
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("eager")
    compiled = torch.compile(CALLS[name], fullgraph=True, dynamic=True, backend=counter)
    same = all(agrees(CALLS[name], compiled, random, size) for size in SIZES)
    return same if counter.frame_count == 1 else "yes, anew for each size"


def exports(name: str, random: bool) -> bool:
    """With a batch of any size, by Dynamo and by Python."""
    shapes = ({0: torch.export.Dim("batch", min=3)},)
    for strict in (True, False):
        program = torch.export.export(Model(name), (scores(),), dynamic_shapes=shapes, strict=strict).module()
        if not all(agrees(CALLS[name], program, random, size) for size in SIZES):
            return False
    return True


def fakes(name: str, random: bool) -> bool:
    """Shapes alone, and those of gradients, as an estimate of memory asks for them."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        z = torch.empty(B, L, dtype=torch.float64, requires_grad=True)
        return torch.autograd.grad(CALLS[name](z), z)[0].shape == (B, L)


@contextmanager
def alone() -> Iterator[None]:
    """One process that is all of ``torch.distributed``."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


def gradients(model: torch.nn.Module) -> list[Tensor]:
    torch.manual_seed(0)
    model(scores()).backward()
    grads = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return [(grad.full_tensor() if isinstance(grad, DTensor) else grad).to_dense() for grad in grads]


def wrapped(name: str, wrap: Callable[[torch.nn.Module], torch.nn.Module]) -> bool:
    """Whether a wrapped model and its layer have the gradients of the model."""
    both = []
    for change in (lambda model: model, wrap):
        copied = {} if name not in LAYERS else {name: copy.deepcopy(LAYERS[name])}
        with alone(), mock.patch.dict(LAYERS, copied):
            both.append(gradients(change(Model(name))))
    return all(torch.allclose(first, second) for first, second in zip(*both, strict=True))


def distributes(name: str, random: bool) -> bool:
    return wrapped(name, DistributedDataParallel)


def shards(name: str, random: bool) -> bool:
    return wrapped(name, lambda model: fully_shard(model, mesh=init_device_mesh("cpu", (1,))))


def maps(name: str, random: bool) -> bool:
    call, many = CALLS[name], torch.stack([scores(0), scores(1)])
    actual = torch.func.vmap(torch.func.grad(call), randomness="different")(many)
    if random:
        return bool(actual.isfinite().all())
    each = []
    for z in many:
        leaf = z.clone().requires_grad_()
        each.append(torch.autograd.grad(call(leaf), leaf)[0])
    return torch.allclose(actual, torch.stack(each))


def casts(name: str, dtype: torch.dtype) -> bool:
    """Under autocast the result is at least single, as is its gradient."""
    with mock.patch.dict(LAYERS, {name: copy.deepcopy(LAYERS[name]).float()} if name in LAYERS else {}):
        z = scores().float().requires_grad_()
        with torch.autocast("cpu", dtype=dtype):
            value = CALLS[name](z)
        slope = torch.autograd.grad(value, z)[0]
    return value.dtype in (torch.float32, torch.float64) and bool(value.isfinite()) and bool(slope.isfinite().all())


def twice(name: str, random: bool) -> bool:
    def fixed(z: Tensor) -> Tensor:
        torch.manual_seed(0)  # the draws must be those of the first time
        return CALLS[name](z)

    return bool(torch.autograd.gradgradcheck(fixed if random else CALLS[name], scores().requires_grad_()))


def fused(names: Sequence[str]) -> bool:
    """Whether one graph of several functions has their values and gradients when Inductor made code of it."""
    torch._dynamo.reset()

    def together(z: Tensor) -> Tensor:
        return torch.stack([CALLS[name](z) for name in names])

    results = []
    # One compilation: neither a pool, nor a header, nor trials of what this compiler can make of the processor.
    once = {"compile_threads": 1, "cpp_cache_precompile_headers": False, "cpp.vec_isa_ok": True}
    for function in (together, torch.compile(together, fullgraph=True, backend="inductor", options=once)):
        leaf = scores().requires_grad_()
        values = function(leaf)
        results.append(torch.cat([values.detach(), *torch.autograd.grad(values.sum(), leaf)[0]]))
    return torch.allclose(*results)


TRIALS: Mapping[str, Callable[[str, bool], bool | str]] = {
    "bfloat16": lambda name, random: casts(name, torch.bfloat16),
    "float16": lambda name, random: casts(name, torch.float16),
    "compile": compiles,
    "export": exports,
    "vmap of grad": maps,
    "twice": twice,
    "fake": fakes,
    "DDP": distributes,
    "FSDP": shards,
}


REASONS = {
    r"[Dd]ata.?[Dd]ependent|[Dd]ynamic.*[Ss]hape|no quadrature": "values decide",
    r"Constraints violated": "one batch size",
    r"SparseCPU": "sparse gradients",
    "inplace randomness": "draws in place",
    "mutate a captured Tensor": "writes its tables",
    "saved tensor hooks": "encodes anew",
    "no second derivatives": "made in blocks",
    "only first derivatives": "first order",
}
"""What torch says, and what the page says of it; the first that is found."""


def row(name: str) -> dict[str, str]:
    """What works of one function, and why what does not."""
    cells = {}
    for title, trial in TRIALS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                result = trial(name, name in SAMPLERS)
                cells[title] = result if isinstance(result, str) else "yes" if result else "no: another value"
            except Exception as error:
                message = f"{type(error).__name__}: {error}"
                words = [words for pattern, words in REASONS.items() if re.search(pattern, message)]
                cells[title] = f"no: {words[0] if words else message[:300]}"
    return cells
