"""Costs of runs in time and disk: as their grid states them, corrected by the finished runs of the same task."""

from dataclasses import dataclass

import torch

from claimbook.grids.jobs import computations, jobs_of
from claimbook.store import Store
from claimbook.store.settings import PROFILES
from claimbook.tasks import Job

SIZE = 1e6
"""Bytes of a run, assumed where no run of the task is finished."""


@dataclass(frozen=True)
class Estimate:
    """Costs of a task's runs on a kind of device.

    Attributes:
        kind: the device.
        finished: the number of finished runs.
        factor: their seconds over the stated ones; 1 without any.
        size: mean bytes of a run.
    """

    kind: str
    finished: int = 0
    factor: float = 1.0
    size: float = SIZE

    def seconds(self, job: Job) -> float:
        """The expected seconds of a run by itself."""
        return self.factor * job.seconds[self.kind]


def estimates(grid: str, device: str, store: Store) -> dict[str, Estimate]:
    """The costs of each task of a grid, from its finished runs at any profile; long runs count most."""
    kind = torch.device(device).type
    jobs = [job for profile in PROFILES for job in jobs_of(grid, profile)]
    asked = {wanted.key: (job, wanted) for job, wanted in zip(jobs, computations(jobs, device), strict=True)}
    finished = [(job, entry) for job, wanted in asked.values() if (entry := store.find(wanted)) is not None]
    found = {job.name: Estimate(kind) for job in jobs}
    for name in dict.fromkeys(job.name for job, _ in finished):
        runs = [(job.seconds[kind], entry) for job, entry in finished if job.name == name]
        took, stated = sum(entry.provenance.seconds for _, entry in runs), sum(seconds for seconds, _ in runs)
        size = sum(entry.size for _, entry in runs) / len(runs)
        found[name] = Estimate(kind, len(runs), max(took, 1e-3) / stated, size)
    return found
