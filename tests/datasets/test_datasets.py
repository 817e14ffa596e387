"""Data sets: every fault has its message, and nothing is written where it should not be."""

import bz2
import gzip
import re
import subprocess
import sys
import tracemalloc
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, replace
from hashlib import sha1, sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module, resources
from io import StringIO
from pathlib import Path
from threading import Barrier, Thread
from time import monotonic, sleep

import grimp
import numpy as np
import platformdirs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sumexp import datasets
from sumexp.datasets import DataError, DataFile, Dataset, _download
from sumexp.datasets._command import elsewhere, main
from sumexp.datasets._declarations import check_members
from sumexp.datasets._download import download

CONTENT = bytes(range(256)) * 1000


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The user's cache folder, in the test's own place and with no root set."""
    for variable in ("SUMEXP_DATA", "SUMEXP_DECLARED_DATA"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user cache"))
    return tmp_path / "user cache" / "sumexp"


@pytest.fixture(scope="module")
def brown() -> datasets.Corpus:
    """The corpus itself, found as anyone would find it (before `cache` hides where)."""
    if not datasets.available("brown"):
        pytest.skip("the Brown corpus is not here; to download it, run: sumexp data fetch brown")
    return datasets.brown()


@pytest.fixture(scope="module")
def delicious() -> datasets.MultiLabel:
    """The data set itself, found as anyone would find it."""
    if not datasets.available("delicious"):
        pytest.skip("Delicious is not here; to download it, run: sumexp data fetch delicious")
    return datasets.delicious()


class Server(ThreadingHTTPServer):
    """Serves ``body``, by byte ranges unless told otherwise; stops after ``cut`` bytes if that is set.

    Of names in ``gone`` it has nothing; ``together`` so many requests it awaits before it answers one. With ``endless``
    it sends that again and again, every ``pause`` seconds, and never says how much there is.
    """

    daemon_threads = True
    body = CONTENT
    cut: int | None = None
    status = 200
    ranges = True
    gone: tuple[str, ...] = ()
    together = Barrier(1)
    endless = b""
    pause = 0.0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.starts: list[int] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/tiny.bin"


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server = self.server
        wanted = self.headers.get("Range") if server.ranges else None
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
        server.starts.append(start)
        server.together.wait(timeout=60)
        if server.status != 200 or self.path.strip("/") in server.gone:
            self.send_error(404 if server.status == 200 else server.status)
            return
        if start >= len(server.body) and wanted:
            self.send_error(416)
            return
        self.send_response(206 if wanted else 200)
        if server.endless:
            self.end_headers()
            with suppress(OSError):  # until the other side hangs up
                while server.endless:
                    self.wfile.write(server.endless)
                    sleep(server.pause)
        self.send_header("Content-Length", str(len(server.body) - start))
        self.end_headers()
        self.wfile.write(server.body[start : server.cut])

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def tiny(server: Server, monkeypatch: pytest.MonkeyPatch) -> DataFile:
    """The one file of a data set ``tiny`` that the server has."""
    file = DataFile("tiny/tiny.bin", server.url, sha256(CONTENT).hexdigest(), len(CONTENT))
    register(monkeypatch, file)
    return file


def register(monkeypatch: pytest.MonkeyPatch, file: DataFile) -> None:
    monkeypatch.setattr(datasets, "DATASETS", {"tiny": Dataset("tiny", "bytes", "none", "nobody", (file,))})


def put(root: Path, content: bytes = CONTENT) -> Path:
    path = root / "tiny/tiny.bin"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return path


@contextmanager
def untouched(folder: Path) -> Iterator[None]:
    """Nothing below ``folder`` is written, renamed or made."""

    def state() -> dict[Path, tuple[int, int]]:
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in [folder, *folder.rglob("*")]}

    before = state()
    yield
    assert state() == before


# Where the files are looked for


def test_root_is_the_argument_else_the_variable_else_the_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path
) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "c").mkdir()
    assert datasets.root() == cache
    monkeypatch.setenv("SUMEXP_DATA", str(tmp_path / "a b"))
    assert datasets.root() == tmp_path / "a b"
    assert datasets.root(tmp_path / "c") == tmp_path / "c"
    monkeypatch.setenv("SUMEXP_DATA", "")
    assert datasets.root() == cache


def test_a_root_that_is_no_folder_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"--data names .*nowhere, which is not a folder"):
        datasets.root(tmp_path / "nowhere")
    monkeypatch.setenv("SUMEXP_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"SUMEXP_DATA names .*nowhere, which is not a folder"):
        datasets.root()


@pytest.mark.usefixtures("tiny")
def test_a_root_that_lacks_a_set_falls_back_and_no_other_folder_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path
) -> None:
    assert not datasets.available("tiny")
    with pytest.raises(DataError, match=r"'tiny' lacks tiny/tiny.bin; .* sumexp data fetch tiny"):
        datasets.files("tiny")
    put(cache)
    assert datasets.available("tiny")
    (tmp_path / "set").mkdir()
    monkeypatch.setenv("SUMEXP_DATA", str(tmp_path / "set"))
    assert not datasets.available("tiny")
    for look in (datasets.files, datasets.verify):
        with pytest.raises(DataError, match=r"'tiny' lacks tiny/tiny.bin; .* sumexp data fetch tiny"):
            look("tiny")


def test_only_declared_data_may_be_read(monkeypatch: pytest.MonkeyPatch, tiny: DataFile, cache: Path) -> None:
    path = put(cache)
    monkeypatch.setenv("SUMEXP_DECLARED_DATA", "brown,tiny")
    assert datasets.files("tiny") == [path]
    for declared in ("brown", ""):
        monkeypatch.setenv("SUMEXP_DECLARED_DATA", declared)
        for look in (datasets.available, datasets.files):
            with pytest.raises(DataError, match=r"'tiny' is read but not declared \(declared: (brown|none)\)"):
                look("tiny")


def test_digits_need_neither_file_nor_declaration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SUMEXP_DECLARED_DATA", "")
    assert datasets.available("digits")
    assert datasets.files("digits") == []
    digits = datasets.digits()
    assert digits.images.shape == (1797, 64)
    assert (digits.images.min(), digits.images.max()) == (0, 1)
    assert np.bincount(digits.labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_an_unknown_name_lists_the_known_ones() -> None:
    for function in (datasets.available, datasets.files, datasets.verify, datasets.fetch):
        with pytest.raises(DataError, match="no data set 'brwon'; there are brown, delicious, digits"):
            function("brwon")


# Download


def test_fetch_downloads_once(server: Server, tiny: DataFile, cache: Path, capfd: pytest.CaptureFixture[str]) -> None:
    [path] = datasets.fetch("tiny")
    assert path == cache / tiny.path
    assert path.read_bytes() == CONTENT
    assert "100%" in capfd.readouterr().err  # the progress bar
    with untouched(cache):
        assert datasets.fetch("tiny") == [path]
    assert server.starts == [0]
    assert datasets.available("tiny")


def test_the_progress_bar_says_what_comes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = {tmp_path / name: DataFile(name, "http://127.0.0.1/") for name in ("a.txt", "b.txt")}  # so none is sent
    for path in there:
        path.touch()
    one = dict([*there.items()][:1])
    for files, said in ((one, "a.txt: "), (there, "2 files: ")):
        assert download(files) == {}
        assert capsys.readouterr().err.strip().startswith(said)


def test_a_cut_transfer_is_an_error_and_the_next_fetch_continues_it(
    server: Server, tiny: DataFile, cache: Path
) -> None:
    server.cut = 100_000
    with pytest.raises(DataError, match=rf"could not download {server.url} .*sumexp data fetch tiny"):
        datasets.fetch("tiny")
    assert not datasets.available("tiny")
    server.cut = None
    [path] = datasets.fetch("tiny")
    assert path.read_bytes() == CONTENT
    assert server.starts[0] == 0
    assert 0 < server.starts[1] <= 100_000
    assert not list(cache.rglob("*.part"))


def test_a_server_without_byte_ranges_is_asked_from_the_start(server: Server, tiny: DataFile) -> None:
    server.cut = 100_000
    with pytest.raises(DataError, match="could not download"):
        datasets.fetch("tiny")
    server.cut, server.ranges = None, False
    [path] = datasets.fetch("tiny")
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize("left", [CONTENT, CONTENT + b"x", b"", b"y"])
def test_whatever_an_earlier_call_left_a_later_one_succeeds(tiny: DataFile, cache: Path, left: bytes) -> None:
    part = cache / (tiny.path + ".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(left)
    with suppress(DataError):  # a wrong part is found out when it is whole
        datasets.fetch("tiny")
    [path] = datasets.fetch("tiny")
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize("body", [CONTENT[::-1], CONTENT[:-1], CONTENT + b"x", b""])
def test_wrong_bytes_are_not_kept(server: Server, tiny: DataFile, cache: Path, body: bytes) -> None:
    server.body = body
    with pytest.raises(DataError, match=rf"{server.url} did not send the expected file"):
        datasets.fetch("tiny")
    assert not datasets.available("tiny")
    server.body = CONTENT
    datasets.fetch("tiny")


@pytest.mark.parametrize("size", [len(CONTENT), 0], ids=["declared", "not declared"])
def test_what_does_not_end_is_stopped(
    server: Server, tiny: DataFile, cache: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    register(monkeypatch, replace(tiny, size=size))
    monkeypatch.setattr(_download, "MOST", 2 * len(CONTENT))
    server.endless = bytes(1 << 16)
    sizes: dict[str, int] = {}
    unlink = Path.unlink

    def sized(path: Path, missing_ok: bool = False) -> None:
        sizes[path.name] = path.stat().st_size
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", sized)
    with pytest.raises(DataError, match=rf"did not send .*: it goes on after {size or 2 * len(CONTENT):,} bytes"):
        datasets.fetch("tiny")
    assert 0 < sizes["tiny.bin.part"] <= (size or 2 * len(CONTENT))
    assert left_in(cache) == []


def test_what_comes_too_slowly_is_given_up_and_continued(
    server: Server, tiny: DataFile, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_download, "WINDOW", 0.4)
    server.endless, server.pause = CONTENT[:1], 0.02  # never silent
    begin = monotonic()
    with pytest.raises(
        DataError, match=r"could not download .*: \d+ bytes in \d+ seconds are too few to wait .*fetch tiny"
    ):
        datasets.fetch("tiny")
    assert monotonic() - begin < 20  # without a least rate: 256,000 bytes, over an hour
    assert [path.name for path in left_in(cache)] == ["tiny.bin.part"]
    part = cache / (tiny.path + ".part")
    part.write_bytes(CONTENT[: part.stat().st_size])
    server.endless = b""
    [path] = datasets.fetch("tiny")
    assert path.read_bytes() == CONTENT
    assert server.starts[1] > 0


@pytest.mark.parametrize("status", [429, 500, 503])
def test_an_error_of_the_server_keeps_the_part(server: Server, tiny: DataFile, cache: Path, status: int) -> None:
    server.cut = 100_000
    with pytest.raises(DataError, match="could not download"):
        datasets.fetch("tiny")
    part = cache / (tiny.path + ".part")
    before = part.read_bytes()
    server.cut, server.status = None, status
    with pytest.raises(DataError, match=rf"could not download .* {status}"):
        datasets.fetch("tiny")
    assert before
    assert part.read_bytes() == before
    server.status = 200
    datasets.fetch("tiny")
    assert server.starts[-1] == len(before)


def test_no_lock_and_no_empty_part_is_left(server: Server, tiny: DataFile, cache: Path) -> None:
    server.status = 404
    with pytest.raises(DataError, match="404"):
        datasets.fetch("tiny")
    assert left_in(cache) == []
    server.status = 200
    [path] = datasets.fetch("tiny")
    assert left_in(cache) == [path]


def left_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_no_such_page(server: Server, tiny: DataFile) -> None:
    server.status = 404
    with pytest.raises(DataError, match=r"could not download .* 404"):
        datasets.fetch("tiny")


def test_no_network(server: Server, tiny: DataFile, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    server.shutdown()
    server.server_close()
    with pytest.raises(DataError, match=r"could not download http://127.0.0.1:.* sumexp data fetch tiny"):
        datasets.fetch("tiny")
    assert not datasets.available("tiny")


def test_a_root_that_cannot_be_written(tiny: DataFile, tmp_path: Path) -> None:
    (tmp_path / "tiny").write_text("a file where the folder should be")
    with pytest.raises(DataError, match=r"could not download .*tiny.bin: .*exists"):
        datasets.fetch("tiny", tmp_path)


@pytest.mark.usefixtures("tiny")
def test_a_root_that_holds_the_files_is_never_written_to(server: Server, tmp_path: Path) -> None:
    path = put(tmp_path / "read only")
    path.chmod(0o400)
    path.parent.chmod(0o500)
    with untouched(tmp_path):
        assert datasets.fetch("tiny", tmp_path / "read only") == [path]
        assert datasets.verify("tiny", tmp_path / "read only") == [path]
        assert datasets.files("tiny", tmp_path / "read only") == [path]
    assert server.starts == []
    path.parent.chmod(0o700)


@pytest.mark.parametrize(
    "content, fault",
    [
        (CONTENT[:-1], "has 255,999 bytes where 256,000 are expected"),
        (CONTENT[::-1], "has SHA-256 .* where .* is expected"),
        (b"", "has 0 bytes where 256,000 are expected"),
    ],
)
def test_a_damaged_file_is_named_and_left(tiny: DataFile, tmp_path: Path, content: bytes, fault: str) -> None:
    put(tmp_path, content)
    with untouched(tmp_path):
        for function in (datasets.files, datasets.verify, datasets.fetch):
            with pytest.raises(DataError, match=rf"tiny.bin {fault}.*; delete it, then run: sumexp data fetch tiny"):
                function("tiny", tmp_path)


FOLDERS = {"delicious": "mulan", "bibtex": "mulan", "cifar-100-small": "cifar100", "cifar-100-lt": "cifar100"}
"""Where data sets lie together, or under another name than their own."""


def test_every_registered_file_is_pinned() -> None:
    for name, dataset in datasets.DATASETS.items():
        assert name == dataset.name
        for file in dataset.files:
            assert file.url.startswith("https://") or (not file.url and file.sha256)
            assert {len(bytes.fromhex(file.sha256)), len(bytes.fromhex(file.blob))} in ({32, 0}, {0, 20})
            assert bool(file.sha256) == bool(file.size)
            assert Path(file.path).parts[0] == FOLDERS.get(name, name)


# A file that may lie packed, and a file of which only git's id is known


@pytest.fixture
def text(tiny: DataFile, monkeypatch: pytest.MonkeyPatch) -> DataFile:
    """The file of ``tiny``, which may also lie gzipped."""
    file = replace(tiny, packed=True)
    register(monkeypatch, file)
    return file


@pytest.mark.parametrize("level", [1, 9])
def test_a_packed_file_is_known_by_its_content(text: DataFile, tmp_path: Path, level: int) -> None:
    path = put(tmp_path, gzip.compress(CONTENT, level)).rename(tmp_path / f"{text.path}.gz")
    with untouched(tmp_path):
        assert datasets.available("tiny", tmp_path)
        assert datasets.files("tiny", tmp_path) == datasets.fetch("tiny", tmp_path) == [path]
    plain = tmp_path / text.path
    plain.write_bytes(CONTENT)
    assert datasets.files("tiny", tmp_path) == [plain]


def test_only_a_file_declared_so_may_lie_packed(tiny: DataFile, tmp_path: Path) -> None:
    put(tmp_path, gzip.compress(CONTENT)).rename(tmp_path / f"{tiny.path}.gz")
    with pytest.raises(DataError, match=r"'tiny' lacks tiny/tiny.bin"):
        datasets.files("tiny", tmp_path)


@pytest.mark.parametrize(
    "packed, fault",
    [
        (gzip.compress(CONTENT)[:-1], "is not a whole gzip file: .*end-of-stream"),
        (gzip.compress(CONTENT)[:200], "is not a whole gzip file"),
        (gzip.compress(CONTENT) + b"more", "is not a whole gzip file: Not a gzipped file"),
        (CONTENT, "is not a whole gzip file: Not a gzipped file"),
        (gzip.compress(CONTENT[:-1]), "has 255,999 bytes where 256,000 are expected"),
        (gzip.compress(CONTENT[::-1]), "has SHA-256 .* where .* is expected"),
    ],
)
def test_a_damaged_packed_file_is_named_and_left(text: DataFile, tmp_path: Path, packed: bytes, fault: str) -> None:
    put(tmp_path, packed).rename(tmp_path / f"{text.path}.gz")
    with untouched(tmp_path):
        for function in (datasets.files, datasets.verify, datasets.fetch):
            with pytest.raises(DataError, match=rf"tiny.bin.gz {fault}.*; delete it, then run: sumexp data fetch tiny"):
                function("tiny", tmp_path)


@pytest.fixture
def blob(tiny: DataFile, monkeypatch: pytest.MonkeyPatch) -> DataFile:
    """The file of ``tiny``, of which only git's id is known (as `git hash-object` prints it for CONTENT)."""
    file = replace(tiny, sha256="", size=0, blob="ed99543dba99b885850a5e5a6bf95545aaa9754c")
    register(monkeypatch, file)
    return file


