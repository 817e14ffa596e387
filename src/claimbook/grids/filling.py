"""Computing the runs of a grid in parallel."""

from claimbook import BookError
from claimbook.grids.jobs import by_source, computations, jobs_of
from claimbook.pipeline import scheduler
from claimbook.pipeline.scheduler import Task
from claimbook.store import default
from claimbook.store.complete_grids import mark
from claimbook.store.provenance import Meter


def fill(grid: str, profile: str, device: str, cores: int) -> None:
    """Compute the runs of a grid that are missing from the store."""
    if missing := scheduler.run(longest_first(grid, profile, device), cores):
        raise BookError(
            f"{len(missing)} of {len(jobs_of(grid, profile))} runs are not finished, see above. Finished runs are kept "
            "and killed runs resume from their checkpoints: repeat the command"
        )


def longest_first(grid: str, profile: str, device: str) -> list[Task]:
    """The runs of a grid missing from the store, the longest first, so that no core idles at the end."""
    jobs, arguments = jobs_of(grid, profile), ("runs", "run", "--grid", grid, "--profile", profile, "--device", device)
    both = sorted(
        zip(jobs, computations(jobs, device), strict=True), key=lambda pair: pair[0].seconds[device], reverse=True
    )
    missing = {wanted.key for wanted in default().missing(wanted for _, wanted in both)}
    return [
        Task(wanted, (*arguments, "--only", wanted.key), device == "cuda", job.threads)
        for job, wanted in both
        if wanted.key in missing
    ]


def leave_marks(grid: str, profile: str, device: str) -> list[str]:
    """Record in the store on which data sets it has all runs of a grid, for chapters to show; returns their names."""
    store, complete, meter = default(), [], Meter()
    for source, jobs in by_source(grid, profile).items():
        wanted = computations(jobs, device)
        if any(store.find(one) is None for one in wanted):
            continue
        complete.append(source)
        marked = mark(grid, source, profile, device)
        with store.locked(marked):
            if store.find(marked) is None:
                with store.writing(marked) as (folder, seal):
                    (folder / "runs.txt").write_text("".join(f"{one.name} {one.key}\n" for one in wanted), "utf-8")
                    seal(meter.read(device, (source,)))
    return complete
