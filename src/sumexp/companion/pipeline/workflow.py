"""Running Snakemake: it decides what runs when, side by side on this machine or on a cluster.

What it computes are entries of the store, whose names are keys of everything they depend on, which appear whole or not
at all, and under locks that the system releases when their holder dies. So its own records, its lock of a folder (which
outlives a SIGKILL, and would keep two builds that share a store apart), its times of files and its care for outputs
that are half there are switched off here, and nowhere else: an output that exists is up to date.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

from sumexp.companion import CompanionError
from sumexp.companion.store import Store

FOLDER = Path("workflow")
_ALWAYS = (
    "--nolock --drop-metadata --ignore-incomplete --keep-incomplete --rerun-triggers mtime --keep-going "
    "--scheduler greedy --force-use-threads"
)


def run(name: str, config: Mapping[str, str], root: Path, log: Path, options: Sequence[str]) -> bool:
    """Run ``workflow/NAME.smk`` in this process, so that the two end together; whether all went well.

    Args:
        name: of the workflow.
        config: for it.
        root: the store; Snakemake works in it.
        log: what Snakemake says goes there.
        options: more of its command-line options.

    Raises:
        CompanionError: if there is no such file here, or the store cannot be made.
    """
    from snakemake.cli import main

    file = FOLDER / f"{name}.smk"
    if not file.is_file():
        raise CompanionError(f"no {file} here ({Path.cwd()}); run this from the project's root")
    settings = ["--config", *(f"{key}={value}" for key, value in config.items())]
    arguments = ["--snakefile", str(file.absolute()), *_ALWAYS.split(), *options, *settings]
    with Store(root).guarded(root):
        root.mkdir(parents=True, exist_ok=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    os.environ["PYTHONHASHSEED"] = "0"
    with log.open("w", encoding="utf-8") as output, _quiet(output), chdir(root):
        try:
            main(arguments)
        except SystemExit as end:
            return not end.code
    return True


@contextmanager
def _quiet(output: object) -> Iterator[None]:
    with redirect_stdout(output), redirect_stderr(output):  # type: ignore[type-var]
        yield
