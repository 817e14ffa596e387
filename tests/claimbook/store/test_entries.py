"""Entries appear whole or not at all; what is damaged, foreign or cut short is none."""

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

import pytest

from claimbook import BookError
from claimbook.store import Computation, Store, default
from claimbook.store.entries import SUMS, _sums, is_of_disk, read, size, write_text
from claimbook.store.provenance import Meter

from .conftest import asked, flip, keep


def test_an_entry_comes_back_as_it_was_written(store: Store) -> None:
    assert store.find(asked()) is None
    entry = keep(store, asked(), b"12345")
    again = store.find(asked())
    assert again is not None
    assert again == entry
    assert again.path == store.root / "run" / "some.task" / asked().key
    assert again.computation == asked()
    assert (again.provenance.data, again.provenance.more) == (("brown",), {"parameters": {"seed": 0}})
    files = sorted(path.relative_to(again.path).as_posix() for path in again.path.rglob("*") if path.is_file())
    assert files == ["SHA256SUMS", "entry.json", "file.bin", "folder/größe.txt"]
    assert size(again.path) == sum((again.path / file).stat().st_size for file in files)


def test_the_checksums_are_in_the_usual_form(store: Store) -> None:
    entry = keep(store, asked())
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", SUMS], cwd=entry.path, check=True)


def test_nothing_is_in_the_entrys_place_before_it_is_sealed(store: Store) -> None:
    with store.locked(asked()), store.writing(asked()) as (folder, seal):
        (folder / "file").write_text("text")
        assert not store.path(asked()).exists()
        seal(Meter().read())
        assert store.find(asked())
    assert list(store.path(asked()).parent.iterdir()) == [store.path(asked())]


def test_what_fails_or_is_not_sealed_leaves_nothing(store: Store) -> None:
    with suppress(ZeroDivisionError), store.locked(asked()), store.writing(asked()) as (folder, _):
        (folder / "file").write_text(str(1 / 0))
    with store.locked(asked()), store.writing(asked()) as (folder, _):
        (folder / "file").write_text("text")
    assert list(store.path(asked()).parent.iterdir()) == []


def test_an_empty_folder_in_its_place_is_no_entry(store: Store) -> None:
    """Who copies a store may make one first."""
    store.path(asked()).mkdir(parents=True)
    assert store.find(asked()) is None
    assert keep(store, asked()).path == store.path(asked())


def _reseal(folder: Path, **record: object) -> None:
    """Change the record and make the checksums fit."""
    values = json.loads((folder / "entry.json").read_text("utf-8"))
    (folder / "entry.json").write_text(json.dumps(values | record), "utf-8")
    (folder / SUMS).write_text(_sums(folder), "utf-8")