def test_a_file_known_by_its_git_id(server: Server, blob: DataFile, tmp_path: Path) -> None:
    assert sha1(b"blob 256000\0" + CONTENT).hexdigest() == blob.blob  # git's definition, beside its program's answer
    server.cut = 100_000
    with pytest.raises(DataError, match="could not download"):
        datasets.fetch("tiny", tmp_path)
    server.cut = None
    [path] = datasets.fetch("tiny", tmp_path)
    assert path.read_bytes() == CONTENT
    assert 0 < server.starts[1] <= 100_000
    path.write_bytes(CONTENT[:-1])
    with pytest.raises(DataError, match=rf"tiny.bin has git id [0-9a-f]{{40}} where {blob.blob} is expected"):
        datasets.files("tiny", tmp_path)


@pytest.mark.usefixtures("blob")
@pytest.mark.parametrize("left", [CONTENT + b"x", b"y"])
def test_whatever_was_left_of_a_file_of_unknown_size_a_later_call_succeeds(tmp_path: Path, left: bytes) -> None:
    put(tmp_path, left).rename(tmp_path / "tiny/tiny.bin.part")
    with pytest.raises(DataError, match="git id"):  # found out when the server is asked for the rest
        datasets.fetch("tiny", tmp_path)
    assert not list(tmp_path.rglob("tiny.bin"))
    [path] = datasets.fetch("tiny", tmp_path)
    assert path.read_bytes() == CONTENT


