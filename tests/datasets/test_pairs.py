"""Users and items: a small split that the tests write, every fault with its message, and Gowalla itself."""

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from sumexp import datasets
from sumexp.datasets import DataError, pairs

TRAIN = np.array([[1, 0, 1], [0, 1, 0]])
TEST = "0 1\n1 2 0\n"


def put(folder: Path, train: np.ndarray = TRAIN, test: str = TEST) -> tuple[Path, Path]:
    users, items = train.shape
    graph = np.block([[np.zeros((users, users)), train], [train.T, np.zeros((items, items))]])
    sparse.save_npz(folder / "graph.npz", sparse.csr_matrix(graph))
    (folder / "test.txt").write_text(test)
    return folder / "graph.npz", folder / "test.txt"


def test_a_split_by_hand(tmp_path: Path) -> None:
    found = pairs.read_interactions(*put(tmp_path))
    assert found.train.toarray().tolist() == [[True, False, True], [False, True, False]]
    assert found.test.toarray().tolist() == [[False, True, False], [True, False, True]]
    assert found.counts.tolist() == found.served.tolist() == [1, 1, 1]
    assert found.train.dtype == found.test.dtype == bool
    none = pairs.read_interactions(*put(tmp_path, test="0\n1 2\n"))  # a user without test pairs
    assert none.served.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    "test, fault",
    [
        ("", "test.txt is empty"),
        ("0 1\n2 0\n", "line 2: expected user 1 and its items, in whole numbers, got '2 0"),
        ("0 1\n\n", "line 2: expected user 1"),
        ("0 1\n1 x\n", "line 2: expected user 1"),
        ("0 1\n1 -2\n", "line 2: expected user 1"),
        ("0 1\n1 ²\n", "line 2: expected user 1"),
        ("0 1\n1 99999999999999999999\n", "line 2: expected user 1"),
        ("0 1\n1 3\n", "line 2: item 3 is none of the 3, counted from 0"),
        ("0 1\n1 2 0 2\n", "line 2: item 2 stands there twice"),
        ("0 1\n1 1\n", "user 1 has item 1, which is a training pair"),
        ("0 1\n", "does not join 1 users to 4 items alone, both ways"),
        ("".join(f"{user}\n" for user in range(5)), "5 users and items, but .* a line for 5 users"),
    ],
)
def test_lines_that_are_none(tmp_path: Path, test: str, fault: str) -> None:
    with pytest.raises(DataError, match=fault):
        pairs.read_interactions(*put(tmp_path, test=test))


def test_graphs_that_are_none(tmp_path: Path) -> None:
    graph, test = put(tmp_path)
    with np.load(graph) as file:
        good = {name: file[name] for name in file.files}
    for change, fault in (
        ({"indices": good["indices"] + 7}, "is no sparse matrix in SciPy's format"),
        ({"indptr": good["indptr"][:-1]}, "is no sparse matrix in SciPy's format"),
        ({"shape": np.array([10**12, 10**12])}, "is no sparse matrix in SciPy's format"),
        ({"shape": np.array([5, 6])}, "expected b'csr', square"),
        ({"format": np.array(b"coo")}, "its format is b'coo'"),
        ({"data": np.zeros_like(good["data"])}, "an entry that is 0"),
        ({"data": good["data"][:-1]}, "not one for each index"),
        ({"indices": good["indices"][[0, 0, *range(2, len(good["indices"]))]]}, "has a pair more than once"),
        ({"data": np.array([{}], dtype=object)}, "Object arrays cannot be loaded"),
        ({"shape": None}, "lacks the array 'shape'"),
    ):
        np.savez(graph, **{name: value for name, value in (good | change).items() if value is not None})
        with pytest.raises(DataError, match=fault):
            pairs.read_interactions(graph, test)
    graph.write_bytes(b"no zip")
    with pytest.raises(DataError, match="is not a readable npz file"):
        pairs.read_interactions(graph, test)
    one_way = np.zeros((5, 5))
    one_way[0, 2] = 1
    sparse.save_npz(graph, sparse.csr_matrix(one_way))
    with pytest.raises(DataError, match="does not join 2 users to 3 items alone, both ways"):
        pairs.read_interactions(graph, test)


@pytest.fixture(scope="module")
def gowalla() -> pairs.Interactions:
    """The data set itself, found as anyone would find it."""
    if not datasets.available("gowalla"):
        pytest.skip("Gowalla is not here; to download it, run: sumexp data fetch gowalla")
    return datasets.gowalla()


def test_gowalla_itself(gowalla: pairs.Interactions) -> None:
    assert gowalla.train.shape == gowalla.test.shape == (29_858, 40_981)
    assert (gowalla.train.nnz, gowalla.test.nnz) == (810_128, 217_242)
    assert (gowalla.counts.min(), gowalla.counts.max(), np.median(gowalla.counts)) == (1, 1_415, 12)
    assert {7580, 3730, 5983, 5990} <= set(gowalla.test[[0]].indices)  # as the file's first line has it
