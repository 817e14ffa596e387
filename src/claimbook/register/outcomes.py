"""How the tests that decide claims ended: what the outcomes of a module depend on, and those that the store has."""

from pathlib import Path

from pydantic import TypeAdapter

from claimbook import project
from claimbook.register.model import Test
from claimbook.register.verdict import markers
from claimbook.store import Computation, Entry, bundled, default, parts
from claimbook.store.computation import digest
from claimbook.store.syntax import syntax

TESTS = Path("tests")
PROOFS = Path("proofs")
FILE = "outcomes.json"
"""What the entry of a test module holds."""
FORM = TypeAdapter(tuple[Test, ...])


def file_of(module: str) -> Path:
    """The test module of that name: of ``bias.test_paper`` it is ``tests/bias/test_paper.py``."""
    return TESTS.joinpath(*module.split(".")).with_suffix(".py")


def computations() -> dict[str, Computation]:
    """The outcomes of each test module that decides claims, by its name."""
    files = sorted({test.partition("::")[0] for test, _claim in markers(TESTS)})
    return {wanted.name: wanted for wanted in map(computation, map(Path, files))}


def computation(path: Path) -> Computation:
    """The outcomes of a test module: its code, that of helpers and what they import, versions, data and code in reach.

    Tests in ``tests/proofs`` depend on proofs too, and tests that read runs (`tests.complete`) on those and on grids.
    """
    around = {file for folder in path.parents if folder.is_relative_to(TESTS) for file in folder.glob("*.py")}
    texts, counted = dict[Path, str](), {path} | {file for file in around if not file.name.startswith("test_")}
    while counted:
        texts |= {file: file.read_text("utf-8") for file in counted}
        names = {name for file in counted for n in parts.names_in(texts[file]) for name in (n, n.rpartition(".")[0])}
        counted = {file for name in names if (file := Path(f"{name.replace('.', '/')}.py")).is_file()} - texts.keys()
    reached = parts.closure(parts.imports(*texts.values()))
    files = {str(proof): proof for proof in PROOFS.glob("*.v") if PROOFS.name in path.parts}
    readers = (text for file, text in texts.items() if file == path or file.parent != TESTS)
    reads = any(name.startswith("tests.complete") for text in readers for name in parts.names_in(text))
    files |= {f"runs {grid}": bundled.files(grid)[0] for grid in bundled.grids() if reads}
    return Computation(
        "evidence",
        ".".join(path.relative_to(TESTS).with_suffix("").parts),
        {f"file {file.as_posix()}": syntax(texts[file]) for file in sorted(texts)}
        | (parts.data(parts.datasets()) if project.declared("datasets") in reached else {})
        | parts.files(files)
        | ({"grids in the store": digest(*(path.name for path in default().paths("grid")))} if reads else {})
        | parts.modules(reached)
        | parts.versions(reached, *texts.values())
        | {f"module {name}": parts.module(name) for name in (f"{__package__}.evidence", f"{__package__}.model")},
    )


def read(entry: Entry | None) -> tuple[Test, ...]:
    """The outcomes that an entry holds; none if it is missing or cannot be read."""
    try:
        return FORM.validate_json((entry.path / FILE).read_bytes()) if entry else ()
    except (OSError, ValueError):
        return ()
