"""What torch's machinery makes of each loss and sampler: compiled whole, exported, under vmap, autocast, twice."""

import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from sumexp import functional, nn, samplers
from tests import calls
from tests.calls import Call

B, L, M = 4, 6, 3
LABELS = torch.tensor([0, 3, 5, 3])
LOG_Q = torch.log_softmax(torch.arange(M, dtype=torch.float64), 0)
CLASSES = torch.tensor([0, 3, 0, 2**40, 1, 3])
HITS = torch.tensor([[False, True, False]] * B)
PRIOR = torch.full((L,), -1.8, dtype=torch.float64)
RISING = torch.log_softmax(torch.arange(L, dtype=torch.float64), 0)


def sampled(loss: Callable[..., Tensor], **options: Any) -> Call:
    return lambda z: loss(z[:, 0], z[:, 1 : 1 + M], **options)


def summed(call: Call) -> Call:
    return lambda z: call(z).sum()


def own(z: Tensor) -> Tensor:
    return LABELS[: len(z)]


def of_own(z: Tensor) -> Tensor:
    return RISING[own(z)].unsqueeze(-1)


def margined(z: Tensor, log_rho: Tensor) -> Tensor:
    return functional.pairwise_margin(z, own(z), log_rho)


def output(z: Tensor) -> Tensor:
    return functional.info_nce(*OUTPUT(z, own(z), torch.tensor([1, 2])))


