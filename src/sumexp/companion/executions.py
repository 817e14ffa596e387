"""What each executed notebook cost and was made from: ``build/executions/*.json`` and the page made of them."""

import json
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("sumexp", "torch", "numpy", "scipy", "scikit-learn", "matplotlib")


@dataclass(frozen=True)
class Execution:
    """The provenance of one executed notebook."""

    notebook: str
    key: str
    parameters: Mapping[str, object]
    device: str
    seconds: float
    peak_memory: int
    """Bytes, the largest resident size of the kernel."""
    finished: str
    """Time of day and date, UTC, ISO 8601."""
    versions: Mapping[str, str]

    @property
    def profile(self) -> object:
        """The profile it ran under."""
        return self.parameters.get("profile")

    def provenance(self) -> str:
        """The line under a figure: what it was made from, nothing of when and how long."""
        return " · ".join((f"key {self.key[:12]}", *(f"{name} {value}" for name, value in self.parameters.items())))


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that numbers depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def device_name(device: str) -> str:
    """The device in words: the GPU's name, or the processor's architecture and its number of cores."""
    if device == "cuda":
        import torch

        return f"cuda ({torch.cuda.get_device_name()})"
    return f"cpu ({platform.machine()}, {os.cpu_count()} cores)"


def read(path: Path) -> Execution:
    """Read one execution."""
    return Execution(**json.loads(path.read_text("utf-8")))


def read_all(folder: Path, notebooks: Iterable[str]) -> list[Execution]:
    """The executions there are of ``notebooks``, in their order."""
    return [read(path) for name in notebooks if (path := folder / f"{name}.json").exists()]


def as_json(executions: Execution | list[Execution]) -> str:
    """One execution, or all of them, as JSON text."""
    records = [asdict(e) for e in executions] if isinstance(executions, list) else asdict(executions)
    return json.dumps(records, indent=1) + "\n"


def write_page(executions: list[Execution], stage_dir: Path) -> None:
    """Write ``book/executions.md`` into the staged book."""
    from sumexp.companion.files import write_text

    rows = "".join(f"| {' | '.join(_row(execution))} |\n" for execution in executions)
    found = sorted({f"{name} {number}" for e in executions for name, number in e.versions.items()})
    page = (
        # Times differ from build to build: out of the search index, which would differ with them.
        "---\nnosearch: true\n---\n\n# Executions\n\n"
        "What each chapter's notebook cost when it was last executed. No other page differs between two builds of the "
        "same sources. The same stands in `build/executions.json`.\n\n"
        "| notebook | time | peak memory | device | parameters | key | finished |\n|---|--:|--:|---|---|---|---|\n"
        f"{rows}\nWith {', '.join(found) or 'nothing executed yet'}.\n"
    )
    write_text(stage_dir / "book" / "executions.md", page)


def _row(execution: Execution) -> tuple[str, ...]:
    return (
        f"[{execution.notebook}](../notebooks/{execution.notebook})",
        f"{execution.seconds:.1f}\N{NO-BREAK SPACE}s",
        f"{execution.peak_memory / 2**20:,.0f}\N{NO-BREAK SPACE}MiB",
        execution.device,
        ", ".join(f"{name} = {value}" for name, value in execution.parameters.items()),
        execution.key[:12],
        f"{datetime.fromisoformat(execution.finished):%Y-%m-%d %H:%M} UTC",
    )