@pytest.mark.usefixtures("blob")
def test_a_part_of_unknown_size_that_is_whole_is_taken(tmp_path: Path) -> None:
    put(tmp_path).rename(tmp_path / "tiny/tiny.bin.part")
    [path] = datasets.fetch("tiny", tmp_path)
    assert path.read_bytes() == CONTENT
    assert left_in(tmp_path) == [path]


@pytest.mark.usefixtures("blob")
def test_wrong_bytes_of_unknown_size_are_not_kept(server: Server, tmp_path: Path) -> None:
    server.body = CONTENT[::-1]
    with pytest.raises(DataError, match=r"did not send the expected file: .* has git id .*; nothing was kept"):
        datasets.fetch("tiny", tmp_path)
    assert not list(tmp_path.rglob("tiny.bin"))


# The command line


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it printed."""

    code: object
    stdout: str
    stderr: str


def command(*arguments: str) -> Done:
    """Run ``sumexp data``."""
    code: object = 0
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        try:
            main(arguments)
        except SystemExit as ended:
            code = ended.code
    return Done(code, out.getvalue(), err.getvalue())


def test_the_size_of_a_file_known_by_its_git_id(blob: DataFile, tmp_path: Path) -> None:
    listed = command("list", "--data", str(tmp_path)).stdout
    assert f"size:    not known before it is fetched\n  file:    {tmp_path / blob.path}" in listed


def test_commands(server: Server, tiny: DataFile, tmp_path: Path) -> None:
    def run(*arguments: str) -> Done:
        return command(*arguments, "--data", str(tmp_path))

    path = tmp_path / tiny.path
    listed = run("list").stdout
    for text in ("tiny: bytes", "licence: none", "cite:    nobody", "size:    0.3 MB", str(path), server.url):
        assert text in listed
    assert f"sha256:  {tiny.sha256}\n" in listed
    assert "present: no; run: sumexp data fetch tiny" in listed
    nothing = f"{tmp_path} holds no data set; to download one, run: sumexp data fetch NAME\n"
    assert run("verify") == Done(0, nothing, "")
    assert run("verify", "tiny").code == 1
    assert f"tiny: {path} is verified" in run("fetch", "tiny").stdout
    assert run("verify") == run("verify", "tiny") == Done(0, f"tiny: {path} is verified\n", "")
    assert "present: yes" in run("list").stdout
    path.write_bytes(CONTENT[:-1])
    assert run("verify").stderr.startswith("error: ")


def test_every_data_set_is_listed_with_all_that_is_to_be_known_of_it(tmp_path: Path) -> None:
    listed = command("list", "--data", str(tmp_path)).stdout
    blocks = {block.partition(":")[0]: block.splitlines() for block in listed.split("\n\n")[1:]}
    assert [*blocks] == [*datasets.DATASETS, *elsewhere()]
    for name, dataset in datasets.DATASETS.items():
        lines = {}
        for line in blocks[name][1:]:
            what, _, text = line.strip().partition(":")
            lines.setdefault(what, []).append(text.strip())
        assert all(one for texts in lines.values() for one in texts), name
        assert (lines["licence"], lines["cite"]) == ([dataset.licence], [dataset.citation])
        assert len(lines["size"]) == len(lines["present"]) == 1
        known = [*lines.get("sha256", []), *lines.get("git id", [])]
        assert sorted(known) == sorted(file.sha256 or file.blob for file in dataset.files)
        assert lines.get("source", []) == [file.url or "no public address" for file in dataset.files]


def test_what_is_published_elsewhere_is_listed_and_not_fetched(tmp_path: Path) -> None:
    listed = command("list", "--data", str(tmp_path)).stdout
    assert not elsewhere().keys() & datasets.DATASETS.keys()
    for name, said in elsewhere().items():
        block = next(one for one in listed.split("\n\n") if one.startswith(name))
        for what in ("description", "licence", "citation", "size", "source", "read"):
            assert said[what] in block
        assert ", ".join(said["files"]) in block
        error = command("fetch", name, "--data", str(tmp_path)).stderr
        assert re.search(rf"{name}' is not fetched, since no checksum .*; get {said['files'][0]} and", error)
    assert not list(tmp_path.iterdir())


# Several at once


@pytest.fixture
def three(server: Server, monkeypatch: pytest.MonkeyPatch) -> list[DataFile]:
    """Data sets ``a``, ``b`` and ``c`` of one file each, and ``d``, which needs none."""
    names = ("a", "b", "c")
    address = server.url.rpartition("/")[0]
    files = [DataFile(f"{n}/{n}.bin", f"{address}/{n}.bin", sha256(CONTENT).hexdigest(), len(CONTENT)) for n in names]
    sets = {name: Dataset(name, name, "none", "nobody", (file,)) for name, file in zip(names, files, strict=True)}
    monkeypatch.setattr(datasets, "DATASETS", sets | {"d": Dataset("d", "d", "none", "nobody")})
    return files


def test_several_are_fetched_side_by_side_with_one_bar(
    server: Server, three: list[DataFile], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    server.together = Barrier(3)  # one by one, the first would wait for the others in vain
    fetched = datasets.fetch_all(["a", "b", "c", "d"], tmp_path)
    assert fetched == {file.path[0]: [tmp_path / file.path] for file in three} | {"d": []}
    assert all((tmp_path / file.path).read_bytes() == CONTENT for file in three)
    shown = capfd.readouterr().err
    assert "3 files: 100%" in shown
    assert shown.count("\n") == 1


def test_one_that_fails_stops_no_other(server: Server, three: list[DataFile], tmp_path: Path) -> None:
    server.gone = ("b.bin",)
    result = command("fetch", "a", "b", "c", "--data", str(tmp_path))
    assert result.code == 1
    assert [line.split(":")[0] for line in result.stdout.splitlines()] == ["a", "c"]
    [line] = [line for line in result.stderr.splitlines() if line.startswith("error")]
    assert re.match(r"error: could not download http.*/b.bin to .* 404 .*run: sumexp data fetch b$", line)
    assert sorted(path.name for path in tmp_path.rglob("*.bin")) == ["a.bin", "c.bin"]


@pytest.mark.usefixtures("three")
def test_all(server: Server, tmp_path: Path) -> None:
    result = command("fetch", "all", "--data", str(tmp_path))
    assert result.code == 0
    assert sorted(path.name for path in tmp_path.rglob("*.bin")) == ["a.bin", "b.bin", "c.bin"]
    assert "d:" not in result.stdout
    assert len(server.starts) == 3
    command("fetch", "all", "--data", str(tmp_path))
    assert len(server.starts) == 3


def test_what_has_no_public_address_is_not_fetched(server: Server, three: list[DataFile], tmp_path: Path) -> None:
    made = Dataset("made", "made of a", "none", "nobody", (replace(three[0], path="made/a.bin", url=""),))
    assert isinstance(datasets.DATASETS, dict)
    datasets.DATASETS["made"] = made
    result = command("fetch", "b", "made", "--data", str(tmp_path))
    assert result.stderr.startswith("error: data set 'made' has no public address (made of a); put its files where")
    assert server.starts == []
    listed = command("list", "--data", str(tmp_path)).stdout
    (block,) = [block for block in listed.split("\n\n") if block.startswith("made:")]
    assert "source:  no public address\n" in block
    assert "present: no; put them there" in block
    assert command("fetch", "all", "--data", str(tmp_path)).code == 0
    put(tmp_path).rename(tmp_path / "a.bin")
    (tmp_path / "made").mkdir()
    (tmp_path / "a.bin").rename(tmp_path / "made/a.bin")
    assert "made: " in command("fetch", "made", "--data", str(tmp_path)).stdout


@pytest.mark.usefixtures("three")
def test_nothing_is_fetched_if_a_name_is_unknown(server: Server, tmp_path: Path) -> None:
    result = command("fetch", "a", "e", "--data", str(tmp_path))
    assert result.stderr == "error: no data set 'e'; there are a, b, c, d\n"
    assert server.starts == []


@pytest.mark.usefixtures("three")
def test_wrong_bytes_among_right_ones(server: Server, three: list[DataFile], tmp_path: Path) -> None:
    server.body = CONTENT[::-1]
    put(tmp_path).rename(tmp_path / "a.bin")
    (tmp_path / "a").mkdir()
    (tmp_path / "a.bin").rename(tmp_path / three[0].path)
    found = datasets.fetch_all(["a", "b"], tmp_path)
    assert found["a"] == [tmp_path / three[0].path]
    assert "did not send the expected file" in str(found["b"])
    assert not list(tmp_path.rglob("*.part"))


# The catalogue


def test_a_catalogue() -> None:
    text = """
    [tiny]
    description = "Tiny: bytes"
    licence = "none"
    citation = "nobody"
    kind = "text"
    reader = "texts.read_brown"

    [[tiny.files]]
    path = "tiny/tiny.bin"
    url = "https://example.org/tiny.bin"
    sha256 = "00"
    size = 1_000
    """
    file = DataFile("tiny/tiny.bin", "https://example.org/tiny.bin", "00", 1000)
    [(name, found)] = datasets.catalogue(text).items()
    assert found == Dataset(name, "Tiny: bytes", "none", "nobody", (file,), kind="text", reader="texts.read_brown")
    assert found.title == "Tiny"
    for wrong in (text.replace("licence", "license"), text.replace("url", "address")):
        with pytest.raises(TypeError, match=r"license|address"):
            datasets.catalogue(wrong)


def test_every_data_set_names_its_kind_its_reader_and_what_stands_in_for_it() -> None:
    for name, dataset in datasets.DATASETS.items():
        module, function = dataset.reader.split(".")
        assert callable(getattr(import_module(f"sumexp.datasets.{module}"), function)), name
        assert dataset.kind in ("text", "images", "tags", "classes", "pairs")
        assert not dataset.instead or not datasets.DATASETS[dataset.instead].files


def test_the_code_of_every_reader_counts_for_what_reads_the_data() -> None:
    """A run's key has the code that its module imports, so a reader must be imported where data are read, not found
    by its name alone."""
    code = grimp.build_graph("sumexp", exclude_type_checking_imports=True, cache_dir=None)
    for dataset in datasets.DATASETS.values():
        module = f"sumexp.datasets.{dataset.reader.partition('.')[0]}"
        importers = code.find_modules_that_directly_import(module)
        assert any(not name.startswith("sumexp.datasets.") for name in importers), module


def test_a_new_entry_is_no_change_of_code() -> None:
    """The catalogue is no module."""
    code = grimp.build_graph("sumexp", cache_dir=None)
    assert "sumexp.datasets.catalogue" not in code.modules
    assert resources.files("sumexp.datasets").joinpath("catalogue.toml").is_file()


def test_it_is_quick_to_ask_which_data_are_there() -> None:
    """What loads data or draws a bar is imported by what loads and draws."""
    code = "import sys, sumexp.datasets as d; [d.available(n) for n in d.DATASETS]; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"torch", "scipy", "sklearn", "pandas", "requests", "pooch", "tqdm", "rich", "typer", "matplotlib"}
    assert "numpy" in loaded
    assert not heavy & set(loaded)


@pytest.mark.parametrize("home", ["", "/somewhere/else", " "])
def test_the_users_cache_is_where_the_system_has_it(monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", home)
    assert str(datasets.user_cache()) == platformdirs.user_cache_dir("sumexp")


# Brown


def brown_zip(path: Path, members: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as zipped:
        for name, text in members.items():
            zipped.writestr(name, text)
    return path


def test_brown_by_hand(tmp_path: Path) -> None:
    corpus = datasets.read_brown(
        brown_zip(
            tmp_path / "b.zip",
            {
                "brown/cats.txt": "ca01 news\ncr01 humor\n",
                "brown/ca01": "\n\n\tThe/at dog/nn saw/vbd the/at 1/2/cd ./.\n",
                "brown/cr01": "\tDOG/nn ././.\n",
                "brown/README": "not a text",
                "../outside": "never/extracted",
            },
        )
    )
    assert corpus.words == ("dog", "the", ".", "./.", "1/2", "saw")  # by count, then by the alphabet
    assert [corpus.words[i] for i in corpus.tokens] == ["the", "dog", "saw", "the", "1/2", ".", "dog", "./."]
    assert corpus.starts.tolist() == [0, 6, 8]
    assert corpus.documents == ("ca01", "cr01")
    assert corpus.categories == ("news", "humor")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["b.zip"]


@given(
    st.lists(
        st.lists(st.tuples(st.from_regex(r"[a-z/.]{1,4}", fullmatch=True), st.sampled_from(["nn", "."]))),
        min_size=1,
        max_size=4,
    )
)
def test_brown_round_trip(tmp_path_factory: pytest.TempPathFactory, texts: list[list[tuple[str, str]]]) -> None:
    names = [f"ca{i:02}" for i in range(len(texts))]
    members = {name: " ".join("/".join(pair) for pair in text) for name, text in zip(names, texts, strict=True)}
    path = brown_zip(
        tmp_path_factory.getbasetemp() / "brown.zip",
        members | {"cats.txt": "\n".join(f"{name} news" for name in names)},
    )
    corpus = datasets.read_brown(path)
    for text, start, stop in zip(texts, corpus.starts[:-1], corpus.starts[1:], strict=True):
        assert [corpus.words[i] for i in corpus.tokens[start:stop]] == [word for word, _ in text]
    counts = np.bincount(corpus.tokens, minlength=len(corpus.words))
    assert (np.diff(counts) <= 0).all()


def test_a_zip_that_unpacks_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_members, "__defaults__", (1 << 20,))
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("cats.txt", bytes(1 << 25))
    with held(1 << 20), pytest.raises(DataError, match=r"a.zip unpacks to 33,554,432 bytes; no such archive has more"):
        datasets.read_brown(tmp_path / "a.zip")


def test_a_gzip_file_that_unpacks_to_too_much(tmp_path: Path, text: DataFile) -> None:
    put(tmp_path, gzip.compress(bytes(1 << 26), 1)).rename(tmp_path / f"{text.path}.gz")
    with held(10_000_000), pytest.raises(DataError, match=r"gz unpacks to more than 256,000 bytes"):
        datasets.files("tiny", tmp_path)


@contextmanager
def held(most: int) -> Iterator[None]:
    """Fail if Python holds so many bytes more at any moment."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "members, fault",
    [
        ({"ca01": "the/at"}, "has no cats.txt"),
        ({"cats.txt": "ca01 news\nca02 news", "ca01": "the/at"}, "lacks the document ca02"),
        ({"cats.txt": "ca01 news", "ca01": "the/at dog"}, "document ca01 has the token 'dog', which is not word/tag"),
        ({"cats.txt": "ca01 news", "ca01": "/at"}, "document ca01 has the token '/at'"),
        ({"cats.txt": "ca01 news", "ca01": "caf\u00e9/nn"}, "ca01 is not ASCII"),
        (
            {"cats.txt": "ca01", "ca01": "the/at"},
            "cats.txt has the line 'ca01', which is not a document and its category",
        ),
    ],
)
def test_a_zip_that_is_not_brown(tmp_path: Path, members: dict[str, str], fault: str) -> None:
    with pytest.raises(DataError, match=rf"b.zip.*{fault}"):
        datasets.read_brown(brown_zip(tmp_path / "b.zip", members))


