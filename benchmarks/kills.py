"""A campaign of kills: SIGKILL at random moments of a build and of a grid, whoever it hits, stopped before or not.

After each kill every process of the build must end by itself, and the store must hold whole entries only, all that were
there before among them. At the end the book is built to its end, and its pages must be those of an undisturbed build.
Then what else a store may meet: entries from the future, a disk that is full or may only be read, 10,000 entries. The
path of the disturbed store has a space, braces and letters beyond ASCII.
"""

import difflib
import errno
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import psutil

from benchmarks import measure
from claimbook.store import Computation, Store
from claimbook.store.entries import RECORD, SUMS, _sums, read
from claimbook.store.provenance import Meter

BOOK = ("book", "--profile", "smoke", "--cores", "2")
GRID = ("runs", "run", "--grid", "vae", "--profile", "smoke", "--cores", "2")
TASK = "sumexp.chapters.vae.training.train"
"""What the grid trains."""
VICTIMS = ("driver", "group", "any process", "driver, its group stopped for a second", "driver, a process stopped")
LOOKING = (
    ("status",),
    ("why", "nce"),
    ("clean", "--dry-run"),
    ("register",),
    ("data", "list"),
    ("runs", "list", *GRID[2:6]),
)
CACHE = "a {cache} of Zoë's"
MINUTES = 40.0
"""For the kills of a book, and again for those of a grid: where they are over, fewer were made, and their number is
what is written."""
PATIENCE = 1800.0
"""Seconds in which a build that nobody disturbs must end."""
ENTRIES = 1_000, 10_000
TIMED = {"book/executions.html", "_sources/book/executions.md", "_sources/book/executions.md.txt"}
"""What shows times, and so differs from build to build."""


def main(threads: int, quick: bool) -> None:
    """Run the campaign, print it, and keep its figures.

    Raises:
        AssertionError: if a process outlived its build, or an entry was lost or half there.
    """
    kills = 10 if quick else 100
    source = random.Random(0)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        disturbed, undisturbed = measure.checkout(place / "disturbed"), measure.checkout(place / "undisturbed")
        found = {}
        for what, command in (("book", BOOK), ("grid", GRID)):
            found[what] = _campaign(disturbed, command, kills, source)
            print(json.dumps({what: found[what]}), flush=True)
        if not quick:
            found["pages"] = _compared(disturbed, undisturbed)
        for what, tried in {
            "a clock set back": _clock_set_back,
            "a store that may only be read": _read_only,
            "many entries": _many_entries,
            "full disk": _full_disk,
        }.items():
            found[what] = tried(disturbed)
            print(json.dumps({what: found[what]}), flush=True)
    print(json.dumps(found, indent=1))
    if not quick:
        measure.write("kills", {"machine": measure.machine(threads), **_shown(found)})


def _shown(found: dict[str, Any]) -> dict[str, Any]:
    """The table and the sentence that the book's page on executions shows."""
    rows = [
        {
            "killed": name,
            "kills": found[part]["kills"],
            "latest end after a kill": found[part]["latest end, seconds"],
            "most entries after a kill, all whole": found[part]["entries"],
        }
        for name, part in (("the book", "book"), ("a grid of training runs", "grid"))
    ]
    many, disk, read = found["many entries"], found["full disk"], found["a store that may only be read"]
    few, all_of_them = many
    note = (
        f"With {all_of_them['entries']:,} entries a grid with nothing to do took "
        f"{all_of_them['nothing to do, seconds of processor']} s of processor, and `sumexp status` "
        f"{all_of_them['status, seconds of processor']} s; with {few['entries']:,} they took "
        f"{few['nothing to do, seconds of processor']} s and {few['status, seconds of processor']} s. "
        f"`sumexp clean --dry-run` took {all_of_them['what may go, seconds of processor']} s and "
        f"{few['what may go, seconds of processor']} s. "
    )
    if disk["tried"]:
        note += (
            f"On a disk that held half of what it needs a grid ended with exit code {disk['exit code']}, "
            f"{'named' if disk['said so'] else 'did not name'} the full disk, "
            f"and left {disk['whole entries']} entries, all whole. "
        )
    if read["tried"]:
        note += f"On a store that may only be read {read['survived']} of {read['tried']} commands that look ended well."
    return {"tables": {"kills": rows}, "note": note.strip()}


