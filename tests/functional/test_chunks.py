"""Chunks of a batch: the loss and the gradients of one batch, and the memory of a chunk."""

import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sumexp import functional
from sumexp.functional import cached

SIZE, CLASSES = 20, 9


def towers() -> tuple[nn.Module, nn.Module, Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    tower = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.LayerNorm(16), nn.Linear(16, 4)).double()
    table = nn.Embedding(CLASSES, 4).double()
    users, items = torch.randn(SIZE, 5, dtype=torch.float64), torch.randint(CLASSES, (SIZE,))
    return tower, table, users, items, torch.log_softmax(torch.randn(CLASSES, dtype=torch.float64), 0)


@pytest.mark.parametrize("chunk_size", [1, 6, SIZE, 100])
@pytest.mark.parametrize("options", [{}, {"symmetric": True, "hits": "mask", "row_ids": torch.arange(SIZE)}])
def test_loss_and_gradients_are_those_of_one_batch(chunk_size: int, options: dict[str, Any]) -> None:
    tower, table, users, items, log_q = towers()
    parameters = [*tower.parameters(), *table.parameters()]
    results = []
    for q, v in (
        (cached(tower, users, chunk_size=chunk_size), cached(table, items, chunk_size=chunk_size)),
        (tower(users), table(items)),
    ):
        loss = functional.in_batch(q @ v.T, items, log_q=log_q[items], temperature=0.5, **options)
        results.append([loss.detach(), *torch.autograd.grad(loss, parameters)])
    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-12)


def test_one_chunk_s_activations_are_alive_at_a_time() -> None:
    tower, _, users, _, _ = towers()
    activations: list[weakref.ref[Tensor]] = []
    most = 0

    def encode(x: Tensor) -> Tensor:
        nonlocal most
        hidden = tower[0](x).tanh()  # tanh keeps what it returns for its gradient
        activations.append(weakref.ref(hidden))
        most = max(most, sum(kept() is not None for kept in activations))
        return hidden.square().sum(-1, keepdim=True)

    loss = cached(encode, users, chunk_size=4).logsumexp(0).sum()
    assert len(activations) == 5
    assert all(kept() is None for kept in activations)
    loss.backward()  # type: ignore[no-untyped-call]
    assert len(activations) == 10
    assert most == 1
    activations.clear()
    whole = encode(users).logsumexp(0).sum()
    assert activations[0]() is not None  # as a plain call keeps them
    whole.backward()  # type: ignore[no-untyped-call]


def test_dropout_is_replayed() -> None:
    tower, _, users, _, _ = towers()
    random = nn.Sequential(tower, nn.Dropout(0.5))
    gradients = []
    for chunked in (lambda: cached(random, users, chunk_size=4), lambda: torch.cat(list(map(random, users.split(4))))):
        torch.manual_seed(7)
        value = chunked().logsumexp(0).sum()
        torch.rand(3)  # what is drawn between the passes does not matter
        gradients.append([value.detach(), *torch.autograd.grad(value, list(tower.parameters()))])
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)


def test_several_inputs_go_in_step_and_nothing_is_kept_without_gradients() -> None:
    x, y = torch.arange(6.0).view(3, 2), torch.arange(3.0)
    wanted = x * y.unsqueeze(-1)
    assert torch.equal(cached(lambda a, b: a * b.unsqueeze(-1), x, y, chunk_size=2), wanted)
    with torch.no_grad():
        assert torch.equal(cached(lambda a, b: a * b.unsqueeze(-1), x, y, chunk_size=2), wanted)


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match="chunk_size is 0"):
        cached(torch.sin, torch.ones(3), chunk_size=0)
    with pytest.raises(ValueError, match=r"inputs have \[2, 3\] rows"):
        cached(torch.add, torch.ones(3), torch.ones(2), chunk_size=2)
    for encode in (lambda x: (x, x), lambda x: x.sum(0)):
        with pytest.raises(ValueError, match=r"encode made .* of 2 examples; it must return one tensor \[2, d\]"):
            cached(encode, torch.ones(4, 3), chunk_size=2)
    for given in ((), (torch.tensor(1.0),), ([1.0, 2.0],)):
        with pytest.raises(ValueError, match=r"cached needs tensors \[B, \.\.\.\]"):
            cached(torch.sin, *given, chunk_size=2)  # type: ignore[arg-type]
