"""Losses with sampled negatives, and exactly what they optimise.

- `functional`: losses as functions: in-batch and sampled softmax, binary NCE, ListNet, ... (``torch.nn.functional``)
- `nn`: modules with state: a sampled output layer, the sampled softmax in one call, streamed log q (``torch.nn``)
- `samplers`: proposals to draw negatives from, with the log probability of each draw
- `ranking`: recall, NDCG, MRR with stated ties, and the bounds that a cross entropy sets on them
- `distributions`: Perturb-Softmax and Perturb-Argmax (``torch.distributions``)
- `audit`: what a training set-up minimises, and the line to change; ``sumexp audit`` on the command line
- `expectations`: the exact expectation of a sampled loss over its negatives
- `bias`, `nce`, `negatives`, `perturb`: the results of the five papers, exact for any number of classes
- `datasets`: the data sets of the book, fetched once and checked

`sumexp.chapters` holds what only the book's notebooks use. Each is loaded when first named (``sumexp.ranking``). The
package `claimbook` builds the book.
"""

import importlib as _importlib
from importlib.metadata import version as _version
from types import ModuleType as _ModuleType

__version__: str

__all__ = [
    "audit",
    "bias",
    "datasets",
    "distributions",
    "expectations",
    "functional",
    "nce",
    "negatives",
    "nn",
    "perturb",
    "ranking",
    "samplers",
]


def __getattr__(name: str) -> _ModuleType | str:
    if name == "__version__":  # from what is installed: a release is no change of the code, which keys runs
        return _version("sumexp")
    if name in (*__all__, "chapters"):
        return _importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
