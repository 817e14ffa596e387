"""The table "What torch makes of them" on the package's pages is what the trials find, row by row."""

from pathlib import Path

import pytest
import torch

from sumexp import losses, samplers
from tests.modules import trials

PAGE = Path(__file__).parents[2] / "book" / "api" / "torch.md"
NAMES = sorted(trials.LOSSES | trials.SAMPLERS)


def printed(name: str, found: dict[str, bool]) -> str:
    return f"| `{name}` | " + " | ".join("yes" if works else "no" for works in found.values()) + " |"


def rows() -> list[str]:
    return [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]


@pytest.mark.parametrize("name", NAMES)
def test_a_row_of_the_page_is_what_the_trials_find(name: str) -> None:
    assert printed(name, trials.row(name)) in rows()


def test_the_page_has_a_row_for_each() -> None:
    assert [row.split("`")[1] for row in rows()] == NAMES
    elementwise = {"adaptive", "arcface_margin", "equalised", "logit_adjusted"}
    functions = {f"losses.{name}" for name in losses.__all__ if not name.isupper()} - {"losses.Margins"}
    assert functions - {f"losses.{name}" for name in elementwise} == set(trials.LOSSES)


def test_a_trial_can_fail() -> None:
    # What reads a value in the midst of its work is no graph.
    assert not trials.agrees(lambda z: z.sum(), lambda z: z.sum() + 1, random=False)
    with pytest.raises(torch._dynamo.exc.UserError):
        trials.compiles(lambda z: z * z.max().item() if z.max().item() > 0 else z, random=False)


def test_checks_left_out_of_a_graph_are_there_again_after_it() -> None:
    def loss(z: torch.Tensor) -> torch.Tensor:
        return losses.in_batch(z, [0, 1], log_q=torch.tensor([-1.0, -torch.inf]))

    torch._dynamo.reset()
    assert not torch.compile(loss, fullgraph=True, backend="eager")(torch.zeros(2, 2)).isfinite()
    with pytest.raises(ValueError, match="log_q is -inf"):
        loss(torch.zeros(2, 2))


def test_gradients_of_a_compiled_loss() -> None:
    for name in ("losses.in_batch", "losses.sampled_softmax"):
        torch._dynamo.reset()
        call = trials.LOSSES[name]
        gradients = []
        for function in (call, torch.compile(call, fullgraph=True, backend="aot_eager")):
            leaf = trials.scores().requires_grad_()
            gradients.append(torch.autograd.grad(function(leaf), leaf)[0])
        torch.testing.assert_close(*gradients)


def test_draws_of_a_graph_follow_the_law() -> None:
    """20,000 draws of six classes in a graph: the largest of six shares is 5 standard errors off with probability below
    4e-6."""
    torch._dynamo.reset()
    for law in (trials.CATEGORICAL, trials.MIXTURE, samplers.LogUniform(6)):
        draw = torch.compile(lambda law=law: law.sample((20_000,)), fullgraph=True, backend="eager")
        torch.manual_seed(1)
        share = torch.bincount(draw(), minlength=6) / 20_000
        q = law.log_prob(range(6)).exp()
        assert ((share - q).abs() < 5 * (q * (1 - q) / 20_000).sqrt()).all()
