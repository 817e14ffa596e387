"""The table "What torch makes of losses and samplers" is what the trials find, row by row."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from sumexp import functional, nn, samplers
from sumexp.distributions import PerturbArgmax, PerturbSoftmax
from sumexp.perturb import Gaussian, Gumbel, Logistic
from tests import calls
from tests.accelerator.functions import LAWS
from tests.builds.compiled import trials
from tests.calls import Call

RESULTS = Path(__file__).parents[3] / "src" / "sumexp" / "measured" / "devices.json"
TABLES = json.loads(RESULTS.read_text("utf-8"))["tables"]
ROWS = {row["function"]: row for row in TABLES["torch"]}


@pytest.mark.parametrize("name", sorted(trials.CALLS))
def test_a_row_of_the_page_is_what_the_trials_find(name: str) -> None:
    actual, stated = trials.row(name), ROWS.get(name, {})
    titles = actual.keys()
    assert actual == {title: stated.get(title) for title in titles}, "write it anew: python -m tests.accelerator"


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("c++"), reason="Inductor needs a C++ compiler, c++")
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("calls", [trials.LOSSES, trials.LAWS])
def test_inductor_s_code_has_the_values_and_gradients(calls: dict[str, Call]) -> None:
    """All of them in one graph, so that the compiler runs once."""
    assert trials.fused(list(calls))


def test_the_page_has_a_row_for_each() -> None:
    assert ROWS.keys() == trials.CALLS.keys()
    for name, row in ROWS.items():
        assert row["Inductor"] == ("yes" if name in trials.LOSSES | trials.LAWS else "not tried")
    functions = {f"functional.{name}" for name in functional.__all__ if not name.isupper()} - {"functional.Margins"}
    layers = {"nn.BinaryNCE", "nn.GBCE", "nn.InBatchSoftmax", "nn.ListNet", "nn.SampledOutput", "nn.SigmoidPairs"}
    assert functions | layers == {name.split()[0] for name in trials.LOSSES}
    classes = {f"nn.{name}" for name in nn.__all__} | {f"distributions.{name}" for name in LAWS}
    assert classes == {name.split()[0] for name in trials.CALLS if name.startswith(("nn.", "distributions."))}


def test_checks_left_out_of_a_graph_are_there_again_after_it() -> None:
    def loss(z: torch.Tensor) -> torch.Tensor:
        return functional.in_batch(z, [0, 1], log_q=torch.tensor([-1.0, -torch.inf]))

    torch._dynamo.reset()
    assert not torch.compile(loss, fullgraph=True, backend="eager")(torch.zeros(2, 2)).isfinite()
    with pytest.raises(ValueError, match="log_q is -inf"):
        loss(torch.zeros(2, 2))


def test_gradients_of_a_compiled_loss() -> None:
    for name in ("functional.in_batch", "functional.sampled_softmax"):
        torch._dynamo.reset()
        call = trials.LOSSES[name]
        gradients = []
        for function in (call, torch.compile(call, fullgraph=True, backend="aot_eager")):
            leaf = trials.scores().requires_grad_()
            gradients.append(torch.autograd.grad(function(leaf), leaf)[0])
        torch.testing.assert_close(*gradients)


def test_draws_of_a_graph_follow_the_law() -> None:
    """20,000 draws of six classes in a graph: one of 54 shares is 5 standard errors off with probability below 4e-5."""
    torch._dynamo.reset()
    draws: list[tuple[Any, Tensor]] = [
        (lambda law=law: law.sample((20_000,)), law.log_prob(range(6)).exp())
        for law in (trials.CATEGORICAL, calls.SAMPLERS["Mixture"](trials.RISING.exp()), samplers.LogUniform(6))
    ]
    for noise in (Gumbel(), Gaussian(), Logistic()):
        for law in (PerturbArgmax(trials.RISING, noise), PerturbSoftmax(trials.RISING, 0.5, noise)):
            draws.append((lambda law=law: law.sample((20_000,)).argmax(-1), PerturbArgmax(trials.RISING, noise).mean))
    torch.manual_seed(1)
    for draw, q in draws:
        share = torch.bincount(torch.compile(draw, fullgraph=True, backend="eager")(), minlength=6) / 20_000
        assert ((share - q).abs() < 5 * (q * (1 - q) / 20_000).sqrt()).all()
