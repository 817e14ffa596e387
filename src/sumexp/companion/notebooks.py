"""Run one notebook: checked parameters in; executed notebook and provenance out, or a plain message."""

import ast
import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any

from sumexp.companion import CompanionError, keys
from sumexp.companion.executions import Execution, as_json, device_name, versions

PROFILES = ("smoke", "cpu", "paper")
DEVICES = ("auto", "cpu", "cuda")
FOLDER = Path("notebooks")
THREADS = 2
"""For every notebook, whatever the machine and CORES: sums in another order are other bytes."""

INJECTED = "injected-parameters"


class NotebookError(CompanionError):
    """A notebook that failed; the message says where, and where the partial notebook and the log are."""


@dataclass(frozen=True)
class Products:
    """Where the products of the notebook ``name`` go, all below one folder."""

    folder: Path
    name: str

    @property
    def executed(self) -> Path:
        """The executed notebook."""
        return self.folder / "executed" / f"{self.name}.ipynb"

    @property
    def results(self) -> Path:
        """Every number that the prose quotes."""
        return self.folder / "results" / f"{self.name}.json"

    @property
    def figures(self) -> Path:
        """The folder of its figures, one SVG each."""
        return self.folder / "figures" / self.name

    @property
    def execution(self) -> Path:
        """Its provenance."""
        return self.folder / "executions" / f"{self.name}.json"

    def all(self) -> tuple[Path, ...]:
        """What a finished run leaves."""
        return self.executed, self.results, self.figures, self.execution

    @property
    def running(self) -> Path:
        """The notebook while it runs."""
        return self.folder / "running" / f"{self.name}.ipynb"

    @property
    def failed(self) -> Path:
        """The partial notebook of a run that failed."""
        return self.folder / "failed" / f"{self.name}.ipynb"

    @property
    def log(self) -> Path:
        """What the notebook printed, and the traceback if it failed."""
        return self.folder / "logs" / f"{self.name}.log"


def source_path(name: str) -> Path:
    """The notebook of a chapter.

    Raises:
        CompanionError: if there is none.
    """
    path = FOLDER / f"{name}.md"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in FOLDER.glob("*.md"))) or "none; run this from the project's root"
        raise CompanionError(f"no notebook {name!r} in {FOLDER}/; there are: {known}")
    return path


def choice(name: str, value: str, allowed: Iterable[str]) -> str:
    """``value``, if it is one of ``allowed``.

    Raises:
        CompanionError: if it is not.
    """
    if value not in allowed:
        raise CompanionError(f"{name} is {value!r}; expected one of {', '.join(allowed)}")
    return value


def resolve_device(device: str) -> str:
    """``cpu`` or ``cuda``; ``auto`` is ``cuda`` where torch can use it.

    Raises:
        CompanionError: if ``device`` is unknown, or ``cuda`` and torch cannot use it.
    """
    if choice("device", device, DEVICES) == "cpu":
        return "cpu"
    if cuda_available():
        return "cuda"
    if device == "cuda":
        raise CompanionError(
            "device is 'cuda', but torch finds no CUDA device; take cpu, or install a CUDA build (make TORCH=cuda)"
        )
    return "cpu"


def cuda_available() -> bool:
    """Whether torch can use a GPU; a CPU build of torch is told without importing it (a second or more)."""
    from importlib.util import find_spec
    from runpy import run_path

    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return False
    build = run_path(str(Path(spec.origin).parent / "version.py"))
    if not (build.get("cuda") or build.get("hip")):
        return False
    import torch

    return torch.cuda.is_available()


def parameters(name: str, given: Iterable[str] = ()) -> dict[str, object]:
    """The parameters that the notebook runs with: its own defaults, replaced by ``given`` (each ``name=value``).

    Raises:
        CompanionError: if a parameter is unknown or its value is not of the default's kind.
    """
    import jupytext

    path = source_path(name)
    cells = [cell for cell in jupytext.read(path).cells if "parameters" in cell.metadata.get("tags", ())]
    if len(cells) != 1:
        raise CompanionError(f"{path} has {len(cells)} cells tagged 'parameters'; expected one")
    values = dict(_assignments(cells[0].source, path))
    for item in given:
        key, equals, text = item.partition("=")
        if not equals or key not in values:
            raise CompanionError(
                f"parameter {item!r} of {path}: expected NAME=VALUE with NAME one of {', '.join(values)}"
            )
        values[key] = _like(values[key], key, text)
    if "profile" in values:
        choice("profile", str(values["profile"]), PROFILES)
    if "device" in values:
        values["device"] = resolve_device(str(values["device"]))
    return values


def key(name: str, values: Mapping[str, object], given: Iterable[str] = ()) -> str:
    """The key of a run: of the parameters those count that were given, and what always is (profile, device)."""
    counted = {"profile", "device"} | {item.partition("=")[0] for item in given}
    return keys.notebook_key(source_path(name), {k: v for k, v in values.items() if k in counted})


def run(name: str, values: Mapping[str, object], products: Products, key: str) -> Execution:
    """Execute a notebook and put its products in place; the process's environment becomes the notebook's.

    Raises:
        NotebookError: if a cell fails or the kernel dies; what was in place before is left alone.
    """
    import jupytext

    path = source_path(name)
    source = jupytext.read(path)
    for file in (products.running, products.log):
        file.parent.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    with products.log.open("w", encoding="utf-8") as log, _surroundings(path) as folder:
        try:
            _execute(source, values, products.running, name, log, folder)
        except Exception as error:
            raise _failure(error, path, products, log) from error
    execution = Execution(
        notebook=name,
        key=key,
        parameters=dict(values),
        device=device_name(str(values.get("device", "cpu"))),
        seconds=round(time.monotonic() - begin, 3),
        peak_memory=_peak_memory_of_children(),
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=versions(),
    )
    _put_in_place(products, execution)
    return execution