def test_not_a_zip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "b.zip").write_bytes(b"<html>not found</html>")
    with pytest.raises(DataError, match=r"b.zip is not a readable zip archive"):
        datasets.read_brown(tmp_path / "b.zip")
    whole = brown_zip(tmp_path / "c.zip", {"cats.txt": "ca01 news", "ca01": "the/at " * 1000}).read_bytes()
    (tmp_path / "c.zip").write_bytes(whole.replace(b"the/at the/at", b"the/at thy/at", 1))
    with pytest.raises(DataError, match=r"c.zip is not a readable zip archive: Bad CRC-32"):
        datasets.read_brown(tmp_path / "c.zip")


def test_brown_itself(brown: datasets.Corpus) -> None:
    counts = np.bincount(brown.tokens)
    assert brown.tokens.shape == (1_161_192,)
    assert counts.shape == (49_815,) == (len(brown.words),)
    assert counts.min() == 1
    assert len(brown.documents) == len(brown.categories) == 500
    assert len(set(brown.categories)) == 15
    assert (brown.words[0], counts[0]) == ("the", 69_971)
    assert [brown.words[i] for i in brown.tokens[:4]] == ["the", "fulton", "county", "grand"]


def test_brown_is_checked_before_it_is_read(tmp_path: Path) -> None:
    file = datasets.DATASETS["brown"].files[0]
    (tmp_path / "brown").mkdir()
    (tmp_path / file.path).write_bytes(b"x" * file.size)
    with pytest.raises(DataError, match=rf"has SHA-256 .* where {file.sha256} is expected"):
        datasets.brown(tmp_path)


