"""The driver of a build: find what is missing, compute it, render the pages, show them in ``build/``.

Each long step is a separate process, which ends with the driver, however that ends.
"""

import gc
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from filelock import FileLock, Timeout

from claimbook import BookError, register
from claimbook.pipeline import notebooks, pages, scheduler
from claimbook.pipeline import plan as plans
from claimbook.pipeline.plan import BUILD, FINISHED, PLAN, Plan
from claimbook.pipeline.scheduler import Task
from claimbook.register.outcomes import PROOFS, TESTS, file_of
from claimbook.register.verdict import markers
from claimbook.store import Computation, default, parts, processes, progress
from claimbook.store.computation import digest
from claimbook.store.entries import write_text
from claimbook.store.provenance import device_name
from claimbook.store.settings import choice, gpu_shares

PAGE = pages.HTML / "index.html"


def build(profile: str, device: str, only: str, cores: int, *, stored: str = "") -> Path:
    """Build the book; returns its first page.

    It executes the chapters in ``only``, separated by spaces, or all, and decides their claims. If ``stored`` is ``1``
    it executes nothing, and missing entries are an error; with ``partial`` the pages are rendered without them.
    """
    choice("STORED", stored or "1", ("1", "partial"))
    arguments = profile, device, only, stored
    # Most builds have nothing to do: the bytes of the sources and the list of runs and grids show it without a plan.
    # They do not show what else is stored.
    finished = FINISHED.read_text() if FINISHED.exists() and PAGE.exists() and not stored else ""
    if finished and finished == f"{_sources(arguments)} {_results()}":
        return PAGE
    plan = plans.make(profile, device, only, stored=bool(stored))
    BUILD.mkdir(exist_ok=True)
    try:
        with FileLock(BUILD / ".lock", timeout=0):
            before = _sources(arguments)
            FINISHED.unlink(missing_ok=True)
            write_text(PLAN, plan.model_dump_json())
            if stored == "1":
                _check_stored(plan)
            elif not stored:
                execute(plan, cores)
                _decide(plan, cores)  # with the runs that notebooks have trained
            _show(plan, cores)
            write_text(FINISHED, f"{before} {_results()}")
    except Timeout:
        raise BookError(f"another build runs in {Path.cwd()}; wait for it, or end it") from None
    return PAGE


def execute(plan: Plan, cores: int) -> None:
    """Execute the selected chapters that are not in the store."""
    missing = default().missing(plan.notebooks[name] for name in plan.selected)
    # Chapters with grids train, which takes longest: they start first, so that no core idles at the end.
    missing.sort(key=lambda chapter: not any(part.startswith("trained ") for part in chapter.parts))
    tasks = [
        Task(chapter, ("step", "notebook", chapter.name), chapter.settings.get("device") == "cuda")
        for chapter in missing
    ]
    names = ", ".join(task.wanted.name for task in tasks if task.gpu)
    share = gpu_shares(cores) if names and plan.profile != "paper" else 1
    if names:
        print(f"on {device_name('cuda')} chapters train, {share} at a time: {names}; all else runs on the CPU")
    if scheduler.run(tasks, cores, share=share):
        raise BookError("the book is not finished, see above; what succeeded is kept, and the next build goes on")


def _check_stored(plan: Plan) -> None:
    """Fail if a chapter or the outcomes of a test module are missing from the store."""
    chapters, modules = (default().missing(wanted.values()) for wanted in (plan.notebooks, plan.evidence))
    if missing := [wanted.name for wanted in chapters + modules]:
        raise BookError(
            f"STORED=1: {default().root} lacks {len(chapters)} of {len(plan.notebooks)} chapters and the outcomes of "
            f"{len(modules)} of {len(plan.evidence)} test modules: {', '.join(missing[:5])}, ...; copy them into the "
            "store (`claimbook why NAME` says what differs), set STORED=partial or leave it out"
        )


