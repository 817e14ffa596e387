"""A store in a folder with a space, and entries of nothing in particular."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from claimbook.store import Computation, Entry, Store
from claimbook.store.provenance import Meter


def asked(number: int = 0, **parts: str) -> Computation:
    """A computation; each number is another one."""
    return Computation("run", "some.task", {"number": str(number), **parts})


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUMEXP_STORE", raising=False)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "the store")


def flip(path: Path) -> None:
    """Damage one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def keep(store: Store, computation: Computation, content: bytes = b"content") -> Entry:
    """Write an entry of a file and of one in a folder."""
    with store.locked(computation), store.writing(computation) as (folder, seal):
        (folder / "file.bin").write_bytes(content)
        (folder / "folder").mkdir()
        (folder / "folder" / "größe.txt").write_text("text", "utf-8")
        seal(Meter().read(data=("brown",), parameters={"seed": 0}))
    entry = store.find(computation)
    assert entry is not None
    return entry


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A disk of a megabyte."""
    folder = tmp_path / "a small disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
