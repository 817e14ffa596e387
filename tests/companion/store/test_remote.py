"""A remote copy of the store: what is whole is taken, what is not is refused with a message and computed here."""

import io
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sumexp.companion import CompanionError
from sumexp.companion.store import Computation, Store, default, remote
from sumexp.companion.store.remote import Remote

from .conftest import asked, keep

LARGE = os.urandom(6 << 20)
"""More than fsspec reads of a file at a time."""


@pytest.fixture(autouse=True)
def anew() -> None:
    """As in a process that has asked nobody."""
    remote._unreachable.clear()
    remote._barred.clear()


class Server(SimpleHTTPRequestHandler):
    """Serves a folder as any static host does, and breaks off where the path says so."""

    asked: list[str]
    cut: list[str]
    status: list[int]
    slow: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        with suppress(OSError):  # the other side has given up
            if self.slow == ["headers"]:
                self.trickle(b"HTTP/1.1 200 OK\r\n", b"X-Another: 0\r\n")
            elif self.slow == ["body"]:
                self.trickle(b"HTTP/1.1 200 OK\r\n\r\n", b"0")
            elif self.slow == ["endless"]:
                self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
                while True:
                    self.wfile.write(LARGE)
        if self.slow:
            return
        if self.status:
            self.send_error(self.status[0])
        else:
            super().do_GET()

    def trickle(self, first: bytes, again: bytes) -> None:
        self.wfile.write(first)
        for _ in range(200):
            self.wfile.write(again)
            time.sleep(0.05)
        raise ConnectionError

    def copyfile(self, source: io.BufferedReader, outputfile: io.BufferedIOBase) -> None:
        if self.cut:
            outputfile.write(source.read(100_000))
            self.connection.shutdown(socket.SHUT_RDWR)
        else:
            super().copyfile(source, outputfile)  # type: ignore[misc]

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[type[Server]]:
    class This(Server):
        asked, cut, status, slow, folder = [], [], [], [], tmp_path / "remote"

    This.folder.mkdir(exist_ok=True)
    http = ThreadingHTTPServer(("127.0.0.1", 0), partial(This, directory=str(This.folder)))  # type: ignore[arg-type]
    http.handle_error = lambda *_: None  # type: ignore[method-assign]
    threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()  # looks often for its end
    This.address = f"http://127.0.0.1:{http.server_address[1]}"  # type: ignore[attr-defined]
    yield This
    http.shutdown()
    http.server_close()


@pytest.fixture
def there(tmp_path: Path) -> Remote:
    """A folder to push to."""
    return Remote(str(tmp_path / "remote"))


def elsewhere(tmp_path: Path) -> Store:
    """The store of those who computed."""
    return Store(tmp_path / "theirs")


def archive(tmp_path: Path, computation: Computation) -> Path:
    return tmp_path / "remote" / computation.kind / computation.name / f"{computation.key}.tar"


def asking(store: Store, there: Remote) -> Store:
    return Store(store.root, there.fetch)


def test_an_entry_goes_there_and_comes_back(tmp_path: Path, store: Store, there: Remote) -> None:
    theirs = keep(elsewhere(tmp_path), asked(), LARGE)
    assert there.push(theirs)
    assert not there.push(theirs)
    ours = asking(store, there)
    assert ours.here(asked()) is None
    entry = ours.find(asked())
    assert entry is not None
    assert (entry.computation, entry.provenance) == (theirs.computation, theirs.provenance)
    assert (entry.path / "file.bin").read_bytes() == LARGE
    assert (entry.path / "folder/größe.txt").read_text("utf-8") == "text"
    assert entry.path == store.path(asked())
    assert list(entry.path.parent.iterdir()) == [entry.path]
    assert [path.name for path in archive(tmp_path, asked()).parent.iterdir()] == [f"{asked().key}.tar"]


def test_what_nobody_has_is_none_and_can_be_computed_under_the_lock(
    store: Store, there: Remote, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "remote").mkdir()
    ours = asking(store, there)
    with ours.locked(asked()):
        assert ours.find(asked()) is None
    assert keep(ours, asked()).computation == asked()
    assert caplog.text == ""


