"""Runs ``sumexp`` in forks of one process that has imported what the command imports of others, a second each time.

As a module of its own this is that process: it reads what to run from its input, a line each, and says how it ended.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

LIBRARIES = (
    "typer._adapters",
    "numpy",
    "yaml",
    "mdit_py_plugins.front_matter",
    "mdit_py_plugins.myst_blocks",
    "grimp",
    "filelock",
    "psutil",
    "snakemake.cli",
    "snakemake.report.html_reporter",
    "smart_open",
    "tqdm.auto",  # before IPython, which it would take for a notebook's
    "jupytext",
    "papermill",
)


@cache
def _server() -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, __file__], stdin=pipe, stdout=pipe, text=True)


def run(arguments: tuple[str, ...], folder: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    """Run ``python -m sumexp.companion.cli ARGUMENTS`` in a folder to its end; its exit code and what it printed."""
    asked, said = _server().stdin, _server().stdout
    assert asked is not None
    assert said is not None
    with TemporaryDirectory() as temporary:
        output = Path(temporary, "output")
        request = {"arguments": arguments, "folder": str(folder), "environment": dict(environment)}
        print(json.dumps(request | {"output": str(output)}), file=asked, flush=True)
        return int(said.readline()), output.read_text("utf-8")


def _become(request: Mapping[str, Any]) -> None:
    """Let this process be the one that is asked for, as if it had just been started."""
    for number, file in ((0, os.devnull), (1, request["output"]), (2, request["output"])):
        opened = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.path[:1] = ["", *os.environ["PYTHONPATH"].split(os.pathsep)]
    sys.argv[1:] = request["arguments"]


def _serve() -> bool:
    """Answer until there is nothing more to read; true in a fork, which is to run the command."""
    for line in sys.stdin:
        if not (fork := os.fork()):
            _become(json.loads(line))
            return True
        print(os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]), flush=True)
    return False


if __name__ == "__main__":
    for name in LIBRARIES:
        import_module(name)
    if _serve():
        from runpy import run_module

        run_module("sumexp.companion.cli", run_name="__main__", alter_sys=True)
