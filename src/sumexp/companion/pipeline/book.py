"""The driver of a build: find what is lacking, have it computed, render the pages, show them in ``build/``."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from shutil import rmtree

import sumexp
from sumexp.companion import CompanionError
from sumexp.companion.pipeline import forks, steps, workflow
from sumexp.companion.pipeline import plan as plans
from sumexp.companion.pipeline.inputs import NOTEBOOKS
from sumexp.companion.pipeline.plan import BUILD, FINISHED, TOC, Plan
from sumexp.companion.pipeline.view import HTML, PREVIEW
from sumexp.companion.register.outcomes import PROOFS, TESTS
from sumexp.companion.store import Computation, default, processes, progress
from sumexp.companion.store.computation import digest
from sumexp.companion.store.files import write_text

PAGE = HTML / "index.html"


def build(profile: str, device: str, cores: int, only: str, *, stored: bool = False) -> Path:
    """Build the book; returns its first page.

    Args:
        profile: ``smoke``, ``cpu`` or ``paper``.
        device: ``auto``, ``cpu`` or ``cuda``.
        cores: how many steps run side by side.
        only: the chapters to execute, separated by spaces; all if empty.
        stored: execute nothing, and render what the store and its remote have.

    Raises:
        CompanionError: on wrong input, if another build runs here, or if a step failed (its own message says why).
    """
    if cores < 1:
        raise CompanionError(f"CORES is {cores}; expected 1 or more")
    arguments = profile, device, only, str(stored)
    # Most builds have nothing to do: told by the bytes of the sources and by which runs and grids there are, before
    # anything is worked out. What else is stored they do not tell.
    if not stored and PAGE.exists() and _read(FINISHED) == f"{_fingerprint(arguments)} {_results()}":
        return PAGE
    plan = plans.make(profile, device, only, stored=stored)
    BUILD.mkdir(exist_ok=True)
    with _alone():
        processes.drive()
        now = _fingerprint(arguments)
        FINISHED.unlink(missing_ok=True)
        for left in BUILD.glob(f"{PREVIEW}*"):  # of a build that was killed
            rmtree(left, ignore_errors=True)
        plan.write(BUILD / "plan.json")
        if not stored:
            _compute(plan, default().lacking(plan.notebooks[name] for name in plan.selected), cores)
            _compute(plan, plan.undecided(default()), cores)  # with the runs that notebooks have trained
        _show(plan, cores)
        write_text(FINISHED, f"{now} {_results()}")
    return PAGE


def _compute(plan: Plan, missing: Sequence[Computation], cores: int) -> None:
    """Have what is lacking of a plan computed.

    Raises:
        CompanionError: if a step failed.
    """
    store = default()
    if not missing:
        return
    notebooks = [one.name for one in missing if one.kind == "notebook"]
    modules = [one.name for one in missing if one.kind == "evidence"]
    groups = ["+".join(modules[number::cores]) for number in range(cores)]
    early = "" if PAGE.exists() or len(missing) < 2 or not notebooks else f"early/{os.getpid()}"
    config = {
        "plan": str((BUILD / "plan.json").absolute()),
        "lacking": ",".join(notebooks),
        "groups": ",".join(group for group in groups if group),
        "early": early,
    }
    options = ["--cores", str(cores), "--resources", "gpu=1", "--latency-wait", "0"]
    log = (BUILD / "logs" / "snakemake.log").absolute()
    with progress.shown("the book", len(missing), lambda: sum(map(store.has, missing))):
        forks.begin(len(notebooks))
        finished = workflow.run("book", config, store.root, log, options)
    if early:
        (store.root / early).unlink(missing_ok=True)
    if not finished or store.lacking(missing) or any(one in missing for one in plan.undecided(store)):
        raise CompanionError(
            f"the book is not finished: see above, and {log}. What succeeded is kept; the next build goes on"
        )


def _show(plan: Plan, cores: int) -> None:
    """Render the pages, unless the store has them, and let ``build/`` show them.

    Raises:
        CompanionError: if they could not be rendered.
    """
    from sumexp.companion.pipeline import pages, view

    store, shown, decided = default(), pages.chapters(plan), pages.evidence(plan)
    wanted = pages.computation(plan, shown, decided)
    entry = store.find(wanted)
    if entry is None:
        with progress.shown("the book", 1, lambda: int(store.has(wanted))), suppress(CompanionError):
            forks.begin(0)
            steps.fork(str(BUILD / "plan.json"), "pages", str(cores))
        entry = store.find(wanted)
        if entry is None:
            raise CompanionError("the book is not finished: its pages could not be rendered, see above")
    view.show(shown, decided, entry)


@contextmanager
def _alone() -> Iterator[None]:
    """Hold the lock of ``build/``, which ends with the process.

    Raises:
        CompanionError: if another build has it.
    """
    from filelock import FileLock, Timeout

    owner = BUILD / ".lock-owner"
    try:
        with FileLock(BUILD / ".lock", timeout=0):
            write_text(owner, str(os.getpid()))
            yield
    except Timeout:
        raise CompanionError(
            f"another build (process {_read(owner)}) runs in {Path.cwd()}; wait for it, or end it"
        ) from None


def _fingerprint(arguments: Sequence[str]) -> str:
    """A digest of all that a build could depend on: sources by their bytes, settings, which data and grids we have."""
    package = Path(sumexp.__path__[0])
    folders = (Path("book"), NOTEBOOKS, Path("claims"), TESTS, PROOFS, package)
    files = [file for folder in folders for file in sorted(folder.rglob("*")) if _counts(file)]
    files += [path for path in (Path("_config.yml"), TOC, Path("constraints.txt")) if path.is_file()]
    files += sorted(Path("benchmarks/results").glob("*.json"))
    store = default()
    grids = [path.name for path in store.paths("grid")]  # may be found to be whole without a new run
    total = sha256(repr((arguments, sys.version, str(store.root), str(package), _data(), grids)).encode())
    for file in files:
        total.update(f"{file}\0".encode() + sha256(file.read_bytes()).digest())
    return total.hexdigest()


def _results() -> str:
    """A digest of which training runs the store has, and which outcomes of tests: these may be replaced."""
    outcomes = (f"{path.name} {path.stat().st_mtime_ns}" for path in default().paths("evidence"))
    return digest(*(path.name for path in default().paths("run")), *outcomes)


def _counts(file: Path) -> bool:
    return file.suffix not in (".pyc", ".ipynb", ".png") and file.is_file()


def _data() -> dict[str, str]:
    from sumexp.companion.store import parts
    from sumexp.datasets import DATASETS

    return parts.data(DATASETS)


def _read(file: Path) -> str:
    return file.read_text("utf-8") if file.exists() else ""
