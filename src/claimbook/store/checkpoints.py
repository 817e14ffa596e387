"""The state of a computation that is half done, in a file next to the place of its entry."""

import logging
import os
import time
from pathlib import Path
from zipfile import ZipFile

import torch

from claimbook.store.computation import Computation
from claimbook.store.entries import PART, Store
from claimbook.store.provenance import Meter
from claimbook.tasks import State

_log = logging.getLogger(__name__)


class Checkpoint:
    """Where a task leaves its state, with its computation's parts and the time that it has taken so far."""

    def __init__(self, store: Store, computation: Computation, device: str, every: float) -> None:
        self._computation, self._device, self._every = computation, device, every
        self.path = store.checkpoint(computation)
        self.meter = Meter()
        self._saved = time.perf_counter()

    def load(self) -> State | None:
        """What a killed process saved last, its tensors on the run's device."""
        if not self.path.exists():
            return None
        try:
            computation, seconds, state = read(self.path, self._device)
            if computation.key != self._computation.key:
                raise ValueError("it is of another run")
        except Exception as error:  # whatever is wrong, the run can restart
            said = str(error).partition(". ")[0] or type(error).__name__  # without torch's advice to load it unsafely
            _log.warning("the checkpoint %s is damaged (%s); the run starts anew", self.path, said)
            return None
        self.meter = Meter(seconds)
        _log.warning("going on from a checkpoint, after %.0f s of computing", seconds[0])
        return state

    def save(self, state: State) -> None:
        """Put ``state`` in place of what was saved before, unless that was a moment ago."""
        if time.perf_counter() - self._saved < self._every:
            return
        part = self.path.with_name(self.path.name + PART)
        record = {"name": self._computation.name, "parts": dict(self._computation.parts)}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("wb") as file:
                torch.save(record | {"seconds": list(self.meter.elapsed()), "state": state}, file)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.path)
        except BaseException as error:
            part.unlink(missing_ok=True)
            if isinstance(error.__context__, OSError):  # torch wraps it in another error
                raise error.__context__ from error
            raise
        self._saved = time.perf_counter()


def read(path: Path, device: str = "cpu") -> tuple[Computation, tuple[float, float], State]:
    """The run of a checkpoint, its seconds so far (wall, processor) and its state; of a damaged file any exception."""
    with ZipFile(path) as members:
        if damaged := members.testzip():  # torch does not compare checksums
            raise ValueError(f"its part {damaged} is not what was written")
    saved = torch.load(path, map_location=device, weights_only=True)
    wall, cpu = saved["seconds"]
    return Computation("run", saved["name"], saved["parts"]), (float(wall), float(cpu)), dict(saved["state"])
