"""The build: what depends on what (`plan`), the driver of Snakemake (`book`), and the steps that its rules call.

The driver holds a lock that ends with its process. Steps are processes of their own, ``python -m
sumexp.companion.build STEP``; they end when the driver does, however it ends.
"""

import ast
import os
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import redirect_stderr
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from shutil import rmtree
from typing import Any

import yaml

import sumexp
from sumexp.companion import CompanionError, keys
from sumexp.companion.notebooks import FOLDER, PROFILES, Products, choice, resolve_device, source_path

BUILD = Path("build")
CLAIMS = Path("claims")
TESTS = Path("tests")
DEFAULTS = {"profile": "cpu", "device": "auto", "only": ""}
DRIVER = "SUMEXP_DRIVER"
"""Environment variable: the process id of the driver."""


@dataclass(frozen=True)
class Plan:
    """What a build makes, each with the key that says whether it is up to date."""

    profile: str
    device: str
    chapters: Mapping[str, str]
    """The key of every chapter of the table of contents."""
    selected: tuple[str, ...]
    """The chapters to execute."""
    evidence: Mapping[str, str]
    """The key of every test module that decides claims."""
    register: str
    """The key of the verdicts."""
    html: str
    """The key of the pages."""

    def targets(self) -> list[Path]:
        """Every file that a finished build has."""
        chapters = [Products(BUILD, name) for name in self.selected]
        return [
            BUILD / "html" / "index.html",
            BUILD / "executions.json",
            BUILD / "register.json",
            *(BUILD / "evidence" / f"{name}.json" for name in self.evidence),
            *(path for products in chapters for path in products.all()),
        ]


@cache
def plan(profile: str, device: str, only: str) -> Plan:
    """Work out what to build.

    Raises:
        CompanionError: if profile, device or a chapter is unknown, or there is no CUDA device where one is asked for.
    """
    choice("PROFILE", profile, PROFILES)
    device = resolve_device(device)
    parameters = {"profile": profile, "device": device}
    chapters = {name: keys.notebook_key(source_path(name), parameters) for name in chapters_of(Path("_toc.yml"))}
    selected = tuple(choice("ONLY", name, chapters) for name in only.split()) or tuple(chapters)
    evidence = {path.stem: keys.evidence_key(path) for path in sorted(TESTS.glob("test_*.py")) if _decides_claims(path)}
    claims = [keys.file_digest(file) for file in sorted(CLAIMS.glob("*.yml"))]
    register = keys.digest(*claims, *evidence, *evidence.values(), keys.code_digest(["sumexp.companion.register"]))
    others = [keys.file_digest(file) for name in chapters if name not in selected for file in _ran(name)]
    html = keys.digest(*_files_of_pages(), *others, *chapters.values(), *selected, register)
    return Plan(profile, device, chapters, selected, evidence, register, html)


def chapters_of(toc: Path) -> list[str]:
    """The names of the notebooks in a table of contents, in its order.

    Raises:
        CompanionError: if there is no table of contents.
    """
    if not toc.is_file():
        raise CompanionError(f"no {toc} here ({Path.cwd()}); run this from the project's root")

    def walk(node: Any) -> list[str]:
        match node:
            case dict():
                return [name for value in node.values() for name in walk(value)]
            case list():
                return [name for value in node for name in walk(value)]
            case str() if node.startswith(f"{FOLDER}/"):
                return [node.removeprefix(f"{FOLDER}/")]
        return []

    return walk(yaml.safe_load(toc.read_text("utf-8")))


def book(profile: str, device: str, cores: int, only: str) -> Path:
    """Build the book: run what is out of date, then lay out and render the pages; returns the first page.

    Raises:
        CompanionError: on wrong input, if another build runs here, or if a step failed (its own message says why).
    """
    from filelock import FileLock, Timeout

    if cores < 1:
        raise CompanionError(f"CORES is {cores}; expected 1 or more")
    wanted = plan(profile, device, only)
    BUILD.mkdir(exist_ok=True)
    owner, finished = BUILD / ".lock-owner", BUILD / ".finished"
    try:
        with FileLock(BUILD / ".lock", timeout=0):
            owner.write_text(str(os.getpid()), "utf-8")
            # Snakemake takes seconds to find that there is nothing to do; what it finished last is quick to compare.
            if _read(finished) != repr(wanted) or not all(path.exists() for path in wanted.targets()):
                finished.unlink(missing_ok=True)
                _snakemake(profile, device, cores, only)
                finished.write_text(repr(wanted), "utf-8")
    except Timeout:
        raise CompanionError(
            f"another build (process {_read(owner)}) runs in {Path.cwd()}; wait for it, or end it"
        ) from None
    return BUILD / "html" / "index.html"


