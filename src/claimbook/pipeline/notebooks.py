"""Run a notebook: checked parameters in; executed notebook and provenance out, or a plain message."""

import ast
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO

from claimbook import BookError
from claimbook.pipeline.plan import THREADS, declared, parse, source_path
from claimbook.store import parts, progress
from claimbook.store.provenance import Meter, Provenance
from claimbook.store.settings import PROFILES, choice, resolve_device

EXECUTED = "executed.ipynb"
"""What the entry of an executed notebook holds."""
INJECTED = "injected-parameters"
SURROUNDINGS = {
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(THREADS)),
    **dict.fromkeys(("PYTHONOPTIMIZE", "PYTHONSTARTUP", "PYTHONWARNINGS", "PYTEST_ADDOPTS"), ""),  # as if unset
    "PYTHONHASHSEED": "0",
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
}
"""Environment variables fixed for every notebook: Python and libraries read them when they start."""
SCRATCH = "IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_PATH", "JUPYTER_DATA_DIR"
"""Folders of the user's settings and kernels, instead of which a notebook has an empty one."""


def parameters(name: str, given: Iterable[str] = ()) -> dict[str, object]:
    """The notebook's parameters: its defaults, replaced by ``given`` (each ``name=value``)."""
    path = source_path(name)
    values = dict(parse(path).parameters)
    for item in given:
        key, equals, text = item.partition("=")
        if not equals or key not in values:
            raise BookError(f"parameter {item!r} of {path}: expected NAME=VALUE with NAME one of {', '.join(values)}")
        values[key] = _like(values[key], key, text)
    if "profile" in values:
        choice("profile", str(values["profile"]), PROFILES)
    if "device" in values:
        values["device"] = resolve_device(str(values["device"]))
    return values


def _like(default: object, name: str, text: str) -> object:
    """``text`` as a value of the default's kind."""
    if isinstance(default, str):
        return text
    with suppress(ValueError, SyntaxError):
        value: object = ast.literal_eval(text)
        if type(value) is int and isinstance(default, float):
            return float(value)
        if type(value) is type(default):
            return value
    raise BookError(f"parameter {name} is {text!r}; expected a value such as {default!r}")


def run(name: str, values: Mapping[str, object], folder: Path, log: Path) -> Provenance:
    """Execute a notebook and put what it gave into an empty folder; the process's environment becomes the notebook's.

    What it prints goes to the log; the partial notebook, if it fails, into the folder ``failed`` next to the log's.
    """
    import jupytext

    path, partial = source_path(name), log.parents[1] / "failed" / f"{log.stem}.ipynb"
    source = jupytext.read(path)
    data = declared(path, "data", parts.datasets())
    log.parent.mkdir(parents=True, exist_ok=True)
    meter = Meter()
    ran: list[Any] = []
    # Not below the project: the path of a named socket has little room.
    place = "/tmp" if os.access("/tmp", os.W_OK) else None
    kernel = TemporaryDirectory(prefix="sumexp-kernel-", dir=place, ignore_cleanup_errors=True)
    with log.open("w", encoding="utf-8") as output, kernel as scratch:
        os.environ |= SURROUNDINGS | dict.fromkeys(SCRATCH, scratch)
        os.environ["SUMEXP_DECLARED_DATA"] = ",".join(data)
        try:
            _execute(source, values, ran, output, scratch)
        except Exception as error:
            message = _failure(error, path, ran, output)
            for notebook in ran:
                _write(notebook, partial)
            raise BookError(f"{message}\n  partial notebook: {partial}\n  log: {log}") from error
    partial.unlink(missing_ok=True)
    _write(ran[0], folder / EXECUTED)
    return meter.read(str(values.get("device", "cpu")), tuple(parts.present(data)), parameters=dict(values))


def _execute(source: Any, values: Mapping[str, object], ran: list[Any], log: Any, folder: str) -> None:
    """Execute a notebook; it is in ``ran``, however that ends."""
    import papermill
    from jupyter_client.manager import AsyncKernelManager
    from traitlets.config import Config

    class Manager(AsyncKernelManager):
        """Ends a kernel without interrupting it first: a kernel at its last message would print the interrupt."""

        async def _async_interrupt_kernel(self) -> None:
            pass

    # Named sockets: ports may collide when kernels start at the same time, and anybody can listen.
    sockets = {"transport": "ipc", "ip": f"{folder}/socket"}
    done = papermill.execute_notebook(
        source,
        None,  # papermill would write it twice a cell, which costs seconds
        parameters=dict(values),
        on_notebook_start=lambda notebook: ran.append(notebook),
        kernel_name="python3",
        config=Config({"ConnectionFileMixin": sockets, "NotebookClient": {"kernel_manager_class": Manager}}),
        progress_bar={"desc": "cells", **progress.options()},
        stdout_file=log,
        stderr_file=sys.stderr,  # how far a training is
    )
    # papermill takes a cell with sys.exit() for success.
    if any(cell.cell_type == "code" and cell.source.strip() and not cell.execution_count for cell in done.cells):
        raise BookError("the cell ended the run before the last cell; remove its sys.exit()")


def _write(notebook: Any, file: Path) -> None:
    import nbformat

    file.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, file, version=nbformat.NO_CONVERT)


def _failure(error: Exception, path: Path, ran: Sequence[Any], log: TextIO) -> str:
    """Where and why a notebook failed; the log gets the traceback."""
    what, line = f"{type(error).__name__}: {error}", None
    if traceback := getattr(error, "traceback", None):
        text = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(traceback))
        log.write(text + "\n")
        what = f"{error.ename}: {error.evalue}"  # type: ignore[attr-defined]
        line = re.search(r"Cell In\[\d+\], line (\d+)", text)
    elif type(error).__name__ == "DeadKernelError":
        what = "the kernel died; it was killed, perhaps because memory ran out (see the system's log)"
    log.write(what + "\n")
    # What papermill says of how a cell ended is wrong where the kernel died; when it began is right.
    cells = [cell for notebook in ran for cell in notebook["cells"] if cell["cell_type"] == "code"]
    code = [cell for cell in cells if INJECTED not in cell["metadata"].get("tags", ())]
    started = [cell for cell in code if cell["metadata"].get("papermill", {}).get("start_time")]
    if not started:
        return f"{path} failed before its first cell\n  {what}"
    text = "".join(started[-1]["source"])
    where = f"{path} failed in code cell {len(started)}, which begins with: {text.partition(chr(10))[0]}"
    if line and int(line[1]) <= len(lines := text.splitlines()):
        content, number = path.read_text("utf-8"), int(line[1])
        place = content[: content.find(text)].count("\n") + number
        where += f"\n  line {place} of the file: {lines[number - 1].strip()}"
    return f"{where}\n  {what}"
