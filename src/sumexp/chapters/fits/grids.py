"""The runs of the chapter as jobs: `sumexp.chapters.fits.protocols` says which there are."""

from collections.abc import Mapping

from sumexp.chapters.fits import protocols, training
from sumexp.chapters.jobs import Grid, Job, Present


def jobs(profile: str, present: Present) -> tuple[Job, ...]:
    """All runs that the chapter asks for; none reads a data set."""
    return tuple(Job(training.train, config, work=training.work(config)) for config in protocols.grid(profile))


# Exponentials and small sums: 3e7 (integrals) to 2e8 (draws) a second of one core, by the first fits of profile cpu;
# small kernels start no faster on a GPU.
GRIDS: Mapping[str, Grid] = {"fits": Grid(jobs, {"cpu": 1e8, "cuda": 1e8})}
