"""A claim is decided by a whole grid, of one profile and one kind of device: nothing less is found."""

from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from sumexp.chapters.vae import Stack, grids
from tests import complete
from tests.vae import test_paper


def test_a_grid_of_which_a_run_is_lacking_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = {("cuda", 1), ("cpu", 1), ("cpu", 2)}
    monkeypatch.setattr(complete.parts, "modules", lambda names: {})
    monkeypatch.setattr(complete.runs, "computation", lambda task, config, *, device="book", **_: (device, config))
    monkeypatch.setattr(complete.runs, "from_book", lambda wanted: wanted if wanted == [("book", 4)] else None)
    monkeypatch.setattr(complete.runs, "read", lambda entry: entry)
    store = SimpleNamespace(find=lambda wanted: wanted if wanted in stored else None)
    monkeypatch.setattr(complete, "default", lambda: store)

    def runs_of(asked: list[int]) -> object:
        return complete.complete(SimpleNamespace(__module__=""), asked, lambda config: ())  # type: ignore[type-var]

    assert runs_of([1]) == [("cuda", 1)]
    assert runs_of([1, 2]) == [("cpu", 1), ("cpu", 2)]  # never some of one device and some of the other
    assert runs_of([4]) == [("book", 4)]
    assert runs_of([1, 3]) is None
    assert runs_of([]) is None


def test_autoencoders_need_every_temperature_of_the_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def nothing(task: object, stacks: Sequence[Stack], data: object) -> None:
        asked.append(len({member.temperature for stack in stacks for member in stack.members}))

    monkeypatch.setattr(complete, "complete", nothing)
    with pytest.raises(pytest.skip.Exception, match="not all runs"):
        test_paper.test_the_gaussian_trains_to_a_lower_loss("mnist", lambda *_, **__: None)
    assert asked == [len(grids.PLANS[profile]["mnist"].temperatures) + 1 for profile in ("paper", "cpu")]
