"""What a run costs, in time and disk: measured on the finished runs of its task, or assumed."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from sumexp.chapters.jobs import Job
from sumexp.companion.grids.jobs import computations, grids, jobs_of
from sumexp.companion.pipeline.settings import PROFILES
from sumexp.companion.store import Entry, Store

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


def estimates(grid: str, device: str, store: Store) -> dict[str, Estimate]:
    """For each task of a grid what its runs cost, from those that are finished at any profile.

    The rate is all their operations over all their seconds, so that long runs count most: short ones take their time to
    start.
    """
    kind = torch.device(device).type
    measured: dict[str, dict[str, tuple[float, Entry]]] = {}
    jobs = [job for profile in PROFILES for job in jobs_of(grid, profile)]
    assumed = {job.name: (job.rates or grids()[grid].rates)[kind] for job in jobs}
    for job, wanted in zip(jobs, computations(jobs, device), strict=True):
        found = measured.setdefault(job.name, {})
        if wanted.key not in found and (entry := store.here(wanted)) is not None:
            found[wanted.key] = job.work, entry
    return {name: _estimate(list(found.values()), assumed[name]) for name, found in measured.items()}


def _estimate(measured: Sequence[tuple[float, Entry]], assumed: float) -> Estimate:
    if not measured:
        return Estimate(0, assumed, SIZE)
    work = sum(work for work, _ in measured)
    seconds = sum(entry.provenance.seconds for _, entry in measured)
    size = sum(entry.size for _, entry in measured) / len(measured)
    return Estimate(len(measured), work / max(seconds, 1e-3), size)
