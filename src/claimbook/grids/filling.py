"""Having Snakemake compute the runs of a grid: on this machine, several side by side, or on a cluster."""

import math

from claimbook import BookError
from claimbook.grids.costs import estimates
from claimbook.grids.jobs import by_source, computations, jobs_of
from claimbook.pipeline import workflow
from claimbook.pipeline.workflow import Machines, Task
from claimbook.store import default
from claimbook.store.complete_grids import mark
from claimbook.store.provenance import Meter


def fill(grid: str, profile: str, device: str, machines: Machines) -> None:
    """Have Snakemake compute on the machines what the store lacks of a grid."""
    total, log = len(jobs_of(grid, profile)), default().root / "logs" / f"{grid}-{profile}-{device}.log"
    tasks = longest_first(grid, profile, device)
    if tasks and (lacking := workflow.run(tasks, machines, log)):
        raise BookError(
            f"{len(lacking)} of {total} runs are not finished: see above, and {log}. What is finished is kept, "
            "and killed runs go on from their checkpoints: give the same command again"
        )


def longest_first(grid: str, profile: str, device: str) -> list[Task]:
    """The runs of a grid that the store lacks: no core waits for a long one at the end.

    A cluster lets each run for three times the estimate and ten minutes.
    """
    store, jobs = default(), jobs_of(grid, profile)
    costs = estimates(grid, device, store)
    found = []
    for job, wanted in zip(jobs, computations(jobs, device), strict=True):
        if store.lacking([wanted]):
            seconds = costs[job.name].seconds(job)
            arguments = ("runs", "run", "--grid", grid, "--profile", profile, "--device", device, "--only", wanted.key)
            minutes = 10 + math.ceil(3 * seconds / 60)
            task = Task(f"run_{wanted.key}", wanted, arguments, minutes, device == "cuda", job.threads)
            found.append((seconds, task))
    return [task for _, task in sorted(found, key=lambda pair: pair[0], reverse=True)]


def leave_marks(grid: str, profile: str, device: str) -> list[str]:
    """Say in the store on which data sets it has all runs of a grid, for chapters to show; gives their names."""
    store, whole, meter = default(), [], Meter()
    for source, jobs in by_source(grid, profile).items():
        wanted = computations(jobs, device)
        if any(store.find(one) is None for one in wanted):
            continue
        whole.append(source)
        said = mark(grid, source, profile, device)
        with store.locked(said):
            if store.find(said) is None:
                with store.writing(said) as (folder, seal):
                    (folder / "runs.txt").write_text("".join(f"{one.name} {one.key}\n" for one in wanted), "utf-8")
                    seal(meter.read(device, (source,)))
    return whole
