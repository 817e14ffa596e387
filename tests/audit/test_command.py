"""The command in a bare installation: files in, five lines and a page out, one message for each bad input."""

import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import rc_context

from sumexp._command import main as sumexp
from sumexp.audit import AuditError, _report, audit, inputs
from sumexp.audit._command import main, parser
from sumexp.audit._report import write
from sumexp.audit.inputs import counts

BARE = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"duckdb", "typer", "rich", "pydantic", "grimp", "yaml", "tqdm", "requests"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Without())
from sumexp._command import main
main()
print(*(m for m in sys.modules if m.startswith("claimbook")), file=sys.stderr)
"""
COUNTS = np.maximum(1, 400 / np.arange(1, 61.0)).astype(np.int64)


def fails(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line with which the command ends at once, with exit code 1."""
    with pytest.raises(SystemExit) as ended:
        main([str(each) for each in arguments])
    out, error = capsys.readouterr()
    [line] = error.splitlines()
    assert (ended.value.code, out, line[:7]) == (1, "", "error: ")
    return line


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "counts.csv"
    path.write_text("item,count\n" + "".join(f"i{i},{c}\n" for i, c in enumerate(COUNTS)))
    return path


def test_a_bare_installation_writes_a_report(tmp_path: Path) -> None:
    report, given = tmp_path / "report.html", tmp_path / "zählt.npy"
    np.save(given, COUNTS)
    arguments = ["audit", str(given), "--weights", "constant", "-m", "16", "--output", str(report)]
    env = os.environ | {"PYTHONIOENCODING": "ascii"}  # as in a pipe, where no locale says otherwise
    done = subprocess.run([sys.executable, "-c", BARE, *arguments], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    names = ["read", "audited", "Wrong:", "minimum", "negatives", "faults", "advice", "report"]
    assert [line.split()[0] for line in lines if line[0] != " "] == names
    assert lines[0].startswith(r"read      z\xe4hlt.npy: counts, classes by position (0: 400,")
    assert max(map(len, lines[:-1])) <= 84
    assert done.stderr == "\n"  # none of the book's machinery
    assert sorted(p.name for p in tmp_path.iterdir()) == ["report.html", "report.json", "zählt.npy"]


def test_the_page_stands_alone(tmp_path: Path) -> None:
    result = audit(COUNTS, weights="importance", hits="mask", m=16)
    data, html = write(result, tmp_path / "r.html")
    text = html.read_text()
    with rc_context({"axes.labelcolor": "white", "text.usetex": True}):  # of a user's matplotlibrc
        assert write(result, html)[1].read_text() == text

    assert set(re.findall(r'\s(?:href|src)="([^"#]*)"', text)) == {"./r.json"}
    assert text.count("<svg ") == text.count("<figcaption>") == 1
    assert "Cannot tell" in text
    assert "<b>Verdict: cannot tell.</b>" in text
    named = set(re.findall(r"\((sumexp-[a-z-]+)\s", text))
    entries = "".join(path.read_text() for path in (Path(__file__).parents[2] / "claims").glob("*.yml"))
    assert named == {"sumexp-consistent"}
    assert "- id: sumexp-consistent\n" in entries
    assert not re.search(r"\bnan\b|\binf\b", re.sub(r"<(style|svg).*?</\1>", "", text, flags=re.DOTALL))
    assert json.loads(data.read_text())["scheme"]["kl"] == pytest.approx(result.scheme.kl)


@pytest.mark.parametrize("page", ["book/checking.md", "README.md", "notebooks/audit.md"])
def test_the_lines_that_pages_show_are_lines_of_the_command(page: str) -> None:
    text = (Path(__file__).parents[2] / page).read_text().replace("\\\n", "")  # a command may go on in the next line
    shown = re.findall(r"^sumexp (audit .*)$", text, re.MULTILINE)
    assert shown
    for line in shown:
        parser().parse_args(shlex.split(line, comments=True)[1:])


@pytest.mark.parametrize("failing", [(Path, "replace", OSError), (_report, "_figure", ValueError)])
def test_no_report_is_half_written(failing: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = audit(COUNTS, weights="relative", m=16)

    def fail(*_: object) -> None:
        raise failing[-1]("no space left, or no backend")

    monkeypatch.setattr(*failing[:2], fail)
    with pytest.raises(AuditError, match=r"the report cannot be .*: no space left, or no backend"):
        write(result, tmp_path / "r.html")
    assert list(tmp_path.iterdir()) == []


def test_counts_and_labels_of_every_kind_of_file_agree(tmp_path: Path) -> None:
    labels = np.repeat(np.arange(4), [5, 3, 2, 4])
    (tmp_path / "labels.csv").write_text("label\n" + "".join(f"{y}\n" for y in labels))
    (tmp_path / "bare.csv").write_text("5\n3\n2\n4\n")
    (tmp_path / "counts.tsv").write_text("word\tcount\nb\t5\na\t3\nd\t2\nc\t4\n")
    np.save(tmp_path / "counts.npy", np.array([5, 3, 2, 4]))
    np.save(tmp_path / "labels.npy", labels)
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT unnest([5,3,2,4]) AS n) TO '{tmp_path}/counts.parquet'")
    for name, kind in (
        ("labels.csv", None), ("bare.csv", "counts"), ("counts.tsv", None), ("counts.npy", None),
        ("labels.npy", "labels"), ("counts.parquet", None),
    ):  # fmt: skip
        assert counts(tmp_path / name, kind=kind).tolist() == [5, 3, 2, 4]
    assert counts(tmp_path / "labels.csv", classes=6).tolist() == [5, 3, 2, 4, 0, 0]
    (tmp_path / "words.csv").write_text("word\nthe\nof\nthe\na\n")
    assert counts(tmp_path / "words.csv").tolist() == [2, 1, 1]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    "name, others",
    [
        ("counts[1]", ["counts1"]), ("a?b", ["axb"]), ("a*", ["ab", "ac"]), ("**", ["ab"]), ("[!a]", ["b"]),
        ("a]b", ["ab"]), ("it's [x]", ["it's x"]), ("d[1]*/a", ["d1/a", "d1z/a"]), ("n=9/a", []),
    ],
)  # fmt: skip
def test_names_are_names_and_no_patterns(
    name: str, others: list[str], suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB took counts[1].csv for counts1.csv, and a folder n=9 for a column."""
    for each, values in ((name, [5, 3]), *((other, [9, 1, 4]) for other in others)):
        path = tmp_path / f"{each}{suffix}"
        path.parent.mkdir(exist_ok=True)
        if suffix == ".csv":
            path.write_text("count\n" + "".join(f"{n}\n" for n in values))
        else:
            with duckdb.connect() as connection:
                connection.execute(f"COPY (SELECT unnest({values}) AS count) TO '{tmp_path}/plain' (FORMAT parquet)")
            (tmp_path / "plain").rename(path)
    assert counts(tmp_path / f"{name}{suffix}").tolist() == [5, 3]
    monkeypatch.chdir(tmp_path)
    assert counts(Path(f"{name}{suffix}")).tolist() == [5, 3]
    with pytest.raises(AuditError, match="its name is not in UTF-8"):
        counts(Path(f"{name}{suffix}").rename(tmp_path / f"\udcff{suffix}"))


@pytest.mark.parametrize(
    "name, text",
    [
        ("a.tsv", "word\tcount\na,b\t5\nc,d,e\t3\n"), ("a.csv", '\ufeffitem;count\r\n"a;b";5\r\n<script>;3\r\n'),
        ("a.csv", "item|count\n1|3\n0|5\n"), ("A.CSV", "item,count\n1,3\n0,5\n"),
        ("a.csv", "count, item\n3, 1 \n 5, 0\n"), ("a.csv", "label,v\n" + "0,7\n" * 4 + "0.00,7\n" + "1.0,8\n" * 3),
        ("a.csv", "label\n" + "0.0\n" * 5 + "1.0\n" * 3),  # as pandas writes numbers where one was missing
        ("a.csv", "item,count\n1.00,3\n0.00,5.0\n"), ("a.csv", "label,item_id,count\nx,1,3\nx,0,5\n"),
    ],
)  # fmt: skip
def test_separators_blanks_and_names_of_files_are_no_guess(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    assert counts(tmp_path / name).tolist() == [5, 3]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("name", ["movieId", ""])
def test_ids_are_ids_whatever_their_name(
    name: str, suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `value_counts().to_csv()` writes them, popular first: but for seven names, rows were taken for ids."""
    rising = COUNTS[::-1]
    order, path = np.argsort(-rising, kind="stable"), tmp_path / f"a{suffix}"
    (tmp_path / "a.csv").write_text(f"{name},count\n" + "".join(f"{i},{rising[i]}\n" for i in order))
    if suffix == ".parquet":
        with duckdb.connect() as connection:
            connection.execute(f"COPY (FROM read_csv('{tmp_path}/a.csv', header = true)) TO '{path}'")
    assert counts(path).tolist() == rising.tolist()
    np.save(tmp_path / "c.npy", rising)
    np.save(tmp_path / "s.npy", np.log(rising)[None] + np.random.default_rng(0).normal(size=(1, 60)))
    printed = []
    for file in (path, tmp_path / "c.npy"):
        main([str(file), "-m", "7", "--scores", str(tmp_path / "s.npy")])
        printed.append(" ".join(capsys.readouterr().out.split()).partition(" audited "))
    assert printed[0][2] == printed[1][2]
    assert printed[0][0].endswith(f"ids are {name or 'column0'!r} (0: 6, 1: 6, 2: 6, ...)")


def test_ids_that_are_no_rows_or_could_be_two_columns_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("movie,count\n1,30\n2,10\n3,20\n")  # 1-based
    np.save(tmp_path / "s.npy", np.zeros((1, 3)))
    wrong = "as the columns of --scores: the 3 ids of 'movie' run from 1 to 3, not from 0 to 2; number them so, or"
    assert f"a.csv, {wrong}" in fails(capsys, path, "-m", 2, "--scores", tmp_path / "s.npy")
    main([str(path), "-m", "2"])  # for counts alone the order is of no account
    main([str(path), "-m", "2", "--scores", str(tmp_path / "s.npy"), "--ids", "position"])
    assert "classes by position; not read: 'movie' (0: 30, 1: 10, 2: 20)" in " ".join(capsys.readouterr().out.split())
    assert inputs.tally(path, classes=5).counts.tolist() == [0, 30, 10, 20, 0]  # ids that have no row have no label
    with pytest.raises(AuditError, match=r"movie has the id 3; with 3 classes ids are 0\.\.2"):
        inputs.tally(path, classes=3)
    path.write_text("a,b,count\n1,0,30\n0,1,10\n")
    with pytest.raises(AuditError, match="a and b could be the ids of the classes; say --ids a or b, or"):
        counts(path)
    assert inputs.tally(path, ids="b").counts.tolist() == [30, 10]
    with pytest.raises(AuditError, match="no other column 'c'"):
        inputs.tally(path, ids="c")
    path.write_text("0,30\n1,10\n")
    assert inputs.tally(path, "2", "counts", ids="1").counts.tolist() == [30, 10]
    path.write_text("genre,count\nrock,3\nall,7\nfolk,4\n")
    assert "; 'all' has as many as all others: is it their total?, in the order" in inputs.tally(path).says
    path.write_text("genre,count\nrock,3\nfolk,4\n")
    assert inputs.tally(path).says.endswith("ids are 'genre', in the order of the file (rock: 3, folk: 4)")
    # Popular first, and the columns by the alphabet.
    line = fails(capsys, path, "-m", 1, "--scores", tmp_path / "s.npy")
    assert line.endswith("the rows are named by 'genre'; if they are in that order, say --ids genre")
    main([str(path), "-m", "1", "--sampler", "uniform", "--ids", "genre"])
    path.write_text("label\n1\n2\n2\n")
    assert inputs.tally(path).says.endswith("(0: 0, 1: 1, 2: 2); no label is 0: are the ids 1-based?")


def asked(path: Path) -> inputs.Tally | None:
    """What is read of a table, None if it is refused."""
    with suppress(AuditError):
        return inputs.tally(path)
    return None


NAMES = st.sampled_from(["item", "item_id", "movieId", "product", "", "sku", "слово"])
VALUES = st.sampled_from(["count", "n", "views", "occurrences", "freq"])


@settings(max_examples=25, deadline=None)
@given(
    number=st.lists(st.integers(0, 9), min_size=2, max_size=6), name=NAMES, value=VALUES, index=st.booleans(),
    ids=st.sampled_from(["0", "1", "far", "words", "mixed"]), order=st.randoms(use_true_random=False),
    sign=st.sampled_from([",", ";", "\t"]), end=st.sampled_from(["\n", "\r\n"]), mark=st.sampled_from(["", "\ufeff"]),
)  # fmt: skip
def test_a_table_of_counts_is_read_by_its_ids_or_not_at_all(
    number: list[int], ids: str, name: str, value: str, order: Any, sign: str, end: str, mark: str, index: bool
) -> None:
    """A table `item,occurrences` was read as a log in which each item is there once: "Right, change nothing"."""
    size = len(number)
    names = {
        "0": [str(i) for i in range(size)], "1": [str(i + 1) for i in range(size)],
        "far": [str(10**12 + 7 * i) for i in range(size)], "words": [f"w{i}" for i in range(size)],
        "mixed": [*map(str, range(size - 1)), "total"],
    }[ids]  # fmt: skip
    rows = [*zip(names, map(str, number), strict=True)]
    order.shuffle(rows)
    lines = [(name, value), *rows]
    if index:  # as pandas writes it
        lines = [(str(i - 1) if i else "", *line) for i, line in enumerate(lines)]
    with TemporaryDirectory() as folder:
        path = Path(folder, "a.csv")
        path.write_text(mark + "".join(sign.join(line) + end for line in lines), "utf-8", newline="")
        read = asked(path)
    if read is None:
        assert index or ids == "mixed" or value not in inputs.COUNTS
        return
    actual = dict(zip(map(str, range(size)) if read.names is None else read.names, read.counts.tolist(), strict=True))
    assert actual == dict(zip(names, number, strict=True))
    assert read.names is not None or ids == "0"
    assert bool(read.gap) == (ids != "0")


@settings(max_examples=12, deadline=None)
@given(labels=st.lists(st.integers(0, 4), min_size=2, max_size=9), name=NAMES, more=st.booleans())
def test_a_log_of_labels_is_counted_or_not_at_all(labels: list[int], name: str, more: bool) -> None:
    """A column of numbers without a known name was read as the counts of as many classes."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "a.csv")
        first, rest = ("user,", "7,") if more else ("", "")
        path.write_text(f"{first}{name or 'x'}\n" + "".join(f"{rest}{y}\n" for y in labels), "utf-8")
        right = np.bincount(labels).tolist()
        read = asked(path)
        assert read is None or read.counts.tolist() == right
        result = inputs.tally(path, name or "x", "labels")
    assert result.counts.tolist() == right
    assert ("not read: 'user'" in result.says) == more


def test_a_first_line_that_may_be_a_label_is_asked_for(tmp_path: Path) -> None:
    """The first word was taken for a header that is not there, and lost."""
    path = tmp_path / "words.csv"
    path.write_text("the\nof\nthe\nand\n")
    with pytest.raises(AuditError, match=r"begins with 'the': names or data\? say --header or --no-header"):
        counts(path, kind="labels")
    assert inputs.tally(path, kind="labels", header=False).counts.tolist() == [2, 1, 1]
    assert inputs.tally(path, kind="labels", header=True).counts.tolist() == [1, 1, 1]
    assert counts(path, "the", "labels").tolist() == [1, 1, 1]
    path.write_text("tags\n7\n7\n5\n")  # words above numbers are names
    assert counts(path, kind="labels")[[5, 7]].tolist() == [1, 2]
    path.write_text("item,2024\ntea,7\nrice,5\n")  # "item" was a class
    assert inputs.tally(path, "2024", "counts", header=True).says.endswith("(tea: 7, rice: 5)")
    path.write_text(",movie\n0,3\n1,3\n2,7\n")  # a log was a table of counts: no two rows of pandas have one number
    with pytest.raises(AuditError, match="is 'movie' a count for each class or a label for each example"):
        counts(path, "movie")


@pytest.mark.parametrize("suffix, option", [(".html", "counts"), (".json", "scores")])
def test_no_report_overwrites_what_is_read(
    suffix: str, option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"given{suffix}"
    path.write_text("count\n5\n3\n")
    given = [path] if option == "counts" else [tmp_path / "none.csv", "--scores", path]
    assert "would overwrite" in fails(capsys, *given, "-m", 2, "--output", tmp_path / "given.html")
    assert path.read_text() == "count\n5\n3\n"


def test_a_report_whose_name_has_signs_finds_its_data(tmp_path: Path) -> None:
    result = audit(COUNTS, m=4, sampler=np.eye(60)[0], weights="relative")  # one class is left: no push on any group
    html = write(result, tmp_path / "a#1 50%<b>\udcff.html")[1].read_text()  # a byte that is not UTF-8
    assert 'href="./a%231%2050%25%3Cb%3E%FF.json"' in html
    assert "<b>.json" not in html


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("a.csv", "count\n3\n-1\n2\n", "line 3: count is '-1'; a count is a whole number from 0"),
        ("a.csv", "3\n1\n", "is 'column0' a count for each class or a label for each example? say --holds counts or"),
        ("a.csv", f"count\n3\n{10**16}\n", f"line 3: count is '{10**16}'; a count is a whole number from 0 to 9e15"),
        ("a.csv", "label\n0\n0\n-2\n", "line 4: label is '-2'; the classes are 0.."), ("a.csv", "", "a.csv is empty"),
        ("a.csv", "item;count\n0;3\n1;50.000\n", "line 3: count is '50.000'; a count is a whole number from 0"),
        ("a.csv", "item,count\n0,3\n1,2\n0.0,4\n", "3 rows of counts, but 2 different values of item"),
        ("a.csv", "\nitem,count\n0,3\n", "a.csv begins with an empty line"), ("a.csv", "count\n", "a.csv has no rows"),
        ("a.csv", "label\n2\n2\n0\nn/a\n", "line 5: label is 'n/a'; most labels are whole numbers"),
        ("a.csv", "item,count\na,3\na,4\n", "2 rows of counts, but 1 different values of item"),
        ("a.csv", "item,count\na,3\nb\n", "cannot be read as a table"), ("a.xls", "1", "ends in '.xls'"),
        ("a.csv.gz", "1", "ends in '.gz'; give .csv, .tsv, .parquet or .npy, unpacked"),
        ("a.csv", "count\n3\n\n4\n", "line 3: count is empty"), ("a.parquet", "1", "cannot be read as a table"),
        ("a.csv", "x,y\n1,2\n", "has the columns x, y; say which with --column"),
        ("a.csv", "0,5\n1,3\n", "has the columns 1 to 2, without names; say which with --column"),
        ("a.csv", ",0\n0,5\n1,3\n", "has the columns column0, 0; say which with --column"),
        ("a.npy", "1", "is no array in NumPy's format: it is another file, or holds objects"),
        ("a.csv", '"' + "x" * 140_000 + '",count\na,3\n', "has a first line of more than 131,072 characters"),
        ("a.csv", "count,count\n3,4\n5,6\n", "has 2 columns 'count'; rename all but one"),
        *(("a.csv", f"{x},item_id,n\n2,0,6\n0,1,3\n", f"{x} and item_id could be the ids") for x in ("item", "tag")),
        *(("a.csv", x + "\n6,3\n4,2\n", f"begins with '{x}': names or") for x in ("item,2024", "index,0", "0,1", "0")),
        ("a.csv", "item,count\n" + "a,3\n" * 30_000 + '"b,1\n', "Line: 30002: Value with unterminated quote found."),
    ],
)  # fmt: skip
def test_a_bad_file_is_one_line_and_code_1(
    name: str, text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert message in fails(capsys, path, "-m", 4, "--output", tmp_path / "r.html")
    assert [p.name for p in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("other", ["timestamp\n7,3,90\n7,4,91\n", "score\n7,3,0.5\n7,4,0.75\n"])
def test_neither_times_nor_fractions_are_ids(other: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A log of ratings is no table of counts because no two examples have one time."""
    path = tmp_path / "ratings.csv"
    path.write_text("movie,stars," + other)
    asked = "is 'stars' a count for each class or a label for each example? say --holds counts or --holds labels"
    assert asked in fails(capsys, path, "-m", 4, "--column", "stars")
    sure = fails(capsys, path, "-m", 4, "--column", "stars", "--holds", "counts")
    assert "no column has another value in each of the 2 rows" in sure


@pytest.mark.parametrize("names", ["0195153448 0002005018 080410526X", "12e4 ab12 ff00", "inf nan 3.5 the"])
def test_what_looks_like_a_number_can_be_a_name(names: str, tmp_path: Path) -> None:
    (path := tmp_path / "a.csv").write_text("asin,count\n" + "".join(f"{name},3\n" for name in names.split()))
    assert np.asarray(inputs.tally(path).names).tolist() == names.split()


def test_a_header_that_announces_too_much_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """NumPy asked for 7.28 TiB, and the command ended in a traceback."""
    path = tmp_path / "a.npy"
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<i8", "fortran_order": False, "shape": (10**12,)})
    assert "is no array in NumPy's format: mmap length is greater than file size" in fails(capsys, path, "-m", 4)


@pytest.mark.parametrize("error, code", [(KeyboardInterrupt(), 130), (MemoryError(), 1), (OSError(28, "full"), 1)])
def test_what_ends_the_command_is_one_line(
    error: BaseException, code: int, table: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr("sumexp.audit._command.audit", fails)
    monkeypatch.setattr(sys, "argv", ["sumexp", "audit", str(table), "-m", "4"])
    with pytest.raises(SystemExit) as ended:
        sumexp()
    assert ended.value.code == code
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_closed_pipe_is_one_line(tmp_path: Path) -> None:
    np.save(tmp_path / "counts.npy", COUNTS)
    read, write_end = os.pipe()
    os.close(read)
    command = [sys.executable, "-c", BARE, "audit", str(tmp_path / "counts.npy"), "-m", "4"]
    done = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write_end)
    assert done.returncode == 141
    assert done.stderr.splitlines() == ["error: the output was closed before all was printed"]


def test_a_column_of_lists_is_no_column_of_labels(tmp_path: Path) -> None:
    """Each different list was taken for a class; true and false for the counts 1 and 0."""
    cases = ("[[1, 2], [0]]", "label is INTEGER[], several values"), ("[true, false]", "count is BOOLEAN; a count")
    for values, message in cases:
        with duckdb.connect() as connection:
            connection.execute(f"COPY (SELECT unnest({values}) AS {message.split()[0]}) TO '{tmp_path}/a.parquet'")
        with pytest.raises(AuditError, match=re.escape(message)):
            counts(tmp_path / "a.parquet")


def test_keys_are_no_classes(tmp_path: Path) -> None:
    """17 bytes took 6.8 GB."""
    (tmp_path / "a.csv").write_text("label\n99999999\n1\n")
    np.save(tmp_path / "a.npy", np.array([99_999_999, 1]))
    for name in ("a.csv", "a.npy"):
        with pytest.raises(AuditError, match="2 different labels, the largest 99,999,999: they look like keys"):
            counts(tmp_path / name, kind="labels")
    (tmp_path / "a.csv").write_text("label\n999999\n1\n")
    assert len(counts(tmp_path / "a.csv", kind="labels")) == 1_000_000


def test_what_float64_cannot_solve_elsewhere_takes_no_answer_away() -> None:
    """The audit finds the minimum of the theorem's scheme, and not those of the alternatives."""
    result = audit(np.array([10**12, 1, 1]), m=8, weights="relative")
    assert result.verdict == "right"
    assert "Not found in float64, and left out: the minimum of " in str(result).replace("\n          ", " ")


def test_other_columns_may_have_one_name(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,x,count\n1,2,3\n3,2,5\n")
    assert counts(tmp_path / "a.csv").tolist() == [3, 5]
    (tmp_path / "a.csv").write_text("item,clicks,clicks\n0,3,4\n1,5,6\n")
    assert counts(tmp_path / "a.csv", "clicks_1", "counts").tolist() == [4, 6]  # as DuckDB calls it
    with pytest.raises(AuditError, match="has 2 columns 'clicks'; rename all but one"):
        counts(tmp_path / "a.csv", "clicks", "counts")


@pytest.mark.parametrize(
    "extra, message",
    [
        (["--column", "price"], "no column 'price'"), (["--ids", ""], "no other column ''"),
        (["--classes", 7], "60 rows, one for each class, but classes is 7"), (["--sampler", ""], "no sampler ''"),
        (["--classes", 0], "classes is 0; it must be a whole number >= 1"),
        (["--output", "r.pdf"], "must end in .html"), (["--output", "/nowhere/r.html"], "there is no folder /nowhere"),
        (["--ids", "item", "--scores", "none.npy"], "there is no file none.npy"),
        (["--sampler", "zipf"], "no sampler 'zipf'"),
        (["--ids", "item", "--sampler", "union:q.npy"], "union and distinct take a law by its name"),
        (["--sampler", "uniform", "--batch", 9], "m is 2 and batch 9; the batch changes nothing for this"),
        (["--sampled", "mrr=.2", "--sampled", "mrr=.7"], "has a metric twice: mrr=.2 mrr=.7; give each once"),
        (["--temperature", 0], "--temperature does nothing without --scores, --embeddings or --cosine"),
        (["--examples", 9], "--examples does nothing without --scores or --embeddings"),
        (["--candidates", 9], "--candidates does nothing without --sampled"),
        (["--candidates-from", "unigram"], "--candidates-from does nothing without --sampled"),
        (["--cosine", "--scores", "s.npy"], "--cosine needs --temperature, by which the training divides"),
        (["--scores", "s.npy", "--seed", 1], "--seed does nothing without an assumed truth"),
        (["--scheme", "siglip", "--weights", "relative"], "--weights is not known for --scheme siglip"),
        (["--scheme", "siglip", "--cosine"], "--cosine is not known for --scheme siglip"),
        (["--scheme", "baseline", "--hits", "keep"], "baseline means weights negatives with hits masked"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_one_line(
    extra: list[object], message: str, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in fails(capsys, table, "-m", 2, *extra)


def test_a_column_of_ids_holds_labels_which_may_be_1_based(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.csv"
    for name in ("movie_id", "MOVIE_ID", "MovieID", "movieId"):
        path.write_text(f"user,{name}\n7,1\n7,2\n8,2\n")
        assert inputs.tally(path, name).counts.tolist() == [0, 1, 2]
    with pytest.raises(AuditError, match="has a label for each example, and no ids are read: leave --ids out"):
        inputs.tally(path, name, ids="user")
    np.save(tmp_path / "s.npy", np.zeros((2, 2)))
    line = fails(capsys, path, "--column", "movieId", "-m", 1, "--scores", tmp_path / "s.npy")
    assert line.endswith("must be [examples, 3], one for each class (no label is 0: are the ids 1-based?)")


def test_cosines_are_at_most_1(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Vectors that were not normalised were multiplied as they stand, and their products taken for cosines."""
    vectors = np.random.default_rng(0).normal(size=(61, 3))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    scores = 3 * unit[:1] @ unit[1:].T
    for name, values in (("q", unit[:1]), ("i", vectors[1:]), ("u", unit[1:]), ("s", scores), ("one", np.ones(()))):
        np.save(tmp_path / f"{name}.npy", values)
    given = [table, "--ids", "item", "-m", 4, "--cosine", "--temperature", 0.1]
    wrong = fails(capsys, *given, "--embeddings", tmp_path / "q.npy", tmp_path / "i.npy")
    assert re.search(r"i.npy has vectors of length .* to .*; for --cosine give unit vectors", wrong)
    assert "have shapes () and ()" in fails(capsys, *given, "--embeddings", *[tmp_path / "one.npy"] * 2)
    assert "has a score of size 2." in fails(capsys, *given, "--scores", tmp_path / "s.npy")
    main([str(each) for each in (*given, "--embeddings", tmp_path / "q.npy", tmp_path / "u.npy")])
    assert "cosines" in capsys.readouterr().out


def test_an_array_has_no_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "a.npy", np.array([5, 3, 2, 7]))
    given, q = [str(tmp_path / "a.npy"), "-m", "2"], tmp_path / "q.npy"
    for lacks, *option in (("column", "--ids", "x"), ("column", "--column", "x"), ("first line", "--no-header")):
        assert f"has no {lacks}" in fails(capsys, *given, *option)
    for kind in ("<f8", ">f8", "longdouble"):  # the last two, and words, ended in a traceback
        np.save(q, np.array([0.4, 0.3, 0.2, 0.1], kind))
        main([*given, "--sampler", str(q)])
    printed = capsys.readouterr().out
    assert printed == printed[: len(printed) // 3] * 3
    np.save(q, np.array(["a"]))
    assert "q.npy holds <U1; it must hold real numbers" in fails(capsys, *given, "--sampler", q)