def _execute(source: Any, values: Mapping[str, object], target: Path, name: str, log: Any, folder: str) -> None:
    import papermill
    from traitlets.config import Config

    papermill.execute_notebook(
        source,
        str(target),
        parameters=dict(values),
        kernel_name="python3",
        # Named sockets: ports may collide when kernels start at the same time, and anybody can listen.
        config=Config({"ConnectionFileMixin": {"transport": "ipc", "ip": f"{folder}/socket"}}),
        progress_bar={"desc": name, "mininterval": 0.1 if sys.stderr.isatty() else 20},
        stdout_file=log,
        stderr_file=log,
    )


@contextmanager
def _surroundings(path: Path) -> Iterator[str]:
    """Fix what a notebook may see besides what its key holds; gives the folder of its sockets and settings."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(THREADS))
    declared = ",".join(keys.declared_data(keys.parse(path), path))
    # Not below the project: the path of a named socket has little room.
    with TemporaryDirectory(prefix="sumexp-", dir="/tmp" if Path("/tmp").is_dir() else None) as folder:
        os.environ |= threads | {
            "PYTHONHASHSEED": "0",
            "SUMEXP_DECLARED_DATA": declared,
            "IPYTHONDIR": folder,
            "JUPYTER_RUNTIME_DIR": folder,
        }
        yield folder


def _put_in_place(products: Products, execution: Execution) -> None:
    """Provenance comes last: where it bears a key, all that belongs to this key is in place."""
    from sumexp.companion.files import write_text

    notebook = json.loads(products.running.read_text("utf-8"))
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    marked = [(output, output.get("metadata", {}).get("sumexp", {})) for output in outputs]
    results = {mark["result"]: {k: mark[k] for k in ("value", "rtol")} for _, mark in marked if "result" in mark}
    write_text(products.results, json.dumps(results, indent=1, sort_keys=True) + "\n")
    rmtree(products.figures, ignore_errors=True)
    products.figures.mkdir(parents=True)
    for output, mark in marked:
        if "figure" in mark and (svg := re.search(r"<svg.*</svg>", "".join(output["data"]["text/html"]), re.DOTALL)):
            write_text(products.figures / f"{mark['figure']}.svg", svg[0] + "\n")
    products.failed.unlink(missing_ok=True)
    products.executed.parent.mkdir(parents=True, exist_ok=True)
    products.running.replace(products.executed)
    write_text(products.execution, as_json(execution))


def _failure(error: Exception, path: Path, products: Products, log: Any) -> NotebookError:
    """Keep the partial notebook and the traceback, and say where and why it failed."""
    what, line = f"{type(error).__name__}: {error}", None
    if traceback := getattr(error, "traceback", None):
        text = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(traceback))
        log.write(text + "\n")
        what = f"{error.ename}: {error.evalue}"  # type: ignore[attr-defined]
        line = re.search(r"Cell In\[\d+\], line (\d+)", text)
    elif type(error).__name__ == "DeadKernelError":
        what = "the kernel died; it was killed, perhaps because memory ran out (see the system's log)"
    log.write(what + "\n")
    where = str(path)
    if products.running.exists():
        products.failed.parent.mkdir(parents=True, exist_ok=True)
        products.running.replace(products.failed)
        where = _where(path, products.failed, int(line[1]) if line else None)
    return NotebookError(f"{where}\n  {what}\n  partial notebook: {products.failed}\n  log: {products.log}")


def _where(path: Path, partial: Path, line: int | None) -> str:
    """The cell that was started last, by number and first line, and the line where it failed."""
    cells = json.loads(partial.read_text("utf-8"))["cells"]
    code = [c for c in cells if c["cell_type"] == "code" and INJECTED not in c["metadata"].get("tags", ())]
    # What papermill says of how a cell ended is wrong where the kernel died; when it began is right.
    started = [cell for cell in code if cell["metadata"].get("papermill", {}).get("start_time")]
    if not started:
        return f"{path} failed before its first cell"
    text = "".join(started[-1]["source"])
    lines = text.splitlines() or [""]
    where = f"{path} failed in code cell {len(started)}, which begins with: {lines[0]}"
    if line is None or line > len(lines):
        return where
    content = path.read_text("utf-8")
    number = content[: content.find(text)].count("\n") + line
    return f"{where}\n  line {number} of the file: {lines[line - 1].strip()}"


def _peak_memory_of_children() -> int:
    import resource

    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _assignments(code: str, path: Path) -> Iterator[tuple[str, object]]:
    for node in ast.parse(code).body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                try:
                    yield name, ast.literal_eval(value)
                except ValueError:
                    raise CompanionError(
                        f"{path}: the parameter {name} is not a plain value such as 0 or 'cpu'"
                    ) from None


def _like(default: object, name: str, text: str) -> object:
    """``text`` as a value of the default's kind."""
    if isinstance(default, str):
        return text
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = None
    if isinstance(default, float) and type(value) is int:
        return float(value)
    if type(value) is not type(default):
        kind = {int: "whole number", float: "number", bool: "truth value"}.get(type(default), type(default).__name__)
        raise CompanionError(f"parameter {name} is {text!r}; expected a {kind} such as {default!r}")
    return value