def test_what_another_process_computes_is_not_fetched(tmp_path: Path, store: Store) -> None:
    import filelock

    calls = []
    ours = Store(store.root, lambda computation, folder: bool(calls.append(computation)))
    (store.root / "locks").mkdir(parents=True)
    with filelock.FileLock(store.root / "locks" / f"{asked().key}.lock"):
        assert ours.find(asked()) is None
    assert calls == []
    assert ours.find(asked()) is None
    assert calls == [asked()]


def test_a_damaged_entry_here_is_fetched_anew(tmp_path: Path, store: Store, there: Remote) -> None:
    there.push(keep(elsewhere(tmp_path), asked()))
    entry = keep(store, asked())
    (entry.path / "file.bin").write_bytes(b"")
    found = asking(store, there).find(asked())
    assert found is not None
    assert (found.path / "file.bin").read_bytes() == b"content"


def test_over_http(tmp_path: Path, store: Store, there: Remote, server: type[Server]) -> None:
    """A plain server: it has no ranges, and knows of nothing but files."""
    there.push(keep(elsewhere(tmp_path), asked(), LARGE))
    ours = asking(store, Remote(server.address))  # type: ignore[attr-defined]
    entry = ours.find(asked())
    assert entry is not None
    assert (entry.path / "file.bin").read_bytes() == LARGE
    assert ours.find(asked(1)) is None
    assert len(server.asked) == 2


def test_a_transfer_that_breaks_off_is_no_entry_and_the_next_one_may_do(
    tmp_path: Path, store: Store, there: Remote, server: type[Server], caplog: pytest.LogCaptureFixture
) -> None:
    there.push(keep(elsewhere(tmp_path), asked(), LARGE))
    ours = asking(store, Remote(server.address))  # type: ignore[attr-defined]
    server.cut.append("all")
    assert ours.find(asked()) is None
    assert f"{asked().key}.tar cannot be had: " in caplog.text
    assert list(store.path(asked()).parent.glob("*")) == []
    server.cut.clear()
    assert ours.find(asked()) is not None


@pytest.mark.parametrize(
    "slow, said",
    [
        ("headers", "cannot be reached, and is not asked again: FSTimeoutError"),
        ("body", r"cannot be had: [0-9]+ bytes in 0 s are too few"),
        ("endless", "cannot be had: it goes on after 20,000,000 bytes"),
    ],
)
def test_what_does_not_end_is_given_up_and_leaves_nothing(
    store: Store,
    server: type[Server],
    slow: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(remote, "WINDOW", 0.3)
    monkeypatch.setattr(remote, "MOST", 20_000_000)
    server.slow.append(slow)
    began = time.monotonic()
    assert asking(store, Remote(server.address)).find(asked()) is None  # type: ignore[attr-defined]
    assert time.monotonic() - began < 5
    assert re.search(said, caplog.text)
    assert [path for path in store.root.rglob("*") if path.is_file()] == []


def test_no_lock_and_no_part_is_left(tmp_path: Path, store: Store, there: Remote) -> None:
    there.push(keep(elsewhere(tmp_path), asked()))
    store.path(asked()).parent.mkdir(parents=True)
    store.path(asked()).with_suffix(".tar.part").touch()  # by one that was killed
    assert asking(store, there).find(asked()) is not None
    assert {path.parts[-2] for path in store.root.rglob("*") if path.is_file()} == {asked().key, "folder"}


def _repack(path: Path, *members: tarfile.TarInfo, keep: bool = True) -> None:
    """Add members, without content, to an archive."""
    with tarfile.open(path, "a" if keep else "w") as tar:
        for member in members:
            tar.addfile(member)


def _member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut short": (lambda path: path.write_bytes(path.read_bytes()[:700]), "refused: unexpected end of data"),
    "emptied": (lambda path: path.write_bytes(b""), "refused: empty file"),
    "no archive": (lambda path: path.write_bytes(b"<html>" * 500), "refused: "),
    "a flipped bit": (
        lambda path: path.write_bytes(path.read_bytes().replace(b"content", b"c0ntent")),
        "is damaged: its files are not those that were written",
    ),
    "a file too many": (lambda path: _repack(path, _member("more")), "are not those that were written"),
    "nothing": (lambda path: _repack(path, keep=False), "is damaged: "),
    "out of the folder": (lambda path: _repack(path, _member("../../escaped")), "which is no plain file inside it"),
    "from the root": (lambda path: _repack(path, _member("/tmp/escaped")), "which is no plain file inside it"),
    "a link": (lambda path: _repack(path, _member("a", tarfile.SYMTYPE, "/etc")), "which is no plain file inside it"),
    "a hard link": (
        lambda path: _repack(path, _member("a", tarfile.LNKTYPE, "/etc/passwd")),
        "which is no plain file inside it",
    ),
    "a device": (lambda path: _repack(path, _member("a", tarfile.CHRTYPE)), "which is no plain file inside it"),
    "a pipe": (lambda path: _repack(path, _member("a", tarfile.FIFOTYPE)), "which is no plain file inside it"),
    "a link, then a file below it": (
        lambda path: _repack(path, _member("a", tarfile.SYMTYPE, "/tmp"), _member("a/escaped")),
        "which is no plain file inside it",
    ),
    "a file, then one below it": (lambda path: _repack(path, _member("a"), _member("a/b")), "cannot be had: "),
    "the folder itself": (lambda path: _repack(path, _member(".")), "cannot be had: "),
}