def _decide(plan: Plan, cores: int) -> None:
    """Run the test modules of the selected chapters' claims that the store lacks; a failing test is evidence too."""
    missing = default().missing(plan.evidence.values())
    if missing and (unselected := plan.notebooks.keys() - set(plan.selected)):
        left_out = {claim.id for claim in register.load(pages.CLAIMS).values() if claim.chapter in unselected}
        selected = {test.partition("::")[0] for test, claim in markers(TESTS) if claim not in left_out}
        missing = [outcome for outcome in missing if file_of(outcome.name).as_posix() in selected]
    if not missing:
        return
    files = [file_of(outcome.name).as_posix() for outcome in missing]
    log = BUILD / "logs" / "evidence.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    workers = min(cores, len(files)) if len(files) > 1 else 0  # a single module needs no workers
    options = "-q -m claim -p claimbook.register.evidence --keep-evidence -p no:cacheprovider -p xdist -n"
    with progress.step(f"claims of {len(files)} test modules"), log.open("w") as output:
        code = _run("pytest", *options.split(), str(workers), "--dist", "loadscope", *files, output=output)
    if undecided := [file_of(outcome.name).as_posix() for outcome in default().missing(missing)]:
        raise BookError(f"{', '.join(undecided)} could not be run (pytest ended with {code}); see {log}")


def _show(plan: Plan, cores: int) -> None:
    """Render the pages, unless the store has them, and let ``build/`` show them."""
    wanted = pages.computation(plan)
    if not (entry := default().find(wanted)):
        _run("claimbook.cli", "step", "pages", str(cores))
    if not (entry := entry or default().find(wanted)):
        raise BookError("the book is not finished: its pages could not be rendered, see above")
    pages.show(pages.stored(plan.notebooks), entry)


def step(name: str, argument: str) -> None:
    """Run a step of the planned build in this process: ``notebook`` CHAPTER, or ``pages`` CORES."""
    processes.follow()
    plan = Plan.model_validate_json(PLAN.read_bytes())
    if name == "pages":
        gc.set_threshold(100_000)  # pages are large trees, through all of which it would go again and again
        with progress.step(name):
            pages.make(plan, int(argument))
        return
    store, wanted = default(), plan.notebooks[argument]
    with store.locked(wanted):
        if store.find(wanted) is None:
            values = notebooks.parameters(argument) | wanted.settings
            with store.writing(wanted) as (folder, seal):
                seal(notebooks.run(argument, values, folder, BUILD / "logs" / f"{argument}.log"))


def _run(module: str, *arguments: str, output: TextIO | None = None) -> int:
    """Run a Python module in a child process that ends with this process; returns its exit status."""
    processes.drive()
    command, surroundings = [sys.executable, "-m", module, *arguments], os.environ | notebooks.SURROUNDINGS
    return subprocess.run(command, env=surroundings, stdout=output, stderr=output, check=False).returncode


def _sources(arguments: Sequence[str]) -> str:
    """A digest of all that a build could depend on: sources by their bytes, settings, which data and grids we have."""
    tested = (file for folder in (TESTS, PROOFS) for file in sorted(folder.rglob("*")) if file.is_file())
    files = [*pages.sources().values(), *(file for file in tested if file.suffix != ".pyc"), parts.PINS]
    store = default()
    grids = [path.name for path in store.paths("grid")]  # may be found to be whole without a new run
    settings = repr((arguments, sys.version, str(store.root), parts.PACKAGES, parts.data(parts.datasets()), grids))
    return digest(settings, *(text for part in parts.files(files).items() for text in part))


def _results() -> str:
    """A digest of which training runs the store has, and which outcomes of tests: these may be replaced."""
    outcomes = (f"{path.name} {path.stat().st_mtime_ns}" for path in default().paths("evidence"))
    return digest(*(path.name for path in default().paths("run")), *outcomes)


def why(name: str, wanted: Computation) -> list[str]:
    """Whether a build would compute it again, and which of its parts changed since the last entry."""
    if entry := default().find(wanted):
        return [f"{name}: fresh, computed {entry.provenance.date} UTC in {entry.provenance.seconds:.1f} s"]
    earlier = default().entries(wanted.kind, wanted.name)
    if not earlier:
        return [f"{name}: missing, and never computed before"]
    same = [entry for entry in earlier if entry.computation.settings == wanted.settings]
    last = (same or earlier)[-1]
    changed = wanted.differences(last.computation)
    return [f"{name}: missing; since {last.provenance.date} UTC", *(f"  {change}" for change in changed)]
