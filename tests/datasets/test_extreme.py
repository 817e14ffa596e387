"""The text format of the extreme-classification repository: by hand, every fault's place, and in bounded memory."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sumexp.datasets import DataError, MultiLabel, extreme

TEXT = "3 10 5\n3,1 0:0.5 9:1.25\n 2:1e-3\n4 \n"


def put(folder: Path, text: str, name: str = "train.txt") -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_by_hand(tmp_path: Path) -> None:
    data = extreme.read_extreme(put(tmp_path, TEXT), put(tmp_path, "1 10 5\n0 1:-2\n", "test.txt"))
    wanted = np.zeros((3, 10), dtype=np.float32)
    wanted[0, 0], wanted[0, 9], wanted[1, 2] = 0.5, 1.25, 1e-3
    assert (data.train.features.toarray() == wanted).all()
    assert data.train.labels.toarray().nonzero()[0].tolist() == [0, 0, 2]
    assert sorted(data.train.labels.toarray().nonzero()[1].tolist()) == [1, 3, 4]
    assert data.counts.tolist() == [0, 1, 0, 1, 1]
    assert data.test.features.toarray()[0, 1] == -2
    assert extreme.header(tmp_path / "train.txt") == (3, 10, 5)


@pytest.mark.parametrize(
    "text, fault",
    [
        ("", "line 1: expected three numbers .examples, features, labels., got ''"),
        *((text, "line 1: expected three numbers") for text in ("3 10\n", "3 10 5 1\n")),
        ("1 10 3000000000\n", "line 1: 3,000,000,000 features or labels; at most"),
        ("1 10 5\n1 2:x\n", "train.txt, line 2: expected labels and features such as '3,17 0:0.5 9:1.25', got '1 2:x"),
        ("2 10 5\n1 2:1\n1,,2 2:1\n", "line 3: expected labels and features"),
        *((f"1 10 5\n{line}\n", "line 2: expected labels") for line in ("1 2:1:3 4", "1 2:1.2.3", "1 2:nan", "-1 2:1")),
        ("2 10 5\n1 2:1\n\x00\xff\n", "line 3: expected labels"),
        ("2 10 5\n1 2:1\n3,1,3 2:1\n", "line 3: label 3 is there twice; name it once"),
        ("2 10 5\n1 2:1\n1 2:1 4:1 2:3\n", "line 3: feature 2 is there twice; name it once"),
        ("2 10 5\n1 2:1\n5 2:1\n", "line 3: label 5 is out of range; expected 0 to 4"),
        ("2 10 5\n1 2:1\n4 2:1 10:1\n", "line 3: feature 10 is out of range; expected 0 to 9"),
        ("1 10 5\n99999999999999999999 2:1\n", "line 2: label 1000.* is out of range"),
        ("1 10 0\n0 2:1\n", "line 2: label 0 is out of range; expected none"),
        ("1 10 5\n1 2:1e39\n", r"line 2: the value 1e\+39 is no finite number of 32 bits"),
        ("3 10 5\n1 2:1\n", "has 1 examples where its first line announces 3 .is it truncated"),
        ("1 10 5\n1 2:1\n1 2:1\n", "has 2 examples where its first line announces 1"),
    ],
)
@pytest.mark.parametrize("lines", [1, 2, 1000])
def test_faults_have_their_line(tmp_path: Path, text: str, fault: str, lines: int) -> None:
    path = put(tmp_path, text)
    with pytest.raises(DataError, match=fault):
        list(extreme.blocks(path, lines))


def test_a_part_that_does_not_fit(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        extreme.read_part(tmp_path)
    for text, fault in (("1 9 5\n0 1:2\n", "has 9 features where .*train.txt has 10"), ("1 10 4\n0 1:2\n", "4 labels")):
        with pytest.raises(DataError, match=fault):
            extreme.read_extreme(put(tmp_path, TEXT), put(tmp_path, text, "test.txt"))


example = st.tuples(
    st.lists(st.integers(0, 6), unique=True, max_size=4),
    st.dictionaries(st.integers(0, 8), st.floats(-1e6, 1e6, width=32), max_size=5),
)


@given(st.lists(example, max_size=7), st.integers(1, 9))
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory, data: list[tuple[list[int], dict[int, float]]], n: int
) -> None:
    lines = [",".join(map(str, labels)) + "".join(f" {i}:{v!r}" for i, v in values.items()) for labels, values in data]
    path = put(tmp_path_factory.getbasetemp(), "\n".join([f"{len(data)} 9 7", *lines, ""]))
    part = extreme.read_part(path)
    assert part.features.shape == (len(data), 9)
    for i, (labels, values) in enumerate(data):
        row = slice(part.labels.indptr[i], part.labels.indptr[i + 1])
        assert part.labels.indices[row].tolist() == labels
        assert part.features.toarray()[i].tolist() == [np.float32(values.get(j, 0)) for j in range(9)]
    assert sum(len(block.label_counts) for block in extreme.blocks(path, n)) == len(data)


def test_of_dense() -> None:
    x, y = np.array([[0, 2.5], [1, 0]], np.float32), np.array([[True, True, False], [False, False, True]])
    data = extreme.of_dense(MultiLabel(x, y, x[:1], y[:1], ("a", "b", "c")))
    assert data.counts.tolist() == [1, 1, 1]
    assert (data.train.features.toarray() == x).all()


STREAM = """
import resource, sys
from pathlib import Path
from sumexp.datasets import extreme
path = Path(sys.argv[1])
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
next(extreme.blocks(path))
before = peak()
lines = sum(len(block.label_counts) for block in extreme.blocks(path))
print(lines, peak() - before)
"""


def test_a_million_lines_take_no_more_memory_than_ten_thousand(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    with path.open("w") as stream:
        stream.write("1000000 50 1000\n")
        for start in range(0, 1_000_000, 100_000):
            stream.writelines(f"{i % 1000} {i % 50}:0.5\n" for i in range(start, start + 100_000))
    out = subprocess.run([sys.executable, "-c", STREAM, str(path)], capture_output=True, text=True, check=True).stdout
    lines, more = out.split()
    # All of it would be 12 bytes a line in the result, 12 MB, and over 100 MB as lines of Python.
    assert int(lines) == 1_000_000
    assert float(more) < 8


def test_a_long_number_is_read_in_linear_time(tmp_path: Path) -> None:
    """Its digits could be parted in two ways: 20,000 of them took 26 seconds."""
    path = put(tmp_path, "1 10 5\n1 2:" + "1" * 20_000 + "x\n")
    begin = time.process_time()
    with pytest.raises(DataError, match="line 2: expected labels"):
        extreme.read_part(path)
    assert time.process_time() - begin < 2
