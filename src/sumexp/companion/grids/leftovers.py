"""What the cache can do without."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from shutil import rmtree
from typing import Any, get_type_hints

from filelock import Timeout
from pydantic import TypeAdapter

from sumexp import datasets
from sumexp.companion import CompanionError
from sumexp.companion.authoring import runs
from sumexp.companion.grids.jobs import checkpoint_of, entries, look


def leftovers(root: Path) -> list[tuple[Path, str]]:
    """What the cache can do without, and why: never what is running, nor what the code of today would ask for."""
    found = []
    for entry in entries(root):
        how_far, record = look(entry)
        if how_far == "running":
            continue
        checkpoint = checkpoint_of(entry)
        parts = (entry.with_suffix(".part"), checkpoint.with_suffix(".checkpoint.part"))
        found += [(path, "half-written by a process that was killed") for path in parts if path.exists()]
        if runs.exists(entry) and checkpoint.exists():
            found.append((checkpoint, "of a run that is finished"))
        if (runs.exists(entry) or checkpoint.exists()) and not (record and _is_current(entry, record)):
            why = "of other code or data" if record else "damaged"
            found.append((entry if runs.exists(entry) else checkpoint, why))
    return found


def _is_current(entry: Path, record: Mapping[str, Any]) -> bool:
    """Whether the task as it is now, asked for this config, would look for it here."""
    module, _, name = entry.parent.name.rpartition(".")
    environment = record["environment"]
    try:
        task = getattr(import_module(module), name)
        config = TypeAdapter(next(iter(get_type_hints(task).values()))).validate_python(record["config"])
        device = "cpu" if environment["device"] == "cpu" else "cuda"
        data, threads = environment["data"], environment["threads"]
        return runs.path_of(task, config, data=data, device=device, threads=threads, root=entry.parents[1]) == entry
    except (ImportError, AttributeError, LookupError, ValueError, CompanionError, datasets.DataError):
        return False


def remove(path: Path) -> bool:
    """Remove one of the `leftovers`; whether it is gone: it stays if a process has begun to compute its run."""
    entry = path.with_name(path.name.partition(".")[0])
    try:
        with runs.locked(entry, wait=False):
            if path.is_dir():
                rmtree(path)
            else:
                path.unlink(missing_ok=True)
    except Timeout:
        return False
    return True
