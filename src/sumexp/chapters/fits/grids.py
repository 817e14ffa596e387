"""The runs of `sumexp.chapters.fits.protocols` as jobs."""

from collections.abc import Mapping

from sumexp.chapters.fits import protocols, training
from sumexp.chapters.jobs import Grid, Job, Present


def jobs(profile: str, present: Present) -> tuple[Job, ...]:
    """All runs that the chapter asks for; none reads a data set."""
    asked = protocols.grid(profile)
    return tuple(Job(training.train, config, seconds=training.seconds(config)) for config in asked)


GRIDS: Mapping[str, Grid] = {"fits": jobs}