# Shakespeare, and any running text


def test_shakespeare_by_another_count() -> None:
    """Words and counts by a pattern's runs and by cutting at every other mark; the text as its publisher has it."""
    text = bz2.decompress(resources.files("sumexp.datasets").joinpath("shakespeare.txt.bz2").read_bytes())
    assert (len(text), text.count(b"\n")) == (1_115_394, 40_000)
    words = "".join(c if c.isalpha() or c == "'" else " " for c in text.decode().lower()).split()
    corpus = datasets.shakespeare()
    assert [corpus.words[i] for i in corpus.tokens] == words
    assert (len(words), len(corpus.words)) == (204_062, 12_631)
    counts = np.bincount(corpus.tokens)
    assert counts.tolist() == sorted(Counter(words).values(), reverse=True)
    assert (counts == 1).sum() == 5_704
    assert len(corpus.documents) == len(corpus.categories) == len(corpus.starts) - 1 == 100
    assert (corpus.starts[0], corpus.starts[-1], corpus.documents[99]) == (0, 204_062, "lines 39601-40000")


def test_shakespeare_is_there_without_data_or_declaration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SUMEXP_DATA", str(tmp_path))
    monkeypatch.setenv("SUMEXP_DECLARED_DATA", "")
    assert datasets.available("shakespeare")
    assert datasets.corpus("shakespeare").words[:3] == ("the", "and", "to")


