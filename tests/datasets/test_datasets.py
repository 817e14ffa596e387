"""Data sets: every fault has its message, and nothing is written where it should not be."""

import bz2
import re
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module, resources
from io import StringIO
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import grimp
import numpy as np
import platformdirs
import pytest

from sumexp import datasets
from sumexp.datasets import DataError, DataFile, Dataset
from sumexp.datasets._command import elsewhere, main

CONTENT = bytes(range(256)) * 1000


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The user's cache in a temporary folder, with no root set."""
    for variable in ("SUMEXP_DATA", "SUMEXP_DECLARED_DATA"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user cache"))
    return tmp_path / "user cache" / "sumexp"


@pytest.fixture(scope="module")
def brown() -> datasets.Corpus:
    """The real corpus, read before `cache` hides its folder."""
    if not datasets.available("brown"):
        pytest.skip("the Brown corpus is missing; to download it, run: sumexp data fetch brown")
    return datasets.brown()


@pytest.fixture(scope="module")
def delicious() -> datasets.MultiLabel:
    """The real data set."""
    if not datasets.available("delicious"):
        pytest.skip("Delicious is missing; to download it, run: sumexp data fetch delicious")
    return datasets.delicious()


class Server(ThreadingHTTPServer):
    """Serves ``body``, by ranges if ``ranges``, up to byte ``cut``, without end if ``endless``; 404 for ``gone``."""

    daemon_threads = True
    body = CONTENT
    cut: int | None = None
    status = 200
    ranges = True
    gone: tuple[str, ...] = ()
    endless = False

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
        if server.status != 200 or self.path.strip("/") in server.gone:
            self.send_error(404 if server.status == 200 else server.status)
            return
        if start >= len(server.body) and wanted:
            self.send_error(416)
            return
        self.send_response(206 if wanted else 200)
        if not server.endless:
            self.send_header("Content-Length", str(len(server.body) - start))
        self.end_headers()
        self.wfile.write(server.body[start : server.cut])
        with suppress(OSError):  # until the client disconnects
            while server.endless:
                self.wfile.write(bytes(1 << 16))

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


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
    """The file of the data set ``tiny``, which the server has."""
    return register(monkeypatch, DataFile("tiny/tiny.bin", server.url, sha256(CONTENT).hexdigest(), len(CONTENT)))


def register(monkeypatch: pytest.MonkeyPatch, file: DataFile) -> DataFile:
    monkeypatch.setattr(datasets, "DATASETS", {"tiny": Dataset("tiny", "bytes", "none", "nobody", (file,))})
    return file


def put(root: Path, content: bytes = CONTENT, name: str = "tiny/tiny.bin") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def left_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@contextmanager
def untouched(folder: Path) -> Iterator[None]:
    """Fail if anything below ``folder`` is written, renamed or made."""

    def state() -> dict[Path, tuple[int, int]]:
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in [folder, *folder.rglob("*")]}

    before = state()
    yield
    assert state() == before


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
    for name in (str(tmp_path / "nowhere"), "~nobody-at-all/nowhere"):
        monkeypatch.setenv("SUMEXP_DATA", name)
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


