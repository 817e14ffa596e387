"""Computing the runs of a grid, several side by side."""

from claimbook import BookError
from claimbook.grids.costs import estimates
from claimbook.grids.jobs import by_source, computations, jobs_of
from claimbook.pipeline import scheduler
from claimbook.pipeline.scheduler import Task
from claimbook.store import default
from claimbook.store.complete_grids import mark
from claimbook.store.provenance import Meter


def fill(grid: str, profile: str, device: str, cores: int) -> None:
    """Compute the runs of a grid that the store lacks."""
    total, log = len(jobs_of(grid, profile)), default().root / "logs" / f"{grid}-{profile}-{device}.log"
    tasks = longest_first(grid, profile, device)
    if tasks and (lacking := scheduler.run(tasks, cores, log)):
        raise BookError(
            f"{len(lacking)} of {total} runs are not finished: see above, and {log}. What is finished is kept, "
            "and killed runs go on from their checkpoints: give the same command again"
        )


def longest_first(grid: str, profile: str, device: str) -> list[Task]:
    """The runs of a grid that the store lacks: no core waits for a long one at the end."""
    store, jobs = default(), jobs_of(grid, profile)
    costs = estimates(grid, device, store)
    found = []
    for job, wanted in zip(jobs, computations(jobs, device), strict=True):
        if store.lacking([wanted]):
            arguments = ("runs", "run", "--grid", grid, "--profile", profile, "--device", device, "--only", wanted.key)
            task = Task(wanted, arguments, device == "cuda", job.threads)
            found.append((costs[job.name].seconds(job), task))
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