def _snakemake(profile: str, device: str, cores: int, only: str) -> None:
    """Run Snakemake in this process, so that the two end together.

    Raises:
        CompanionError: if a step failed.
    """
    from snakemake.cli import main

    os.environ[DRIVER] = str(os.getpid())
    os.environ["PYTHONHASHSEED"] = "0"
    options = f"--cores {cores} --resources gpu=1 --rerun-triggers params --rerun-incomplete --keep-going"
    # No lock, as the driver's own ends with it; no wait for files on a slow network.
    options += " --nolock --latency-wait 0"
    if not Path(".snakemake").is_dir():  # without its records it would take what is there for up to date
        options += " --forceall"
    # What a killed build has put aside; its originals are in place, and Snakemake trips over the copies.
    rmtree(Path(".snakemake", "backups"), ignore_errors=True)
    config = ["--config", f"profile={profile}", f"device={device}", *([f"only={only}"] if only else [])]
    file = Products(BUILD, "snakemake").log
    file.parent.mkdir(exist_ok=True)
    # Steps speak for themselves, on the terminal; what Snakemake has to say goes into its log.
    with file.open("w", encoding="utf-8") as log, redirect_stderr(log):
        try:
            main([*options.split(), *config])
        except SystemExit as end:
            if end.code:
                raise CompanionError(
                    f"the book is not finished: see above, and {file}. What succeeded is kept; the next build goes on"
                ) from None


def notebook_step(plan: Plan, name: str) -> None:
    """Execute the notebook of a chapter, unless Snakemake only lost its record of it (a kill in the wrong moment)."""
    from sumexp.companion import executions, notebooks

    products, key = Products(BUILD, name), plan.chapters[name]
    if all(path.exists() for path in products.all()) and executions.read(products.execution).key == key:
        return
    values = notebooks.parameters(name, [f"profile={plan.profile}", f"device={plan.device}"])
    print(f"{name}: executing, profile {plan.profile}, device {plan.device}", file=sys.stderr, flush=True)
    execution = notebooks.run(name, values, products, key)
    print(f"{name}: {execution.seconds:.1f} s, {execution.peak_memory / 2**20:.0f} MiB", file=sys.stderr, flush=True)


def evidence_step(plan: Plan, name: str) -> None:
    """Run the tests of one module that decide claims; one that fails is evidence too.

    Raises:
        CompanionError: if the tests could not be run at all.
    """
    import subprocess

    target, log = BUILD / "evidence" / f"{name}.json", Products(BUILD, name).log
    for file in (target, log):
        file.parent.mkdir(parents=True, exist_ok=True)
    options = ["-q", "-m", "claim", "-p", "sumexp.companion.register.evidence", "--evidence", str(target)]
    options += ["-p", "no:nb_regression", "-p", "no:cacheprovider"]  # the first takes seconds to start
    print(f"{name}: testing claims", file=sys.stderr, flush=True)
    with log.open("w", encoding="utf-8") as output:
        command = [sys.executable, "-m", "pytest", str(TESTS / f"{name}.py"), *options]
        code = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
    if code == 1:
        print(f"{name}: a claim's test fails, see {log}", file=sys.stderr, flush=True)
    elif code not in (0, 5) or not target.exists():  # 5: no test is marked with a claim
        raise CompanionError(f"{TESTS}/{name}.py could not be run (pytest ended with {code}); see {log}")