@pytest.mark.parametrize("packed, fault", [(b"BZh9", "is damaged"), (bz2.compress(b"other"), "has SHA-256 .*")])
def test_a_damaged_installation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, packed: bytes, fault: str) -> None:
    (tmp_path / "shakespeare.txt.bz2").write_bytes(packed)
    monkeypatch.setattr("sumexp.datasets.texts.files", lambda package: tmp_path)
    with pytest.raises(DataError, match=f"shakespeare.txt.bz2 {fault}.*; install sumexp again"):
        datasets.shakespeare()


@pytest.mark.parametrize("words", [("of", "the"), ("his", "wife")])
def test_words_that_chapters_ask_for_are_in_both_texts(request: pytest.FixtureRequest, words: tuple[str, str]) -> None:
    assert set(words) <= set(datasets.shakespeare().words)
    assert set(words) <= set(request.getfixturevalue("brown").words)


def test_what_stands_in_for_what_is_absent(tmp_path: Path, cache: Path) -> None:
    assert datasets.preferred("brown") == "shakespeare"
    assert datasets.preferred("delicious") == "shakespeare"
    assert datasets.preferred("mnist") == "digits"
    assert datasets.preferred("omniglot") == ""
    assert all(other == "" or datasets.available(other) for other in map(datasets.preferred, datasets.DATASETS))