def test_digits_and_shakespeare_need_neither_file_nor_declaration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUMEXP_DECLARED_DATA", "")
    assert datasets.available("digits")
    assert datasets.files("digits") == []
    assert datasets.available("shakespeare")
    assert datasets.corpus("shakespeare").words[:3] == ("the", "and", "to")
    digits = datasets.digits()
    assert digits.images.shape == (1797, 64)
    assert (digits.images.min(), digits.images.max()) == (0, 1)
    assert np.bincount(digits.labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_an_unknown_name_lists_the_known_ones() -> None:
    for function in (datasets.available, datasets.files, datasets.verify, datasets.fetch):
        with pytest.raises(DataError, match="no data set 'brwon'; there are brown, delicious, digits"):
            function("brwon")


def test_fetch_downloads_once(server: Server, tiny: DataFile, cache: Path, capfd: pytest.CaptureFixture[str]) -> None:
    [path] = datasets.fetch("tiny")
    assert path == cache / tiny.path
    assert path.read_bytes() == CONTENT
    assert "tiny.bin: 100%" in capfd.readouterr().err  # the progress bar
    with untouched(cache):
        assert datasets.fetch("tiny") == [path]
    assert server.starts == [0]
    assert datasets.available("tiny")


@pytest.mark.parametrize("ranges", [True, False])
def test_an_interrupted_transfer_is_resumed(server: Server, tiny: DataFile, cache: Path, ranges: bool) -> None:
    server.cut = 100_000
    with pytest.raises(DataError, match=rf"could not download {server.url} .*sumexp data fetch tiny"):
        datasets.fetch("tiny")
    assert not datasets.available("tiny")
    [part] = left_in(cache)
    before = part.read_bytes()
    for status in (429, 500, 503):  # an error of the server keeps the part
        server.status = status
        with pytest.raises(DataError, match=rf"could not download .* {status}"):
            datasets.fetch("tiny")
    assert part.read_bytes() == before == CONTENT[: len(before)] != b""
    server.cut, server.status, server.ranges = None, 200, ranges
    [path] = datasets.fetch("tiny")
    assert path.read_bytes() == CONTENT
    assert server.starts[-1] == (len(before) if ranges else 0)
    assert left_in(cache) == [path]


@pytest.mark.parametrize("left", [CONTENT, CONTENT + b"x", b"", b"y"])
def test_any_part_left_by_an_earlier_call_is_repaired(tiny: DataFile, cache: Path, left: bytes) -> None:
    put(cache, left, tiny.path + ".part")
    with suppress(DataError):  # a wrong part is noticed once it is complete
        datasets.fetch("tiny")
    [path] = datasets.fetch("tiny")
    assert path.read_bytes() == CONTENT
    assert left_in(cache) == [path]


@pytest.mark.parametrize("body", [CONTENT[::-1], CONTENT[:-1], CONTENT + b"x", b"", None])
def test_wrong_bytes_are_not_kept(server: Server, tiny: DataFile, cache: Path, body: bytes | None) -> None:
    server.body, server.endless = body or b"", body is None
    with pytest.raises(DataError, match=rf"{server.url} did not send the expected file: .*; nothing was kept"):
        datasets.fetch("tiny")
    assert left_in(cache) == []
    server.body, server.endless = CONTENT, False
    datasets.fetch("tiny")


def test_errors_name_the_address_and_leave_no_file(server: Server, tiny: DataFile, tmp_path: Path, cache: Path) -> None:
    put(tmp_path, b"a file instead of the folder", "tiny")
    with pytest.raises(DataError, match=r"could not download .*tiny.bin: .*exists"):
        datasets.fetch("tiny", tmp_path)
    server.status = 404
    with pytest.raises(DataError, match=r"could not download .* 404"):
        datasets.fetch("tiny")
    server.shutdown()
    server.server_close()
    with pytest.raises(DataError, match=r"could not download http://127.0.0.1:.* sumexp data fetch tiny"):
        datasets.fetch("tiny")
    assert left_in(cache) == []


@pytest.mark.usefixtures("tiny")
def test_a_root_that_holds_the_files_is_never_written_to(server: Server, tmp_path: Path) -> None:
    path = put(tmp_path / "read only")
    path.chmod(0o400)
    path.parent.chmod(0o500)
    with untouched(tmp_path):
        for function in (datasets.fetch, datasets.verify, datasets.files):
            assert function("tiny", tmp_path / "read only") == [path]
    assert server.starts == []
    path.parent.chmod(0o700)


DAMAGED = [
    (CONTENT[:-1], "has 255,999 bytes where 256,000 are expected"),
    (CONTENT[::-1], "has SHA-256 .* where .* is expected"),
    (b"", "has 0 bytes where 256,000 are expected"),
]


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("content, fault", DAMAGED)
def test_a_damaged_file_is_named_and_left(tmp_path: Path, content: bytes, fault: str) -> None:
    put(tmp_path, content)
    with untouched(tmp_path):
        for function in (datasets.files, datasets.verify, datasets.fetch):
            with pytest.raises(DataError, match=rf"tiny.bin {fault}.*; delete it, then run: sumexp data fetch tiny"):
                function("tiny", tmp_path)


class Done(NamedTuple):
    """The exit code of a command, and its output."""

    code: object
    stdout: str
    stderr: str


def run(folder: Path, *arguments: str) -> Done:
    """``sumexp data``."""
    code: object = 0
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        try:
            main([*arguments, "--data", str(folder)])
        except SystemExit as ended:
            code = ended.code
    return Done(code, out.getvalue(), err.getvalue())


@pytest.fixture
def three(server: Server, monkeypatch: pytest.MonkeyPatch) -> list[DataFile]:
    """Data sets ``a``, ``b`` and ``c`` of one file each, ``d`` without files, and ``made`` without an address."""
    names = ("a", "b", "c")
    address = server.url.rpartition("/")[0]
    files = [DataFile(f"{n}/{n}.bin", f"{address}/{n}.bin", sha256(CONTENT).hexdigest(), len(CONTENT)) for n in names]
    sets = {name: Dataset(name, name, "none", "nobody", (file,)) for name, file in zip(names, files, strict=True)}
    made = Dataset("made", "made of a", "none", "nobody", (replace(files[0], path="made/a.bin", url=""),))
    monkeypatch.setattr(datasets, "DATASETS", sets | {"d": Dataset("d", "d", "none", "nobody"), "made": made})
    return files


def test_all_are_fetched_with_one_bar(three: list[DataFile], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fetched = datasets.fetch_all(["a", "b", "c", "d"], tmp_path)
    assert fetched == {file.path[0]: [tmp_path / file.path] for file in three} | {"d": []}
    assert all((tmp_path / file.path).read_bytes() == CONTENT for file in three)
    shown = capfd.readouterr().err
    assert "3 files: 100%" in shown
    assert shown.count("\n") == 1


@pytest.mark.usefixtures("three")
def test_a_failure_stops_no_other_download(server: Server, tmp_path: Path) -> None:
    server.gone = ("b.bin",)
    result = run(tmp_path, "fetch", "a", "b", "c")
    assert result.code == 1
    assert [line.split(":")[0] for line in result.stdout.splitlines()] == ["a", "c"]
    [line] = [line for line in result.stderr.splitlines() if line.startswith("error")]
    assert re.match(r"error: could not download http.*/b.bin to .* 404 .*run: sumexp data fetch b$", line)
    assert sorted(path.name for path in tmp_path.rglob("*.bin")) == ["a.bin", "c.bin"]
    server.body = CONTENT[::-1]
    server.gone = ()
    fetched = datasets.fetch_all(["a", "b"], tmp_path)
    assert fetched["a"] == [tmp_path / "a/a.bin"]
    assert "did not send the expected file" in str(fetched["b"])


@pytest.mark.usefixtures("three")
def test_all(server: Server, tmp_path: Path) -> None:
    assert run(tmp_path, "fetch", "a", "e") == (1, "", "error: no data set 'e'; there are a, b, c, d, made\n")
    assert server.starts == []  # nothing is fetched
    for _ in range(2):
        result = run(tmp_path, "fetch", "all")
        assert result.code == 0
        assert sorted(path.name for path in tmp_path.rglob("*.bin")) == ["a.bin", "b.bin", "c.bin"]
        assert "d:" not in result.stdout
        assert len(server.starts) == 3


@pytest.mark.usefixtures("three")
def test_a_set_without_a_public_address_is_not_fetched(server: Server, tmp_path: Path) -> None:
    error = run(tmp_path, "fetch", "b", "made").stderr
    assert error.startswith("error: data set 'made' has no public address (made of a); put its files where")
    assert server.starts == []
    (block,) = [block for block in run(tmp_path, "list").stdout.split("\n\n") if block.startswith("made:")]
    assert "source:  no public address\n" in block
    assert "present: no; put them there" in block
    put(tmp_path, name="made/a.bin")
    assert "made: " in run(tmp_path, "fetch", "made").stdout


def test_verify_looks_at_what_is_there(tiny: DataFile, tmp_path: Path) -> None:
    path = tmp_path / tiny.path
    assert run(tmp_path, "verify").stdout.endswith(" holds no data set; to download one, run: sumexp data fetch NAME\n")
    assert run(tmp_path, "verify", "tiny").code == 1
    for command in (("fetch", "tiny"), ("verify",), ("verify", "tiny")):
        assert run(tmp_path, *command).stdout == f"tiny: {path} is verified\n"
    assert "size:    0.3 MB" in (listed := run(tmp_path, "list").stdout)
    assert "present: yes" in listed
    path.write_bytes(CONTENT[:-1])
    assert run(tmp_path, "verify").stderr.startswith("error: ")


def test_a_folder_in_the_place_of_a_file_is_one_message(tiny: DataFile, tmp_path: Path) -> None:
    (tmp_path / tiny.path).mkdir(parents=True)
    assert "present: no" in run(tmp_path, "list").stdout
    for command, why in (("verify", "lacks tiny"), ("fetch", "s a directory")):  # fetch said to run: fetch
        result = run(tmp_path, command, "tiny")
        assert (result.code, result.stderr.count("error: "), why in result.stderr) == (1, 1, True)


def test_every_data_set_is_listed_with_all_its_fields(tmp_path: Path) -> None:
    blocks = {block.partition(":")[0]: block for block in run(tmp_path, "list").stdout.split("\n\n")[1:]}
    assert [*blocks] == [*datasets.DATASETS, *elsewhere()]
    for name, dataset in datasets.DATASETS.items():
        for line in (f"licence: {dataset.licence}", f"cite:    {dataset.citation}", "size:    ", "present: "):
            assert blocks[name].count(f"\n  {line}") == 1
        for file in dataset.files:
            assert file.sha256 in blocks[name]
            assert f"source:  {file.url or 'no public address'}" in blocks[name]
    for name, entry in elsewhere().items():
        for what in ("description", "licence", "citation", "size", "source", "read"):
            assert entry[what] in blocks[name]
        assert ", ".join(entry["files"]) in blocks[name]
        error = run(tmp_path, "fetch", name).stderr
        assert re.search(rf"{name}' is not fetched, since no checksum .*; get {entry['files'][0]} and", error)
    assert not list(tmp_path.iterdir())


def test_every_data_set_is_pinned_and_names_its_kind_its_reader_and_its_fallback() -> None:
    for name, dataset in datasets.DATASETS.items():
        assert name == dataset.name
        for file in dataset.files:
            assert file.url.startswith("https://") or not file.url
            assert len(bytes.fromhex(file.sha256)) == 32
            assert file.size > 0
            assert len(Path(file.path).parts) == 2
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


def test_brown_by_hand(tmp_path: Path) -> None:
    texts = {
        "brown/cats.txt": "ca01 news\ncr01 humor\n",
        "brown/ca01": "\n\n\tThe/at dog/nn saw/vbd the/at 1/2/cd ./.\n",
        "brown/cr01": "\tDOG/nn ././.\n",
        "brown/README": "not a text",
        "../outside": "never/extracted",
    }
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as zipped:
        for name, text in texts.items():
            zipped.writestr(name, text)
    corpus = datasets.read_brown(tmp_path / "b.zip")
    assert corpus.words == ("dog", "the", ".", "./.", "1/2", "saw")  # by count, then by the alphabet
    assert [corpus.words[i] for i in corpus.tokens] == ["the", "dog", "saw", "the", "1/2", ".", "dog", "./."]
    assert corpus.starts.tolist() == [0, 6, 8]
    assert corpus.documents == ("ca01", "cr01")
    assert corpus.categories == ("news", "humor")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["b.zip"]


def test_brown_itself(brown: datasets.Corpus) -> None:
    counts = np.bincount(brown.tokens)
    assert brown.tokens.shape == (1_161_192,)
    assert counts.shape == (49_815,) == (len(brown.words),)
    assert counts.min() == 1
    assert len(brown.documents) == len(brown.categories) == 500
    assert len(set(brown.categories)) == 15
    assert (brown.words[0], counts[0]) == ("the", 69_971)
    assert [brown.words[i] for i in brown.tokens[:4]] == ["the", "fulton", "county", "grand"]


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


@pytest.mark.parametrize("packed, fault", [(b"BZh9", "is damaged"), (bz2.compress(b"other"), "has SHA-256 .*")])
def test_a_damaged_installation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, packed: bytes, fault: str) -> None:
    (tmp_path / "shakespeare.txt.bz2").write_bytes(packed)
    monkeypatch.setattr("sumexp.datasets.texts.files", lambda package: tmp_path)
    with pytest.raises(DataError, match=f"shakespeare.txt.bz2 {fault}.*; install sumexp again"):
        datasets.shakespeare()


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


HEAD = "@relation r\n\n@attribute w {0,1}\n@ATTRIBUTE len numeric\n@attribute TAG_a {0,1}\n@attribute TAG_b {0,1}\n\n"
LABELS = '<?xml version="1.0"?>\n<labels xmlns="http://mulan">'
LABELS += '<label name="TAG_a"/><label name="TAG_b"></label></labels>'


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
