"""The steps of a build, each a process of its own, which ends when the driver does, however it ends."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sumexp.companion import CompanionError
from sumexp.companion.pipeline import forks
from sumexp.companion.pipeline import plan as plans
from sumexp.companion.pipeline.plan import BUILD, Plan
from sumexp.companion.store import default, processes, progress


def notebook_step(plan: Plan, name: str, kernel: forks.Kernel | None = None) -> None:
    """Execute the notebook of a chapter, with a kernel that waits for it, if there is one."""
    from sumexp.companion.pipeline import notebooks

    store, wanted = default(), plan.notebooks[name]
    with progress.step(name, "starting"), store.locked(wanted):
        if store.find(wanted) is None:
            values = notebooks.parameters(name, [f"profile={plan.profile}", f"device={plan.device}"])
            with store.writing(wanted) as (folder, seal):
                seal(notebooks.run(name, values, folder, BUILD / "logs" / f"{name}.log", kernel))


def evidence_step(plan: Plan, names: str) -> None:
    """Run the tests that decide claims in some modules; one that fails is evidence too.

    Raises:
        CompanionError: if the tests could not be run at all.
    """
    import pytest

    modules = names.split("+")
    log = BUILD / "logs" / f"evidence-{modules[0]}.log"
    options = ["-q", "-m", "claim", "-p", "sumexp.companion.register.evidence"]
    options += ["--keep-evidence", "-p", "no:cacheprovider"]
    # Plugins that a fork has imported before pytest could rewrite their assertions have none that tests show.
    options += ["-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"]
    with progress.step(f"claims of {len(modules)} test modules", "testing"), _to(log):
        code = pytest.main([*(plan.tests[name] for name in modules), *options])
    store = default()
    if lacking := [name for name in modules if not store.has(plan.evidence[name])]:
        files = ", ".join(plan.tests[name] for name in lacking)
        raise CompanionError(f"{files} could not be run (pytest ended with {int(code)}); see {log}")


def early_step(plan: Plan, name: str) -> None:
    """Render what there is, for a reader who does not want to wait for all."""
    from sumexp.companion.pipeline import pages

    with progress.step("first pages", "rendering"), suppress(CompanionError):  # the last word is the pages'
        pages.preview(plan)


def pages_step(plan: Plan, name: str) -> None:
    """Render the pages and keep them."""
    from sumexp.companion.pipeline import pages

    with progress.step("pages", "rendering"):
        pages.make(plan, int(name))


STEPS: Mapping[str, Callable[..., None]] = {
    "notebook": notebook_step,
    "evidence": evidence_step,
    "early": early_step,
    "pages": pages_step,
}


def fork(*arguments: str) -> None:
    """Run `main` in a fork and wait for its end, as a rule of the workflow asks for it.

    Raises:
        CompanionError: if it fails; it has said why.
    """
    if code := forks.call(_forked, *arguments):
        raise CompanionError(f"the step {' '.join(arguments)} ended with {code}")


def _forked(path: str, step: str, name: str = "") -> None:
    if step == "notebook" and forks.KERNELS:
        with forks.Kernel() as kernel:
            main(path, step, name, kernel)
    else:
        main(path, step, name)


def main(path: str, step: str, name: str = "", *more: Any) -> None:
    """Run one step of the build in this process."""
    processes.bind()
    plan = plans.read(Path(path))
    os.chdir(plan.project)
    try:
        STEPS[step](plan, name, *more)
    except CompanionError:  # what it says is shown by the driver
        raise SystemExit(1) from None


@contextmanager
def _to(log: Path) -> Iterator[None]:
    """Let all that this process prints go to a file."""
    saved = os.dup(1), os.dup(2)
    with log.open("w", encoding="utf-8") as output:
        for stream in (1, 2):
            os.dup2(output.fileno(), stream)
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for stream, before in zip((1, 2), saved, strict=True):
                os.dup2(before, stream)
                os.close(before)