def _compared(disturbed: Path, undisturbed: Path) -> dict[str, Any]:
    """Build both to the end: the same pages."""
    _finish(disturbed)
    _finish(undisturbed)
    first, second = (_pages(project) for project in (disturbed, undisturbed))
    different = sorted(file for file in first.keys() | second.keys() if first.get(file) != second.get(file))
    wrong = [file for file in different if file not in TIMED]
    assert not wrong, f"{wrong}: {[_apart(first.get(file, b''), second.get(file, b'')) for file in wrong]}"
    return {"files": len(first), "different": different}


def _campaign(project: Path, command: Sequence[str], kills: int, source: random.Random) -> dict[str, Any]:
    """Start the command again and again, and kill it before it ends. One that has ended begins with an empty store."""
    before = _entries(project)
    latest, survived, most, longest, finished, moments = 0.0, 0, 0, 15.0, 0, []
    until = time.monotonic() + 60 * MINUTES
    while survived < kills and time.monotonic() < until:
        victim = VICTIMS[survived % len(VICTIMS)]
        driver = _start(project, command)
        moment = source.uniform(0.2, longest)
        time.sleep(moment)
        family = [psutil.Process(driver.pid), *_children(driver.pid)]
        if driver.poll() is not None:  # it had finished: later kills come earlier
            longest, finished = max(1.0, 0.7 * longest), finished + 1
            shutil.rmtree(_store(project))
            before = {}
            continue
        began = time.monotonic()
        if victim == "any process":
            _kill(source.choice(family))
            _kill(psutil.Process(driver.pid))
        elif "stopped" in victim:
            stopped = family if "group" in victim else [source.choice(family)]
            _signal(stopped, signal.SIGSTOP)
            time.sleep(1.0)
            if "group" in victim:
                _signal(stopped, signal.SIGCONT)
            _kill(psutil.Process(driver.pid))
            _signal(stopped, signal.SIGCONT)
        elif victim == "group":
            os.killpg(driver.pid, signal.SIGKILL)
        else:
            os.kill(driver.pid, signal.SIGKILL)
        driver.wait()
        while any(_is_alive(process) for process in family):
            assert time.monotonic() - began < 30, [process for process in family if _is_alive(process)]
            time.sleep(0.05)
        latest, survived = max(latest, time.monotonic() - began), survived + 1
        moments.append(round(moment, 1))
        now = _entries(project)
        assert before.items() <= now.items(), "an entry that was finished is lost or changed"
        longest = min(longest if now.keys() > before.keys() else 60.0, 1.1 * longest)  # a busy machine takes longer
        before, most = now, max(most, len(now))
    return {
        "kills": survived,
        "builds that ended first": finished,
        "latest end, seconds": round(latest, 1),
        "entries": most,
        "moments": moments,
    }


def _clock_set_back(project: Path) -> dict[str, Any]:
    """Entries and files from the year 2040: nothing is computed again, and what is removed is."""
    done = _run(project, GRID, {})
    assert done.returncode == 0, done.stdout
    future = datetime(2040, 1, 1, tzinfo=UTC)
    for path in _entries(project):
        record = json.loads(Path(path, RECORD).read_text("utf-8"))
        record["provenance"]["finished"] = future.isoformat(timespec="milliseconds")
        Path(path, RECORD).write_text(json.dumps(record), "utf-8")
        Path(path, SUMS).write_text(_sums(Path(path)), "utf-8")
    for file in (*_store(project).rglob("*"), *project.joinpath("build").rglob("*")):
        os.utime(file, (future.timestamp(),) * 2, follow_symlinks=False)
    before = _entries(project)
    done = _run(project, GRID, {})
    assert done.returncode == 0, done.stdout
    assert _entries(project) == before, "something was computed again"
    gone = next(path for path in before if f"/run/{TASK}/" in path)  # not one that a killed book had trained
    shutil.rmtree(gone)
    done = _run(project, GRID, {})
    assert done.returncode == 0, done.stdout
    now = _entries(project)
    assert now.keys() == before.keys()
    assert [path for path in now if now[path] != before[path]] == [gone]
    return {"tried": 2, "survived": 2, "entries": len(now)}


