"""The steps of a build, each a process of its own, which ends when the driver does, however it ends."""

import gc
from collections.abc import Callable, Mapping

from sumexp.companion.pipeline.plan import BUILD, PLAN, Plan
from sumexp.companion.store import default, location, processes, progress


def notebook_step(plan: Plan, name: str) -> None:
    """Execute the notebook of a chapter, unless the store has it."""
    from sumexp.companion.pipeline import notebooks

    store, wanted = default(), plan.notebooks[name]
    with progress.step(name, "starting"), store.locked(wanted):
        if store.find(wanted) is None:
            values = notebooks.parameters(name, [f"profile={plan.profile}", f"device={plan.device}"])
            with store.writing(wanted) as (folder, seal):
                seal(notebooks.run(name, values, folder, BUILD / "logs" / f"{name}.log"))


def pages_step(plan: Plan, cores: str) -> None:
    """Render the pages and keep them."""
    from sumexp.companion.pipeline import pages

    gc.set_threshold(100_000)  # pages are large trees, through all of which it would go again and again
    with progress.step("pages", "rendering"):
        pages.make(plan, int(cores))


STEPS: Mapping[str, Callable[[Plan, str], None]] = {"notebook": notebook_step, "pages": pages_step}


def run(step: str, argument: str) -> None:
    """Run one step of the build that is planned here, in this process."""
    processes.bind()
    try:
        STEPS[step](Plan.model_validate_json(PLAN.read_bytes()), argument)
    except Exception as error:
        if location.in_words(error) and progress.is_shown():
            raise SystemExit(1) from None
        raise
