"""The command in a bare installation: files in, five lines and a page out, one message for each bad input."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import duckdb
import numpy as np
import pytest

from sumexp.audit import AuditError, audit
from sumexp.audit.command import main
from sumexp.audit.inputs import counts
from sumexp.audit.report import write

BARE = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"typer", "rich", "pydantic", "grimp", "snakemake", "matplotlib", "yaml"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Without())
from sumexp.companion.cli import main
main()
print(*(m for m in sys.modules if m.startswith("sumexp.companion")), file=sys.stderr)
"""
COUNTS = np.maximum(1, 400 / np.arange(1, 61.0)).astype(np.int64)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "counts.csv"
    path.write_text("item,count\n" + "".join(f"i{i},{c}\n" for i, c in enumerate(COUNTS)))
    return path


def test_a_bare_installation_writes_a_report(table: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    arguments = ["audit", str(table), "--weights", "constant", "-m", "16", "--output", str(report)]
    done = subprocess.run([sys.executable, "-c", BARE, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["WRONG:", "minimum", "negatives", "faults", "advice", "report"]
    assert set(done.stderr.split()) <= {"sumexp.companion", "sumexp.companion.cli"}  # none of the book's machinery
    assert sorted(p.name for p in tmp_path.iterdir()) == ["counts.csv", "report.csv", "report.html", "report.json"]


def test_the_page_stands_alone(tmp_path: Path) -> None:
    result = audit(COUNTS, weights="importance", hits="mask", m=16)
    csv, data, html = write(result, tmp_path / "r.html")
    text = html.read_text()

    class Reader(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.links: list[str] = []
            self.tags: list[str] = []

        def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
            self.tags.append(tag)
            self.links += [v or "" for k, v in attributes if k in ("href", "src")]

    reader = Reader()
    reader.feed(text)
    assert set(reader.links) == {"r.csv", "r.json"}
    assert reader.tags.count("svg") == 2
    assert "prefers-color-scheme:dark" in text
    assert "@media print" in text
    assert "Cannot tell" in text
    assert not re.search(r"\bnan\b|\binf\b", re.sub(r"<(style|script).*?</\1>", "", text))
    rows = csv.read_text().splitlines()
    assert len(rows) == 7
    assert rows[1].split(",")[-1].replace(".", "").isdigit()
    assert json.loads(data.read_text())["scheme"]["kl"] == pytest.approx(result.scheme.kl)


def test_no_report_is_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = audit(COUNTS, weights="relative", m=16)

    def fail(self: Path, target: Path) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(AuditError, match="no space left"):
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
        ("labels.csv", None), ("bare.csv", None), ("counts.tsv", None), ("counts.npy", None), ("labels.npy", "labels"),
        ("counts.parquet", None),
    ):  # fmt: skip
        assert counts(tmp_path / name, kind=kind).tolist() == [5, 3, 2, 4]
    assert counts(tmp_path / "labels.csv", classes=6).tolist() == [5, 3, 2, 4, 0, 0]
    (tmp_path / "words.csv").write_text("word\nthe\nof\nthe\na\n")
    assert counts(tmp_path / "words.csv").tolist() == [2, 1, 1]


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("a.csv", "count\n3\n-1\n2\n", "line 3: count is '-1'; a count is a whole number >= 0"),
        ("a.csv", "3\n1.5\n", "line 2: column0 is '1.5'"),
        ("a.csv", "count\n3\nmany\n", "line 3: count is 'many'"),
        ("a.csv", "label\n0\n-2\n", "line 3: label is '-2'; the classes are 0.."),
        ("a.csv", "", "a.csv is empty"),
        ("a.csv", "count\n", "a.csv has no rows"),
        ("a.csv", "x,y\n1,2\n", "has the columns x, y; say which with --column"),
        ("a.xls", "1", "ends in '.xls'"),
        ("a.npy", "1", "is no array in NumPy's format"),
        ("a.parquet", "1", "cannot be read as a table"),
    ],
)
def test_a_bad_file_is_one_line_and_code_1(
    name: str, text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(SystemExit) as ended:
        main([str(path), "-m", "4", "--output", str(tmp_path / "r.html")])
    assert ended.value.code == 1
    out, error = capsys.readouterr()
    assert out == ""
    [line] = error.splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert [p.name for p in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    "extra, message",
    [
        (["--column", "price"], "no column 'price'"),
        (["--classes", "7"], "60 rows, one for each class, but 7 classes"),
        (["--output", "r.pdf"], "must end in .html"),
        (["--output", "/nowhere/r.html"], "there is no folder /nowhere"),
        (["--scores", "none.npy"], "there is no file none.npy"),
        (["--sampler", "zipf"], "no sampler 'zipf'"),
    ],
)
def test_a_bad_option_is_one_line(
    extra: list[str], message: str, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([str(table), "-m", "4", *extra])
    assert ended.value.code == 1
    assert message in capsys.readouterr().err
