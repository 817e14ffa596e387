"""A campaign of kills: SIGKILL at random moments of a build and of a grid, whoever it hits, and a full disk.

After each kill every process of the build must end by itself, and the store must hold whole entries only, all that were
there before among them. At the end the book is built to its end, and its pages must be those of an undisturbed build.
"""

import difflib
import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import psutil

from benchmarks import measure
from sumexp.companion.store.entries import RECORD, SUMS, read

BOOK = ("book", "--profile", "smoke", "--cores", "2")
GRID = ("runs", "run", "--grid", "vae", "--profile", "smoke", "--cores", "2")
VICTIMS = ("driver", "group", "any process")
TIMED = {"book/executions.html", "_sources/book/executions.md", "_sources/book/executions.md.txt"}
"""What shows times, and so differs from build to build."""


def main(threads: int, quick: bool) -> None:
    """Run the campaign, print it, and keep its figures.

    Raises:
        AssertionError: if a process outlived its build, or an entry was lost or half there.
    """
    kills = 6 if quick else 50
    source = random.Random(0)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        disturbed, undisturbed = measure.checkout(place / "disturbed"), measure.checkout(place / "undisturbed")
        found = {}
        for what, command in (("book", BOOK), ("grid", GRID)):
            found[what] = _campaign(disturbed, command, kills, source)
            print(json.dumps({what: found[what]}), flush=True)
        _finish(disturbed)
        _finish(undisturbed)
        first, second = (_pages(project) for project in (disturbed, undisturbed))
        different = sorted(file for file in first.keys() | second.keys() if first.get(file) != second.get(file))
        wrong = [file for file in different if file not in TIMED]
        assert not wrong, f"{wrong}: {[_apart(first.get(file, b''), second.get(file, b'')) for file in wrong]}"
        found["pages"] = {"files": len(first), "different": different}
        found["full disk"] = _full_disk(undisturbed)
    print(json.dumps(found, indent=1))
    if not quick:
        measure.write("kills", {"machine": measure.machine(threads), **_shown(found), **found})


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
    disk = found["full disk"]
    if not disk["tried"]:
        return {"tables": {"kills": rows}}
    note = (
        f"On a disk that held half of what it needs a grid ended with exit code {disk['exit code']}, "
        f"{'named' if disk['said so'] else 'did not name'} the full disk, "
        f"and left {disk['whole entries']} entries, all whole."
    )
    return {"tables": {"kills": rows}, "note": note}


def _campaign(project: Path, command: Sequence[str], kills: int, source: random.Random) -> dict[str, Any]:
    """Start the command again and again, and kill it before it ends. One that has ended begins with an empty store."""
    before = _entries(project)
    latest, survived, most, longest, finished, moments = 0.0, 0, 0, 15.0, 0, []
    while survived < kills:
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
        longest = min(20.0, 1.1 * longest)
        began = time.monotonic()
        if victim == "any process":
            _kill(source.choice(family))
            _kill(psutil.Process(driver.pid))
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
        before, most = now, max(most, len(now))
    return {
        "kills": survived,
        "builds that ended first": finished,
        "latest end, seconds": round(latest, 1),
        "entries": most,
        "moments": moments,
    }


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
    hidden = ("SUMEXP_DATA", "SUMEXP_STORE", "SUMEXP_REMOTE", "SUMEXP_DRIVER")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    return kept | {"PYTHONPATH": str(project / "src"), "XDG_CACHE_HOME": str(project / "cache")}


def _start(project: Path, command: Sequence[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "sumexp.companion.cli", *command],
        cwd=project,
        env=_environment(project),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _run(project: Path, command: Sequence[str], more: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sumexp.companion.cli", *command],
        cwd=project,
        env=_environment(project) | more,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def _finish(project: Path) -> None:
    done = _run(project, BOOK, {})
    assert done.returncode == 0, done.stdout


def _store(project: Path) -> Path:
    return project / "cache" / "sumexp" / "store"


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


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
