"""Rendering the staged book."""

import subprocess
import sys
from pathlib import Path
from shutil import rmtree

from sumexp.companion import CompanionError


def render(stage: Path, output: Path, *, jobs: int, cache: Path | None) -> None:
    """Render the staged book into ``output``.

    Raises:
        CompanionError: if Sphinx gives a warning.
    """
    work = output.with_name("sphinx")
    command = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build", str(stage)]
    options = ["--path-output", str(work), "-W", "--keep-going", "--all", "-q"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompanionError(f"the book could not be rendered; Sphinx says:\n{done.stdout}{done.stderr}")
    (work / "_build" / "html").replace(output)
    rmtree(work)