def _read_only(project: Path) -> dict[str, Any]:
    """Commands that only look, at a store that may be read and not written, as another user's."""
    store = _store(project)
    if subprocess.run(["mount", "--bind", "-o", "ro", str(store), str(store)], check=False).returncode:
        return {"tried": 0, "survived": 0, "why": "nothing could be mounted"}
    try:
        ended = {command: _run(project, command, {}) for command in LOOKING}
    finally:
        subprocess.run(["umount", str(store)], check=True)
    fell = {" ".join(command): done.stdout[-500:] for command, done in ended.items() if done.returncode}
    assert not fell, fell
    return {"tried": len(ended), "survived": len(ended) - len(fell)}


def _many_entries(project: Path) -> list[dict[str, Any]]:
    """What nothing to do and ``status`` take with few and with many entries, in time of the processor."""
    return [_with_entries(project, number) for number in ENTRIES]


def _with_entries(project: Path, most: int) -> dict[str, Any]:
    store, provenance = Store(_store(project)), Meter().read()
    for number in range(len(store.paths()), most):
        made = Computation("run", TASK, {"number": str(number)})
        with store.writing(made) as (folder, seal):
            (folder / "run.json").write_text("{}")
            seal(provenance)
    taken: dict[str, Any] = {"entries": len(store.paths())}
    timed = {
        "nothing to do": GRID,
        "status": ("status", "--profile", "smoke"),
        "what may go": ("clean", "--dry-run"),
    }
    for what, command in timed.items():
        began = _of_children()
        done = _run(project, command, {})
        assert done.returncode == 0, done.stdout
        taken[f"{what}, seconds of processor"] = round(_of_children() - began, 1)
    return taken


def _of_children() -> float:
    """Seconds of processor of the processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _full_disk(project: Path) -> dict[str, Any]:
    """A grid whose store is on a disk that holds half of it: one clear error, no half entry, and the rest is kept."""
    grid = (*GRID[:-1], "1")  # on one core, so that runs end one after another
    with tempfile.TemporaryDirectory() as name:
        ample, small = Path(name, "ample"), Path(name, "small")
        done = _run(project, grid, {"SUMEXP_STORE": str(ample)})
        assert done.returncode == 0, done.stdout
        size = sum(file.stat().st_size for file in ample.rglob("*") if file.is_file()) // 2
        small.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(small)]
        if subprocess.run(mount, check=False).returncode:
            return {"tried": False, "why": "no small disk could be mounted"}
        try:
            done = _run(project, grid, {"SUMEXP_STORE": str(small / "store")})
            whole = [read(path.parent) for path in Path(small, "store").glob(f"*/*/*/{SUMS}")]
            said = os.strerror(errno.ENOSPC) in done.stdout
            assert done.returncode == 1, done.stdout
            return {"tried": True, "exit code": done.returncode, "said so": said, "whole entries": len(whole)}
        finally:
            subprocess.run(["umount", str(small)], check=True)


def _environment(project: Path) -> dict[str, str]:
    hidden = ("SUMEXP_DATA", "SUMEXP_STORE", "SUMEXP_DRIVER")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    return kept | {"PYTHONPATH": str(project / "src"), "XDG_CACHE_HOME": str(project / CACHE)}


def _start(project: Path, command: Sequence[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "claimbook.cli", *command],
        cwd=project,
        env=_environment(project),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _run(project: Path, command: Sequence[str], more: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "claimbook.cli", *command],
        cwd=project,
        env=_environment(project) | more,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def _finish(project: Path) -> None:
    done = _run(project, BOOK, {})
    assert done.returncode == 0, done.stdout


def _store(project: Path) -> Path:
    return project / CACHE / "sumexp" / "store"


def _entries(project: Path) -> dict[str, float]:
    """Every entry of the store, each verified, and when it was written."""
    sums = [path for path in _store(project).glob(f"*/*/*/{SUMS}") if not path.parent.suffix]
    return {str(read(path.parent).path): (path.parent / RECORD).stat().st_mtime for path in sums}


def _pages(project: Path) -> dict[str, bytes]:
    html = project / "build" / "html"
    return {str(file.relative_to(html)): file.read_bytes() for file in html.rglob("*") if file.is_file()}


def _apart(first: bytes, second: bytes) -> list[str]:
    """The first lines in which two pages differ."""
    lines = difflib.unified_diff(*(text.decode(errors="replace").splitlines() for text in (first, second)), n=0)
    return [line[:300] for line in islice(lines, 8)]


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return


def _signal(processes: Sequence[psutil.Process], number: int) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
