"""How the tests that decide claims ended: what the outcomes of a module depend on, and those that the store has."""

import logging
from collections.abc import Sequence
from pathlib import Path

from claimbook import project
from claimbook.register.model import EvidenceFile, Test
from claimbook.register.verdict import marked, markers
from claimbook.store import Computation, Entry, Store, bundled, parts
from claimbook.store.syntax import syntax

TESTS = Path("tests")
PROOFS = Path("proofs")
FILE = "outcomes.json"
"""What the entry of a test module holds."""
_log = logging.getLogger(__name__)
_RECORDED_BY = ("claimbook.register.evidence", "claimbook.register.model")


def module_name(path: Path) -> str:
    """``tests/bias/test_paper.py`` is ``bias.test_paper``."""
    return ".".join(path.relative_to(TESTS).with_suffix("").parts)


def file_of(module: str) -> Path:
    """The test module of that name."""
    return TESTS.joinpath(*module.split(".")).with_suffix(".py")


def claim_modules() -> list[Path]:
    """The test modules that decide claims."""
    return sorted({Path(test.partition("::")[0]) for test, _claim in markers(TESTS)})


def computation(path: Path) -> Computation:
    """The outcomes of a test module: its code and its helpers', versions, the data and the code it can reach.

    Those of ``tests/proofs`` depend on the proofs too, and those that read runs (`tests.complete`) on the book's.
    """
    folders = [folder for folder in path.parents if TESTS in (folder, *folder.parents)]
    helpers = [helper for folder in folders for helper in folder.glob("*.py") if not helper.name.startswith("test_")]
    texts = {file: file.read_text("utf-8") for file in sorted([path, *helpers])}
    reached = parts.closure(parts.imports(*texts.values()))
    proofs = sorted(PROOFS.glob("*.v")) if PROOFS.name in path.parts else []
    reads_runs = any("tests.complete" in text for file, text in texts.items() if file.parent != TESTS)
    runs = {f"runs {grid}": bundled.files(grid)[0] for grid in bundled.grids() if reads_runs}
    return Computation(
        "evidence",
        module_name(path),
        {f"file {file.as_posix()}": syntax(text) for file, text in texts.items()}
        | (parts.data(parts.datasets()) if project.declared("datasets") in reached else {})
        | parts.files(proofs)
        | parts.files(runs)
        | parts.modules(reached)
        | parts.versions(reached, *texts.values())
        | {f"module {name}": parts.module(name) for name in _RECORDED_BY},
    )


def find(store: Store, wanted: Computation) -> Entry | None:
    """The entry of a module's outcomes; None if a training run is there now that a test looked for in vain."""
    entry = store.find(wanted)
    return None if entry is None or any((store.root / run).exists() for run in read(entry).lacked) else entry


def read(entry: Entry) -> EvidenceFile:
    """What an entry holds of the tests that the sources declare; nothing where it cannot be read."""
    try:
        stored = EvidenceFile.model_validate_json((entry.path / FILE).read_bytes())
    except (OSError, ValueError):
        return EvidenceFile(tests=())
    return stored.model_copy(update={"tests": _declared(stored.tests, entry.computation.name)})


def _declared(tests: Sequence[Test], module: str) -> tuple[Test, ...]:
    """The tests that the module's source has, with the same claim, shows and evidence; the others are said."""
    path = file_of(module)
    known = set(marked(path.read_text("utf-8"))) if path.is_file() else set()

    def is_known(test: Test) -> bool:
        file, *names = test.test.split("::")
        return file == path.as_posix() and any((name, test.claim, test.shows, test.evidence) in known for name in names)

    if unknown := [test.test for test in tests if not is_known(test)]:
        _log.warning("stored outcomes that no marker in %s declares are ignored: %s", path, ", ".join(unknown))
    return tuple(filter(is_known, tests))
