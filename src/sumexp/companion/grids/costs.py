"""What a run costs, in time and disk: measured on the finished runs of its task, or assumed."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from sumexp.chapters.jobs import Job
from sumexp.companion.grids.jobs import computations, grids, jobs_of
from sumexp.companion.store import Entry, Store
from sumexp.companion.store.settings import PROFILES

SIZE = 1e6
"""Bytes of a run, assumed where no finished run tells."""


@dataclass(frozen=True)
class Estimate:
    """What a run of a task costs on a kind of device: operations a second, and bytes.

    It was measured on so many finished runs; on 0 where it is assumed.
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
    jobs = [job for profile in PROFILES for job in jobs_of(grid, profile)]
    assumed = {job.name: (job.rates or grids()[grid].rates)[kind] for job in jobs}
    asked = {wanted.key: (job, wanted) for job, wanted in zip(jobs, computations(jobs, device), strict=True)}
    found = [(job, entry) for job, wanted in asked.values() if (entry := store.find(wanted)) is not None]
    return {name: _estimate([one for one in found if one[0].name == name], rate) for name, rate in assumed.items()}


def _estimate(finished: Sequence[tuple[Job, Entry]], assumed: float) -> Estimate:
    if not finished:
        return Estimate(0, assumed, SIZE)
    work = sum(job.work for job, _ in finished)
    seconds = sum(entry.provenance.seconds for _, entry in finished)
    size = sum(entry.size for _, entry in finished) / len(finished)
    return Estimate(len(finished), work / max(seconds, 1e-3), size)