def test_a_corpus_is_a_running_text(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'digits' is not a running text; to see what each one is"):
        datasets.corpus("digits")
    with pytest.raises(DataError, match=r"'brown' lacks brown/brown\.zip"):
        datasets.corpus("brown", tmp_path)


# Delicious, and Mulan's form

HEAD = "@relation r\n\n@attribute w {0,1}\n@ATTRIBUTE len numeric\n@attribute TAG_a {0,1}\n@attribute TAG_b {0,1}\n\n"
LABELS = (
    '<?xml version="1.0"?>\n<labels xmlns="http://mulan"><label name="TAG_a"/><label name="TAG_b"></label></labels>'
)


def mulan(folder: Path, train: str = "{0 1,3 1}\n{}\n", test: str = "{1 2.5,2 1}", labels: str = LABELS) -> list[Path]:
    texts = {"train.arff": HEAD + "@data\n" + train, "test.arff": HEAD + "@data\n" + test, "labels.xml": labels}
    for name, text in texts.items():
        (folder / name).write_text(text, "latin-1")
    return [folder / name for name in texts]


def test_mulan_by_hand(tmp_path: Path) -> None:
    data = datasets.read_mulan(*mulan(tmp_path))
    assert data.train.tolist() == [[1, 0], [0, 0]]
    assert data.train_labels.tolist() == [[False, True], [False, False]]
    assert data.test.tolist() == [[0, 2.5]]
    assert data.test_labels.tolist() == [[True, False]]
    assert data.labels == ("TAG_a", "TAG_b")


def test_an_arff_file_may_be_written_otherwise(tmp_path: Path) -> None:
    """What the format allows, by the published grammar: comments, capitals, quotes, tabs, blank lines, dense rows."""
    train, test, labels = mulan(tmp_path, test="{1 2.5,2 1}")
    train.write_text(
        "% made by hand: @data is below\r\n@RELATION 'a name'\n@attribute\tw\t{0, 1}\n@attribute 'len' REAL\n"
        "@Attribute \"TAG_a\" {0,1}\n@attribute TAG_b {0,1}\n@DATA\n% a comment\n\n1, 0, 0, 1\n{ 1 '2.5' ,\t2 1 }\n{}"
    )
    data = datasets.read_mulan(train, test, labels)
    assert data.train.tolist() == [[1, 0], [0, 2.5], [0, 0]]
    assert data.train_labels.tolist() == [[False, True], [True, False], [False, False]]
    train.write_text("@attribute 'len\\'s {x} %' numeric\n@attribute TAG_a {0,1}\n@attribute TAG_b {0,1}\n@data\n{0 1}")
    assert datasets.read_mulan(train, train, labels).train.tolist() == [[1]]


def test_an_arff_file_of_empty_rows_is_not_given_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.mulan, "CELLS", 11)
    with pytest.raises(DataError, match=r"train.arff has 3 rows of 4 attributes; a dense table holds 11 numbers"):
        datasets.read_mulan(*mulan(tmp_path, train="{}\n{}\n{}"))


