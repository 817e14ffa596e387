"""The runs of a grid, and how far each is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias, get_args

from sumexp import datasets
from sumexp.companion.authoring import runs
from sumexp.companion.pipeline.inputs import declared_runs, parse, source_path
from sumexp.companion.pipeline.settings import PROFILES, choice, resolve_device
from sumexp.companion.store import Computation
from sumexp.companion.store.complete_grids import trained
from sumexp.runtime import Task

Present: TypeAlias = Callable[[str], bool]


@dataclass(frozen=True)
class Job:
    """A run of a grid.

    Attributes:
        task: what computes it.
        config: its settings.
        data: the data sets that it reads.
        threads: how many it uses.
        work: floating-point operations that it takes.
        rates: as of its grid, where those of its task are others.
    """

    task: Task[Any]
    config: Any
    data: tuple[str, ...] = ()
    threads: int = 1
    work: float = 0.0
    rates: Mapping[str, float] | None = None

    @property
    def name(self) -> str:
        """The task, as the store names it."""
        return f"{self.task.__module__}.{self.task.__qualname__}"

    def computation(self, device: str, code: Mapping[str, str] | None = None) -> Computation:
        """What is computed; of many jobs see :func:`computations`."""
        return runs.computation(self.task, self.config, data=self.data, device=device, threads=self.threads, code=code)

    def run(self, device: str) -> runs.Run:
        """The run: from the store, or computed now."""
        return runs.cached(self.task, self.config, data=self.data, device=device, threads=self.threads)


def _vae(profile: str, there: Present) -> tuple[Job, ...]:
    from sumexp.vae import grids, training
    from sumexp.vae.config import Source

    stacks = grids.grid(profile, [name for name in get_args(Source) if there(name)])
    return tuple(Job(training.train, stack, grids.data(stack), work=grids.work(stack)) for stack in stacks)


def _fits(profile: str, there: Present) -> tuple[Job, ...]:
    from sumexp.fits import protocols, training

    return tuple(Job(training.train, config, work=training.work(config)) for config in protocols.grid(profile))


CONVOLUTIONS: Mapping[str, float] = MappingProxyType({"cpu": 2.2e10, "cuda": 2e12})
"""Rates of a residual network: a step of 128 pictures, 9.6e10 operations, took 4.3 s on one core beside a busy one; no
GPU was at hand, and a small part of what one does in single precision is assumed."""


def _longtail(profile: str, there: Present) -> tuple[Job, ...]:
    from sumexp.longtail import grids, residual
    from sumexp.longtail.config import Source
    from sumexp.models.sampled import prediction

    source, plan = grids.chosen(profile, [name for name in get_args(Source) if there(name)])
    first = (
        Job(prediction.predict, one, work=prediction.work(len(one.counts), len(one.methods)))
        for one in grids.forecasts(source, plan)
    )
    task, rates = grids.task(plan), CONVOLUTIONS if plan.blocks else None
    asked = (*grids.configs(source, plan), *grids.confirmation(source, plan))
    found = (*first, *(Job(task, one, grids.data(one), work=grids.work(one), rates=rates) for one in asked))
    if profile != "paper" or plan.blocks or not there("cifar-100-lt"):
        return found
    tail = ((one, grids.data(one), grids.work(one)) for one in grids.tailed())
    return (*found, *(Job(residual.train, *one[:2], work=one[2], rates=CONVOLUTIONS) for one in tail))


def _photographs(profile: str, there: Present) -> tuple[Job, ...]:
    from sumexp.longtail import grids, photographs

    # Nothing smaller stands in for them, and what they cost is to be known before they are fetched.
    asked = [one for source in get_args(photographs.Source) for one in grids.photographed(source)]
    return tuple(
        Job(photographs.train, one, grids.data(one), work=grids.work(one), rates=CONVOLUTIONS) for one in asked
    )


def _retrieval(profile: str, there: Present) -> tuple[Job, ...]:
    from sumexp.retrieval import grids, informed, outlook, training

    plans = grids.chosen(profile, [name for name in get_args(training.Source) if there(name)])
    first = [grids.outlook(source, plan) for source, plan in plans.items()]
    asked = (config for source, plan in plans.items() for config in grids.configs(source, plan))
    return (
        *(Job(outlook.foresee, one, grids.data(one), work=grids.foreseen(one)) for one in first),
        *(Job(training.train, one, grids.data(one), work=grids.work(one)) for one in asked),
        *(
            Job(informed.explain, one, grids.data(one), work=grids.foreseen(one))
            for one in (grids.explained(source, plan) for source, plan in plans.items())
        ),
    )


@dataclass(frozen=True)
class Grid:
    """What is known of the runs that a chapter asks for.

    Attributes:
        jobs: gives them, from the profile and what tells whether a data set is there.
        rates: by kind of device how many operations a second they do, assumed where no finished run tells.
        shown: whether a chapter shows them, and waits for all on a data set.
    """

    jobs: Callable[[str, Present], tuple[Job, ...]]
    rates: Mapping[str, float]
    shown: bool = True


GRIDS: Mapping[str, Grid] = MappingProxyType(
    {
        # Matrix products: a step of 0.32e9 operations took 2.5 ms on two idle cores with the least costly noise, twice
        # that with others; this is of one core. No GPU was at hand: a small part of what one does in single precision.
        "vae": Grid(_vae, {"cpu": 3e10, "cuda": 2e12}),
        # Exponentials and small sums: 3e7 (integrals) to 2e8 (draws) a second of one core, by the first fits of profile
        # cpu; small kernels start no faster on a GPU.
        # Predictions: 3e7, beside one idle core. Training: of one core, small products and many small kernels.
        "longtail": Grid(_longtail, {"cpu": 1.5e10, "cuda": 1e11}),
        "photographs": Grid(_photographs, CONVOLUTIONS, shown=False),
        # Sparse rows: gathered and scattered, which takes longer than the products that are counted.
        "retrieval": Grid(_retrieval, {"cpu": 5e9, "cuda": 5e10}),
        "fits": Grid(_fits, {"cpu": 1e8, "cuda": 1e8}),
    }
)


def jobs_of(grid: str, profile: str) -> tuple[Job, ...]:
    """The runs of a grid with the data sets that are there.

    Raises:
        CompanionError: if there is no such grid or profile.
    """
    choice("GRID", grid, GRIDS)
    choice("PROFILE", profile, PROFILES)
    return GRIDS[grid].jobs(profile, present)


def by_source(grid: str, profile: str) -> dict[str, tuple[Job, ...]]:
    """For each data set that is there and that the grid reads: its runs, were no other there; none if no chapter asks.

    Raises:
        CompanionError: if there is no such grid or profile.
    """
    asked = jobs_of(grid, profile) if GRIDS[grid].shown else ()
    read = dict.fromkeys(name for job in asked for name in job.data)
    return {source: GRIDS[grid].jobs(profile, source.__eq__) for source in read}


def computations(jobs: Sequence[Job], device: str) -> list[Computation]:
    """What each job computes, in their order; the code of a task is found once."""
    code = {task: runs.code_of(task) for task in {job.task for job in jobs}}
    return [job.computation(device, code[job.task]) for job in jobs]


def asked(chapter: str, profile: str, device: str) -> list[Computation]:
    """The runs of its grid that a chapter shows, or would compute: at ``cpu`` on what the store has whole.

    Raises:
        CompanionError: if there is no such chapter.
    """
    grid = GRIDS.get(chapter)
    if grid is None or not grid.shown:
        return []
    there = trained(chapter, declared_runs(parse(source_path(chapter))).get(chapter, ()), profile, device)
    return computations(grid.jobs(profile, there.__contains__), device)


def present(name: str) -> bool:
    """Whether the data set is there."""
    try:
        return datasets.available(name)
    except datasets.DataError:
        return False


def absent(grid: str, profile: str) -> list[str]:
    """The data sets that the grid would use if they were there."""
    wanted = {name for job in GRIDS[grid].jobs(profile, lambda name: True) for name in job.data}
    return sorted(name for name in wanted if not present(name))


def kind_of(device: str) -> str:
    """``cpu`` or ``cuda``, whether or not it is here.

    Raises:
        CompanionError: if the device is unknown.
    """
    return device if device in ("cpu", "cuda") else resolve_device(device)