def register_step(plan: Plan, name: str) -> None:
    """Compute the verdicts from the claims and the evidence there is."""
    from sumexp.companion import register

    for file in (BUILD / "evidence").glob("*.json"):
        if file.stem not in plan.evidence:
            file.unlink()
    register.write_json(register.decide(register.load(CLAIMS), BUILD / "evidence"), BUILD / "register.json")


def html_step(plan: Plan, name: str) -> None:
    """Lay out the book, render it, and put the pages in place.

    Raises:
        CompanionError: if Sphinx gives a warning.
    """
    import subprocess

    from sumexp.companion import executions, register, staging
    from sumexp.companion.files import write_text

    target = BUILD / "stage"
    staging.stage(target, plan.chapters, BUILD)
    ran = executions.read_all(BUILD / "executions", plan.chapters)
    write_text(BUILD / "executions.json", executions.as_json(ran))
    executions.write_page(ran, target)
    register.write_page(register.decide(register.load(CLAIMS), BUILD / "evidence"), target)
    output = BUILD / "sphinx"
    rmtree(output, ignore_errors=True)
    command = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build", str(target)]
    options = ["--path-output", str(output), "-W", "--keep-going", "--all", "-q"]
    print("book: rendering", file=sys.stderr, flush=True)
    with Products(BUILD, "html").log.open("w", encoding="utf-8") as log:
        code = subprocess.run([*command, *options], stdout=log, stderr=subprocess.STDOUT, check=False).returncode
    if code:
        raise CompanionError(
            f"the book could not be rendered; Sphinx says, see {log.name}:\n{_warnings(Path(log.name))}"
        )
    _swap(output / "_build" / "html", BUILD / "html")


STEPS = {"notebook": notebook_step, "evidence": evidence_step, "register": register_step, "html": html_step}


def main(step: str, profile: str, device: str, only: str, name: str = "") -> None:
    """Run one step of the build, as a rule of the Snakefile asks for it."""
    end_with_driver()
    try:
        STEPS[step](plan(profile, device, only), name)
    except CompanionError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        raise SystemExit(1) from None


def end_with_driver() -> None:
    """End this process and all it started as soon as the driver is gone: one that was killed cannot end them."""
    if driver := os.environ.get(DRIVER):
        threading.Thread(target=_watch, args=(int(driver),), daemon=True).start()


def _watch(driver: int) -> None:
    import psutil

    try:
        while psutil.Process(driver).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.5)
    except psutil.NoSuchProcess:
        pass
    for child in psutil.Process().children(recursive=True):
        child.kill()
    os._exit(1)


def _decides_claims(path: Path) -> bool:
    """Whether a test module uses the marker; naming it in a string does not count."""
    attributes = (node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Attribute))
    return any(ast.unparse(attribute) == "pytest.mark.claim" for attribute in attributes)


def _read(file: Path) -> str:
    return file.read_text("utf-8") if file.exists() else ""


def _ran(name: str) -> tuple[Path, Path]:
    products = Products(BUILD, name)
    return products.executed, products.execution


def _files_of_pages() -> list[str]:
    """What the pages are made from besides outputs; the package as it stands, since pages show docstrings and code."""
    package = Path(sumexp.__path__[0])
    folders = ((Path("book"), "*"), (FOLDER, "*.md"), (package, "*"))
    files = {
        str(file.relative_to(folder.parent)): file
        for folder, pattern in folders
        for file in sorted(folder.rglob(pattern))
        if file.is_file() and "__pycache__" not in file.parts
    }
    settings = {name: Path(name) for name in ("_config.yml", "_toc.yml", str(keys.PINS))}
    return [f"{name}={keys.file_digest(file)}" for name, file in (files | settings).items()]


def _warnings(log: Path) -> str:
    lines = log.read_text("utf-8").splitlines()
    telling = [line for line in lines if "WARNING" in line or "ERROR" in line or "Error" in line]
    return "\n".join(f"  {line}" for line in (telling or lines)[-20:])


def _swap(new: Path, place: Path) -> None:
    """Replace a folder by another with no moment when half of it is there."""
    old = place.with_name(f"{place.name}.old")
    rmtree(old, ignore_errors=True)
    if place.exists():
        place.replace(old)
    new.replace(place)
    rmtree(old, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
