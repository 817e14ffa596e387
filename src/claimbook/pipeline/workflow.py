"""Having Snakemake run commands of ``claimbook``, side by side on this machine or on a cluster.

What a command computes is an entry of the store, which appears whole or not at all, under a lock that the system
releases when its holder dies. Snakemake only decides what runs when: it works in a folder of its own, new each time,
where an empty file stands for each command that ended well. So its lock and its records, which outlive a SIGKILL, keep
nobody waiting.
"""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from contextlib import chdir, nullcontext, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from threading import Thread

from claimbook import BookError
from claimbook.pipeline.plan import BUILD
from claimbook.store import Computation, default, processes, progress
from claimbook.store.files import scratch
from claimbook.store.settings import choice, resolve_device

SNAKEFILE = Path("workflow/Snakefile")
PREFIX = "sumexp-workflow-"


@dataclass(frozen=True)
class Task:
    """A command (``arguments`` of ``claimbook``) that computes an entry of the store, if it is not there.

    Its name is that of its rule, such as ``notebook_bias``; a cluster lets it run for so many minutes.
    """

    name: str
    wanted: Computation
    arguments: tuple[str, ...]
    minutes: int
    gpu: bool
    threads: int = 1

    def record(self) -> dict[str, object]:
        """It as the Snakefile reads it. The command runs in the present folder, wherever Snakemake starts it."""
        command = shlex.join([sys.executable, "-m", "claimbook.cli", *self.arguments])
        settings = {"minutes": self.minutes, "gpu": self.gpu, "threads": self.threads}
        return {"name": self.name, "command": f"cd {shlex.quote(str(Path.cwd()))} && {command}", **settings}


@dataclass(frozen=True)
class Machines:
    """Where commands run: on cores of this machine, or where an executor plugin of Snakemake sends them.

    The plugin, such as ``slurm``, is handed so many jobs at a time; ``options`` are more of Snakemake's own. So many
    commands ``share`` the GPU of this machine.
    """

    cores: int
    executor: str = ""
    jobs: int = 20
    options: str = ""
    share: int = 1

    def __post_init__(self) -> None:
        """Check them."""
        for name, number in (("CORES", self.cores), ("JOBS", self.jobs)):
            if number < 1:
                raise BookError(f"{name} is {number}; expected 1 or more")
        if self.executor and find_spec(f"snakemake_executor_plugin_{self.executor.replace('-', '_')}") is None:
            raise BookError(
                f"EXECUTOR is {self.executor!r}, which is not installed; run: "
                f"{sys.executable} -m pip install snakemake-executor-plugin-{self.executor}"
            )

    def device(self, name: str) -> str:
        """``cpu`` or ``cuda``; for the machines of a cluster it has to be said, since they are not this one."""
        if self.executor:
            return choice(f"device for EXECUTOR={self.executor}", name, ("cpu", "cuda"))
        return resolve_device(name)

    def arguments(self) -> list[str]:
        """Of Snakemake."""
        if self.executor:
            where = f"--executor {self.executor} --jobs {self.jobs} --retries 2 --latency-wait 60"
        else:
            where = f"--cores {self.cores} --resources gpu={self.share}"
        return [*where.split(), *shlex.split(self.options)]


def run(tasks: Sequence[Task], machines: Machines, log: Path) -> list[Task]:
    """Run commands and show how far they are; returns those whose entries the store lacks at the end.

    Snakemake runs in this process, so that the two end together; in a thread of its own, as it would take SIGTERM for
    itself in the main one, and keep it. What it says goes to the log. The task that stands first begins first.
    """
    if not SNAKEFILE.is_file():
        raise BookError(f"no {SNAKEFILE} here ({Path.cwd()}); run this from the project's root")
    store = default()
    with store.guarded(store.root):
        store.root.mkdir(parents=True, exist_ok=True)
        log.parent.mkdir(parents=True, exist_ok=True)
    BUILD.mkdir(exist_ok=True)  # which all nodes of a cluster see
    os.environ["PYTHONHASHSEED"] = "0"
    if machines.executor:
        os.environ.pop(processes.DRIVER, None)  # other machines know no process of this one
    else:
        processes.drive()
    place = nullcontext(mkdtemp(prefix="workflow-", dir=BUILD.absolute())) if machines.executor else scratch(PREFIX)
    with progress.shown(), place as folder:
        thread = Thread(target=_snakemake, args=(tasks, machines, Path(folder), log.absolute()), daemon=True)
        thread.start()
        try:
            thread.join()
        except KeyboardInterrupt:
            processes.end(130)
    lacking = [task for task in tasks if not store.has(task.wanted)]
    if not lacking:
        shutil.rmtree(folder, ignore_errors=True)  # else a cluster's logs of what failed may be there
    return lacking


def _snakemake(tasks: Sequence[Task], machines: Machines, folder: Path, log: Path) -> None:
    """Run Snakemake in a folder of its own."""
    from snakemake.cli import main

    file = folder / "tasks.json"
    file.write_text(json.dumps([task.record() for task in tasks]), "utf-8")
    # One that fails does not stop the others. The other scheduler starts a solver for each choice.
    arguments = ["--snakefile", str(SNAKEFILE.absolute()), "--keep-going", "--scheduler", "greedy"]
    arguments += [*machines.arguments(), "--config", f"tasks={file}"]
    with (
        suppress(SystemExit),
        log.open("w", encoding="utf-8") as output,
        redirect_stdout(output),
        redirect_stderr(output),
        chdir(folder),
    ):
        main(arguments)