@pytest.mark.parametrize("damage, message", FAULTS.values(), ids=FAULTS)
def test_what_is_not_an_entry_is_refused_and_leaves_nothing(
    tmp_path: Path,
    store: Store,
    there: Remote,
    damage: Callable[[Path], object],
    message: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    there.push(keep(elsewhere(tmp_path), asked()))
    there.push(keep(elsewhere(tmp_path), asked(1)))
    damage(archive(tmp_path, asked()))
    ours = asking(store, there)
    assert ours.find(asked()) is None
    assert message in caplog.text
    assert f"{asked().key}.tar" in caplog.text
    assert "computed here" in caplog.text
    assert list(store.path(asked()).parent.glob("*")) == []
    assert not list(tmp_path.rglob("escaped")) + list(Path("/tmp").glob("escaped"))
    assert ours.find(asked(1)) is not None  # one that is refused says nothing of the others


def test_an_entry_in_anothers_place_is_refused(
    tmp_path: Path, store: Store, there: Remote, caplog: pytest.LogCaptureFixture
) -> None:
    there.push(keep(elsewhere(tmp_path), asked()))
    archive(tmp_path, asked()).rename(archive(tmp_path, asked(1)))
    assert asking(store, there).find(asked(1)) is None
    assert f"is foreign: it holds run some.task {asked().key}" in caplog.text


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:9/store", "http://no.such.host.invalid/store", "{tmp_path}/not mounted"]
)
def test_a_remote_that_does_not_answer_is_said_once(
    tmp_path: Path, store: Store, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    address = address.format(tmp_path=tmp_path)
    for number in range(60):
        assert asking(store, Remote(address)).find(asked(number)) is None  # each step asks for the store anew
    assert len(caplog.messages) == 1
    assert f"{address} cannot be reached, and is not asked again: " in caplog.messages[0]


@pytest.mark.parametrize("status, asked_times", [(403, 3), (503, 1)])
def test_what_a_server_refuses_is_said_once(
    store: Store, server: type[Server], status: int, asked_times: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A bucket that shows no lists forbids what it does not have: it is asked for the next entry all the same."""
    server.status.append(status)
    for number in range(3):
        assert asking(store, Remote(server.address)).find(asked(number)) is None  # type: ignore[attr-defined]
    assert len(server.asked) == asked_times
    assert len(caplog.messages) == 1
    assert str(status) in caplog.messages[0]


def test_what_can_only_be_read_says_so_when_pushed_to(tmp_path: Path, server: type[Server]) -> None:
    entry = keep(elsewhere(tmp_path), asked())
    there = Remote(server.address)  # type: ignore[attr-defined]
    with pytest.raises(CompanionError, match=rf"cannot write to {there.address}: such addresses can only be read"):
        there.push(entry)


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path: Path, there: Remote) -> None:
    entry = keep(elsewhere(tmp_path), asked())
    (tmp_path / "remote").touch()
    with pytest.raises(CompanionError, match=rf"cannot write {tmp_path}/remote/run/some.task/{asked().key}.tar: .*"):
        there.push(entry)


def test_a_full_remote_is_one_clear_error_and_has_no_half(tmp_path: Path) -> None:
    disk = tmp_path / "small"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        entry = keep(elsewhere(tmp_path), asked(), LARGE)
        with pytest.raises(CompanionError, match=r"cannot write .*: .*No space left"):
            Remote(str(disk)).push(entry)
        assert [path for path in disk.rglob("*") if path.is_file()] == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("address, fault", [("nosuch://x", "Protocol not known"), ("s3://bucket/x", "s3fs")])
def test_an_address_of_an_unknown_kind_is_named(address: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if fault == "s3fs":
        monkeypatch.setitem(__import__("sys").modules, "s3fs", None)
    monkeypatch.setenv("SUMEXP_REMOTE", address)
    with pytest.raises(CompanionError, match=rf"SUMEXP_REMOTE is '{address}': .*{fault}"):
        default()


def test_the_remote_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: Remote) -> None:
    there.push(keep(elsewhere(tmp_path), asked()))
    monkeypatch.setenv("SUMEXP_STORE", str(tmp_path / "ours"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUMEXP_REMOTE", "remote")
    assert default().find(asked()) is not None
    assert Remote("remote").address == f"file://{tmp_path}/remote"


def test_a_store_of_objects(tmp_path: Path, store: Store) -> None:
    """Where there are no folders, and renaming is copying."""
    there = Remote("memory://bucket/sumexp")
    theirs = keep(elsewhere(tmp_path), asked())
    assert (there.push(theirs), there.push(theirs)) == (True, False)
    assert asking(store, there).find(asked()) is not None
    assert asking(store, there).find(asked(1)) is None
    assert [path for path in there._files.find("/bucket") if not path.endswith(".tar")] == []
    there._files.rm("/bucket", recursive=True)


FETCHING = """
import os, sys, time
from pathlib import Path
from sumexp.companion.store import Computation, Store
from sumexp.companion.store.remote import Remote

store, there = Path(sys.argv[1]), Remote(sys.argv[2])


def fetch(computation, folder):
    with (store / "fetched").open("a") as log:
        log.write("once\\n")
    time.sleep(1)
    return there.fetch(computation, folder)


sys.exit(Store(store, fetch).find(Computation("run", "some.task", {"number": "0"})) is None)
"""


def test_two_that_fetch_at_once_both_have_it(store: Store, there: Remote, tmp_path: Path) -> None:
    there.push(keep(Store(tmp_path / "theirs"), asked()))
    store.root.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", FETCHING, str(store.root), str(tmp_path / "remote")]
    processes = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait(60) for process in processes] == [0, 0]
    assert (store.root / "fetched").read_text() == "once\n"


def test_who_looks_whether_a_run_is_computed_keeps_nobody_from_fetching_it(
    store: Store, there: Remote, tmp_path: Path
) -> None:
    there.push(keep(Store(tmp_path / "theirs"), asked()))
    ended = threading.Event()

    def look() -> None:
        while not ended.is_set():
            store.is_running(asked().key)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        for _ in range(50):
            assert asking(store, there).find(asked()) is not None
            shutil.rmtree(store.path(asked()))
    finally:
        ended.set()
        watcher.join()


def test_an_entry_is_replaced_where_it_is_pushed_anew(tmp_path: Path, store: Store, there: Remote) -> None:
    there.push(keep(elsewhere(tmp_path), asked()))
    assert there.push(keep(store, asked(), LARGE), anew=True)
    shutil.rmtree(store.path(asked()))
    entry = asking(store, there).find(asked())
    assert entry is not None
    assert (entry.path / "file.bin").read_bytes() == LARGE