MADE = asdict(Meter().read())
DAMAGES: dict[str, Callable[[Path], object]] = {
    "a flipped bit": lambda entry: flip(entry / "file.bin"),
    "cut short": lambda entry: (entry / "file.bin").write_bytes((entry / "file.bin").read_bytes()[:-1]),
    "emptied": lambda entry: (entry / "file.bin").write_bytes(b""),
    "a file is gone": lambda entry: (entry / "file.bin").unlink(),
    "a folder is gone": lambda entry: shutil.rmtree(entry / "folder"),
    "a file too many": lambda entry: (entry / "more").touch(),
    "no record": lambda entry: (entry / "entry.json").unlink(),
    "another record": lambda entry: flip(entry / "entry.json"),
    "no checksums": lambda entry: (entry / SUMS).unlink(),
    "other checksums": lambda entry: flip(entry / SUMS),
    "other parts": lambda entry: _reseal(entry, parts={"number": "7"}),
    "parts of no kind": lambda entry: _reseal(entry, parts=[1]),
    "a part that is no text": lambda entry: _reseal(entry, parts={"number": 0}),
    "no provenance": lambda entry: _reseal(entry, provenance=None),
    "a date that is a number": lambda entry: _reseal(entry, provenance=MADE | {"finished": 5}),
    "a time that is none": lambda entry: _reseal(entry, provenance=MADE | {"seconds": "1"}),
    "words that are none": lambda entry: _reseal(entry, provenance=MADE | {"data": [1]}),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_entry_is_none_and_the_next_one_takes_its_place(
    store: Store, damage: Callable[[Path], object], caplog: pytest.LogCaptureFixture
) -> None:
    entry = keep(store, asked())
    other = keep(store, asked(1))
    damage(entry.path)
    assert store.missing([asked(), asked(1)]) == [asked()]
    assert f"{entry.path} is" in caplog.text
    assert "it will be computed again" in caplog.text
    assert [stored.computation for stored in store.entries()] == [other.computation]
    assert len(store.paths()) == 2
    assert keep(store, asked()).computation == asked()


def test_an_entry_in_anothers_place_is_foreign(store: Store) -> None:
    keep(store, asked()).path.rename(store.path(asked(1)))
    with pytest.raises(BookError, match=rf"is foreign: it holds run some.task {asked().key}"):
        read(store.path(asked(1)))
    other = Computation("run", "other.task", asked().parts)
    store.path(other).parent.mkdir(parents=True)
    store.path(asked(1)).rename(store.path(other))
    assert store.find(other) is None


def test_a_users_files_are_no_entries_and_a_link_goes_without_its_target(store: Store) -> None:
    write_text(store.root / "run" / "some.task" / "thesis" / "chapter", "text")
    link = store.path(asked())
    link.symlink_to(store.root / "run" / "some.task" / "thesis")
    assert store.paths() == [link]
    assert store.remove(link)
    assert store.paths() == []
    assert size(store.root / "run") == 4


def test_entries_are_in_the_order_they_were_finished_in(store: Store) -> None:
    numbers = [5, 3, 8, 1, 9, 2]
    for number in numbers:  # within a second
        keep(store, asked(number))
        time.sleep(0.002)
    assert [entry.computation.parts["number"] for entry in store.entries("run")] == [str(n) for n in numbers]
    assert store.entries("notebook") == store.entries("run", "other") == []


WRITER = """
import sys
from pathlib import Path
from claimbook.store import Computation, Store
from claimbook.store.provenance import Meter

store, number = Store(Path(sys.argv[1])), 0
made = Meter().read()
print("ready", flush=True)
while True:
    asked = Computation("run", "some.task", {"number": str(number % 5)})
    with store.locked(asked), store.writing(asked) as (folder, seal):
        for file in range(20):
            (folder / f"{file}.bin").write_bytes(b"x" * 10_000 * file)
        seal(made)
    number += 1
"""


@contextmanager
def _other(script: str, store: Store) -> "Iterator[subprocess.Popen[str]]":
    """Another process, which does not outlive the block."""
    process = subprocess.Popen([sys.executable, "-c", script, str(store.root)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_kill_at_any_moment_leaves_whole_entries_and_free_locks(store: Store) -> None:
    rng = random.Random(0)
    for _ in range(4):
        with _other(WRITER, store) as process:
            time.sleep(rng.uniform(0.05, 0.3))
            process.send_signal(signal.SIGKILL)
            process.wait()
        paths = store.paths()
        assert [read(path).path for path in paths] == paths  # none is damaged
        for number in range(5):
            assert store.remove(store.path(asked(number)))  # its lock is free
    keep(store, asked())
    assert [path for path in store.root.rglob("*.part") if path.name.startswith(asked().key)] == []


HOLDER = """
import sys, time
from pathlib import Path
from claimbook.store import Computation, Store

with Store(Path(sys.argv[1])).locked(Computation("run", "some.task", {"number": "0"})):
    print("ready", flush=True)
    time.sleep(600)
"""


def test_a_lock_keeps_others_out_until_its_holder_is_killed(store: Store) -> None:
    keep(store, asked())
    with _other(HOLDER, store) as process:
        assert not store.remove(store.path(asked()))
        assert store.find(asked())
        process.send_signal(signal.SIGKILL)
        process.wait()
    with store.locked(asked()):
        pass
    assert store.remove(store.path(asked()))
    assert store.find(asked()) is None


ONCE = """
import sys, time
from pathlib import Path
from claimbook.store import Computation, Store
from claimbook.store.provenance import Meter

store = Store(Path(sys.argv[1]))
asked = Computation("run", "some.task", {"number": "0"})
print("ready", flush=True)
with store.locked(asked):
    if store.find(asked) is None:
        with (store.root / "computed").open("a") as log:
            log.write("once\\n")
        time.sleep(0.5)
        with store.writing(asked) as (folder, seal):
            seal(Meter().read())
"""


def test_two_that_ask_at_once_compute_once(store: Store) -> None:
    with _other(ONCE, store) as first, _other(ONCE, store) as second:
        assert (first.wait(60), second.wait(60)) == (0, 0)
    assert (store.root / "computed").read_text() == "once\n"
    assert store.find(asked())


def test_a_full_disk_leaves_nothing_half_there(full: Path) -> None:
    store = Store(full)
    keep(store, asked(1))
    with pytest.raises(OSError, match="No space left") as caught:
        keep(store, asked(), b"x" * (1 << 21))
    assert is_of_disk(caught.value)
    assert [path.name for path in store.path(asked()).parent.iterdir()] == [asked(1).key]
    assert store.missing([asked(), asked(1)]) == [asked()]
    keep(store, asked(2))


def test_a_store_that_may_only_be_read_says_what_it_has(full: Path) -> None:
    store = Store(full)
    keep(store, asked())
    (full / "locks").mkdir(exist_ok=True)
    (full / "locks" / f"{asked().key}.lock").touch()
    subprocess.run(["mount", "-o", "remount,ro", str(full)], check=True)
    assert store.missing([asked(), asked(1)]) == [asked(1)]
    with pytest.raises(OSError, match="Read-only") as caught:
        keep(store, asked(1))
    assert is_of_disk(caught.value)


def test_locks_leave_no_files(store: Store) -> None:
    keep(store, asked())
    with store.locked(asked()):
        assert [path.name for path in (store.root / "locks").iterdir()] == [f"{asked().key}.lock"]
    assert not list((store.root / "locks").iterdir())


def test_the_store_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    assert default().root == tmp_path / "user/sumexp/store"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUMEXP_STORE", "here")
    assert default().root == tmp_path / "here"
    monkeypatch.setenv("SUMEXP_STORE", "~/there")
    assert default().root == Path.home() / "there"
    monkeypatch.setenv("SUMEXP_STORE", "~nobody-at-all/there")
    with pytest.raises(BookError, match="SUMEXP_STORE is '~nobody-at-all/there': Could not determine home"):
        default()


def test_a_file_is_replaced_and_its_folder_made(tmp_path: Path) -> None:
    file = tmp_path / "a folder" / "a.txt"
    for text in ("eins\n", "zwei: ö\n"):
        write_text(file, text)
        assert file.read_bytes() == text.encode()
        assert list(file.parent.iterdir()) == [file]


def test_a_text_that_cannot_be_written_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    write_text(file, "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(file, "new \ud800")  # half a pair of surrogates
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]
