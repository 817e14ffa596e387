"""What a run costs, in time and disk: measured on the finished runs of its task, or assumed."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

from sumexp.companion.grids.jobs import GRIDS, Job, jobs_of, look, size
from sumexp.companion.notebooks import PROFILES

SIZE = 1e6
"""Bytes of a run, assumed where no finished run tells."""


@dataclass(frozen=True)
class Estimate:
    """What a run of a task costs on a kind of device.

    Attributes:
        finished: the number of finished runs that the rest was measured on; 0 where it is assumed.
        rate: operations a second.
        size: bytes.
    """

    finished: int
    rate: float
    size: float

    def seconds(self, job: Job) -> float:
        """How long the run takes, by itself on its device."""
        return job.work / self.rate


def estimates(grid: str, device: str) -> dict[str, Estimate]:
    """For each task of a grid what its runs cost, from those that are finished at any profile.

    The rate is all their operations over all their seconds, so that long runs count most: short ones take their time to
    start.
    """
    kind, rates = torch.device(device).type, GRIDS[grid].rates
    measured: dict[str, dict[Path, tuple[float, float]]] = {}
    for job in (job for profile in PROFILES for job in jobs_of(grid, profile)):
        found = measured.setdefault(job.name, {})
        entry = job.place(device)
        how_far, record = look(entry)
        if how_far == "finished" and record:
            found[entry] = job.work, record["environment"]["seconds"]
    return {
        name: Estimate(
            finished=len(found),
            rate=_rate(found.values()) if found else rates[kind],
            size=sum(map(size, found)) / len(found) if found else SIZE,
        )
        for name, found in measured.items()
    }


def _rate(measured: Iterable[tuple[float, float]]) -> float:
    work, seconds = map(sum, zip(*measured, strict=True))
    return work / max(seconds, 1e-3)