OUTPUT = nn.SampledOutput(L, L, sparse=False, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
LAYER = nn.SampledSoftmax(
    L, L, samplers.LogUniform(L), M, generator=torch.Generator().manual_seed(0), dtype=torch.float64
)
CATEGORICAL = samplers.Categorical([0.3, 0.2, 0.2, 0.1, 0.1, 0.1])
MIXTURE = samplers.Mixture([samplers.Uniform(L), CATEGORICAL], [0.5, 0.5])

LOSSES: dict[str, Call] = {
    **{name: summed(call) for name, call in calls.TABLE.items() if name.startswith("functional.")},
    "functional.adaptive": lambda z: margined(z, functional.adaptive(of_own(z))),
    "functional.arcface_margin": lambda z: margined(z.tanh(), functional.arcface_margin(z[:, :1].tanh(), 0.5)),
    "functional.binary_nce": sampled(functional.binary_nce, log_q=LOG_Q, positive_log_q=LOG_Q[:1], hits=HITS),
    "functional.decoupled": sampled(functional.decoupled, log_q=LOG_Q, correct="importance", hits=HITS),
    "functional.equalised": lambda z: margined(z, functional.equalised(RISING, 0.5)),
    "functional.hinge": sampled(functional.hinge, hits=HITS),
    "functional.in_batch": lambda z: functional.in_batch(z, torch.arange(L), log_q=PRIOR, temperature=0.5),
    "functional.in_batch (mask)": lambda z: functional.in_batch(z, CLASSES, correct="none", hits="mask"),
    "functional.logit_adjusted": lambda z: margined(z, functional.logit_adjusted(of_own(z), RISING)),
    "functional.sampled_softmax": sampled(
        functional.sampled_softmax, log_q=LOG_Q, positive_log_q=LOG_Q[:1], weights=torch.ones(M), hits=HITS
    ),
    "nn.BinaryNCE": sampled(nn.BinaryNCE(), log_q=LOG_Q, positive_log_q=LOG_Q[:1], hits=HITS),
    "nn.GBCE": sampled(nn.GBCE(9), log_q=LOG_Q, positive_log_q=LOG_Q[:1], hits=HITS),
    "nn.InBatchSoftmax": lambda z: nn.InBatchSoftmax(temperature=0.5)(z, torch.arange(L) - 100, log_q=PRIOR),
    "nn.SigmoidPairs": lambda z: nn.SigmoidPairs(temperature=0.5, hits="mask")(z, CLASSES),
    "nn.ListNet": lambda z: nn.ListNet()(z, torch.tensor([[1, 0, 2, 0, -100, -100]] * B)),
    "nn.SampledOutput": output,
}
"""Of scores, or hidden vectors, [B, L]: a number. Where the plain call leaves options out, there is another here."""


def drawn(found: samplers.Negatives) -> Tensor:
    return found.log_q.sum() + 0 * found.ids.sum() + found.hits.sum()


SAMPLERS: dict[str, Call] = {
    "nn.SampledSoftmax": lambda z: LAYER(z, own(z)),
    "samplers.Categorical": lambda z: z.sum() + CATEGORICAL.log_prob(CATEGORICAL.sample((B, M))).sum(),
    "samplers.LogUniform": lambda z: z.sum() + LAYER.sampler.log_prob(LAYER.sampler.sample((B, M))).sum(),
    "samplers.Mixture": lambda z: z.sum() + MIXTURE.log_prob(MIXTURE.sample((B, M))).sum(),
    "samplers.Uniform": lambda z: z.sum() + samplers.Uniform(L).sample((B, M)).sum(),
    "samplers.distinct": lambda z: z.sum() + samplers.distinct(CATEGORICAL, own(z), 2).weights.sum(),
    "samplers.draw": lambda z: z.sum() + drawn(samplers.draw(CATEGORICAL, own(z), M)),
    "samplers.draw (redraw)": lambda z: z.sum() + drawn(samplers.draw(CATEGORICAL, own(z), M, hits="redraw")),
    "samplers.model_based": lambda z: drawn(samplers.model_based(z, own(z), M)) + z.sum(),
    "samplers.within_batch": lambda z: z.sum() + drawn(samplers.within_batch(own(z), PRIOR)),
    "samplers.within_batch (union)": lambda z: z.sum() + drawn(samplers.within_batch(own(z), PRIOR, union=True)),
}
"""Of the same, with draws by torch's global generator."""


STREAM = nn.StreamingLogQ(L)
STREAM.update([0, 1, 0, 2, 3, 4, 5, 0])


def updated(z: Tensor) -> Tensor:
    STREAM.update(own(z))
    return z.sum() + 0 * STREAM(own(z)).sum()


STATEFUL: dict[str, Call] = {
    "nn.StreamingLogQ": lambda z: functional.in_batch(z, torch.arange(L), log_q=STREAM(torch.arange(L))),
    "nn.StreamingLogQ (update)": updated,
    "functional.distributed_in_batch": lambda z: functional.distributed_in_batch(
        z, z.roll(1, 0).tanh(), own(z), log_q=PRIOR[:B], symmetric=True
    ),
}
"""Of the same: tables that a stream fills, and the batches of all processes, of which there is one."""

CALLS = LOSSES | SAMPLERS | STATEFUL


def scores(seed: int = 0) -> Tensor:
    return torch.randn(B, L, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Exported(torch.nn.Module):
    """A function as a module."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self.call = call

    def forward(self, z: Tensor) -> Tensor:
        return self.call(z)


def agrees(call: Call, other: Call, random: bool) -> bool:
    """Whether two functions have one value; where both draw, whether both have a number."""
    torch.manual_seed(0)
    wanted = call(scores())
    torch.manual_seed(0)
    found = other(scores())
    return bool(found.isfinite().all()) if random else torch.allclose(found, wanted)


def compiles(call: Call, random: bool, backend: str = "eager") -> bool:
    torch._dynamo.reset()
    return agrees(call, torch.compile(call, fullgraph=True, backend=backend), random)


def exports(call: Call, random: bool) -> bool:
    program = torch.export.export(Exported(call), (scores(),))
    return agrees(call, program.module(), random)


def maps(call: Call, random: bool) -> bool:
    many = torch.stack([scores(0), scores(1)])
    found = torch.func.vmap(torch.func.grad(call), randomness="different")(many)
    if random:
        return bool(found.isfinite().all())
    each = []
    for one in many:
        leaf = one.clone().requires_grad_()
        each.append(torch.autograd.grad(call(leaf), leaf)[0])
    return torch.allclose(found, torch.stack(each))


def casts(call: Call, random: bool) -> bool:
    """Half-precision scores under autocast give at least single."""
    for layer in (OUTPUT, LAYER):
        layer.float()
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = call(scores().float())
    finally:
        for layer in (OUTPUT, LAYER):
            layer.double()
    return found.dtype in (torch.float32, torch.float64) and bool(found.isfinite())


def twice(call: Call, random: bool) -> bool:
    if random:  # the draws must be those of the first time
        fixed = call
        call = lambda z: (torch.manual_seed(0), fixed(z))[1]  # noqa: E731
    return bool(torch.autograd.gradgradcheck(call, scores().requires_grad_()))


def fused(names: Sequence[str]) -> bool:
    """Whether one graph of several functions has their values and gradients when Inductor made code of it."""
    torch._dynamo.reset()

    def together(z: Tensor) -> Tensor:
        return torch.stack([CALLS[name](z) for name in names])

    found = []
    # One compilation: neither a pool, nor a header, nor trials of what this compiler can make of the processor.
    once = {"compile_threads": 1, "cpp_cache_precompile_headers": False, "cpp.vec_isa_ok": True}
    for function in (together, torch.compile(together, fullgraph=True, backend="inductor", options=once)):
        leaf = scores().requires_grad_()
        values = function(leaf)
        found.append(torch.cat([values.detach(), *torch.autograd.grad(values.sum(), leaf)[0]]))
    return torch.allclose(*found)


TRIALS: dict[str, Callable[[Call, bool], bool]] = {
    "compile": compiles,
    "export": exports,
    "vmap of grad": maps,
    "autocast": casts,
    "twice": twice,
}


REASONS = {
    r"[Dd]ata.dependent|[Dd]ynamic shape": "values decide",
    "inplace randomness": "draws in place",
    "mutate a captured Tensor": "writes its tables",
    "saved tensor hooks": "encodes anew",
    "no second derivatives": "made in blocks",
}
"""What torch says, and what the page says of it; the first that is found."""


def row(name: str) -> dict[str, str]:
    """What works of one function, and why what does not."""
    call, random = CALLS[name], name in SAMPLERS
    found = {}
    for title, trial in TRIALS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found[title] = "yes" if trial(call, random) else "no: another value"
            except Exception as error:
                said = f"{type(error).__name__}: {error}"
                words = [words for pattern, words in REASONS.items() if re.search(pattern, said)]
                found[title] = f"no: {words[0] if words else said[:300]}"
    return found