@pytest.mark.parametrize(
    "texts, fault",
    [
        ({"train": "1,0,1"}, r"train.arff, line 9: expected 4 values, or a sparse row such as .*, got '1,0,1'"),
        ({"train": "{0 1"}, r"train.arff, line 9: expected a sparse row such as \{3 1,17 1\}, got '\{0 1'"),
        ({"train": "1,?,0,1"}, "train.arff, line 9: '1 [?]' is not one of the 4 attributes and its value"),
        ({"train": "{0 1,0 1}"}, "line 9: '0 1' is not one of the 4 attributes and its value, once"),
        ({"train": "{0 1}\n{4 1}"}, "train.arff, line 10: '4 1' is not one of the 4 attributes and its value"),
        ({"train": "{-1 1}"}, "line 9: '-1 1' is not one of the 4 attributes"),
        ({"train": "{0 ?}"}, "line 9: '0 [?]' is not one of the 4 attributes"),
        ({"train": "{0 nan}"}, "line 9: '0 nan' is not one of the 4 attributes"),
        ({"train": "{0 1e39}"}, "line 9: '0 1e39' is not one of the 4 attributes and its value"),  # inf in 32 bits
        ({"train": "{0 1 1}"}, "line 9: '0 1 1' is not one of the 4 attributes"),
        ({"test": "{3 2}"}, "test.arff has a label that is neither 0 nor 1"),
        ({"labels": "<labels>"}, "labels.xml is not XML"),
        ({"labels": "<labels/>"}, "labels.xml names no labels"),
        ({"labels": LABELS.replace("TAG_a", "TAG_c")}, "the last 2 attributes of .*train.arff are not the labels"),
    ],
)
def test_files_that_are_not_mulan(tmp_path: Path, texts: dict[str, str], fault: str) -> None:
    with pytest.raises(DataError, match=fault):
        datasets.read_mulan(*mulan(tmp_path, **texts))


def test_parts_that_do_not_fit_or_are_no_arff(tmp_path: Path) -> None:
    train, test, labels = mulan(tmp_path)
    test.write_text(test.read_text().replace("attribute w", "attribute v"))
    with pytest.raises(DataError, match=r"test.arff does not have the attributes of .*train.arff"):
        datasets.read_mulan(train, test, labels)
    for text in ("<html>not found</html>", "@data\n{0 1}", HEAD):
        test.write_text(text)
        with pytest.raises(DataError, match=r"test.arff is not an ARFF file"):
            datasets.read_mulan(train, test, labels)


def test_delicious_itself(delicious: datasets.MultiLabel) -> None:
    assert delicious.train.shape == (12_920, 500)
    assert delicious.train_labels.shape == (12_920, 983)
    assert delicious.test.shape == (3_185, 500)
    assert delicious.test_labels.shape == (3_185, 983)
    assert set(np.unique(delicious.train)) == {0, 1}
    assert delicious.train[0].nonzero()[0].tolist() == [60, 248, 279, 316, 490]  # as the file's first row has it
    assert delicious.train_labels[0].nonzero()[0][:2].tolist() == [577 - 500, 591 - 500]
    assert delicious.labels[:2] == ("TAG_.imported", "TAG_.net")
    for labels, none, mean in ((delicious.train_labels, 10, 19.05), (delicious.test_labels, 4, 18.91)):
        counts = labels.sum(1)
        assert ((counts == 0).sum(), counts.max(), round(counts.mean(), 2)) == (none, 25, mean)
