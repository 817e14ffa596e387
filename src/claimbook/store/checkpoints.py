"""The state of a computation that is half done, in a file next to the place of its entry."""

import logging
import os
import time
from zipfile import ZipFile

import torch

from claimbook.store.computation import Computation
from claimbook.store.entries import PART, Store
from claimbook.store.provenance import Meter
from claimbook.tasks import State

_log = logging.getLogger(__name__)


class Checkpoint:
    """Where a task leaves its state, and the time that it has taken so far."""

    def __init__(self, store: Store, computation: Computation, device: str, every: float) -> None:
        self._key, self._device, self._every = computation.key, device, every
        self.path = store.checkpoint(computation)
        self.meter = Meter()
        self._saved = time.perf_counter()

    def load(self) -> State | None:
        """What a killed process saved last, its tensors on the run's device."""
        if not self.path.exists():
            return None
        try:
            with ZipFile(self.path) as members:
                if damaged := members.testzip():  # torch does not compare checksums
                    raise ValueError(f"its part {damaged} is not what was written")
            saved = torch.load(self.path, map_location=self._device, weights_only=True)
            if saved["key"] != self._key:
                raise ValueError("it is of another run")
            wall, cpu = saved["seconds"]
        except Exception as error:  # whatever is wrong, the run can restart
            reason = str(error).partition(". ")[0] or type(error).__name__  # without torch's advice to load it unsafely
            _log.warning("the checkpoint %s is damaged (%s); the run starts anew", self.path, reason)
            return None
        self.meter = Meter((wall, cpu))
        _log.warning("going on from a checkpoint, after %.0f s of computing", wall)
        return dict(saved["state"])

    def save(self, state: State) -> None:
        """Put ``state`` in place of what was saved before, unless that was a moment ago."""
        if time.perf_counter() - self._saved < self._every:
            return
        part = self.path.with_name(self.path.name + PART)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("wb") as file:
                torch.save({"key": self._key, "seconds": list(self.meter.elapsed()), "state": state}, file)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.path)
        except BaseException as error:
            part.unlink(missing_ok=True)
            if isinstance(error.__context__, OSError):  # torch wraps it in another error
                raise error.__context__ from error
            raise
        self._saved = time.perf_counter()
