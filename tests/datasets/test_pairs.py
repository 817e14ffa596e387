"""Users and items: a small split that the tests write, and Gowalla itself."""

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from sumexp import datasets
from sumexp.datasets import pairs

TRAIN = np.array([[1, 0, 1], [0, 1, 0]])
TEST = "0 1\n1 2 0\n"


def put(folder: Path, train: np.ndarray = TRAIN, test: str = TEST) -> tuple[Path, Path]:
    users, items = train.shape
    graph = np.block([[np.zeros((users, users)), train], [train.T, np.zeros((items, items))]])
    sparse.save_npz(folder / "graph.npz", sparse.csr_matrix(graph))
    (folder / "test.txt").write_text(test)
    return folder / "graph.npz", folder / "test.txt"


def test_a_split_by_hand(tmp_path: Path) -> None:
    split = pairs.read_interactions(*put(tmp_path))
    assert split.train.toarray().tolist() == [[True, False, True], [False, True, False]]
    assert split.test.toarray().tolist() == [[False, True, False], [True, False, True]]
    assert split.counts.tolist() == split.served.tolist() == [1, 1, 1]
    assert split.train.dtype == split.test.dtype == bool
    none = pairs.read_interactions(*put(tmp_path, test="0\n1 2\n"))  # a user without test pairs
    assert none.served.tolist() == [0, 0, 1]


def test_gowalla_itself() -> None:
    if not datasets.available("gowalla"):
        pytest.skip("Gowalla is missing; to download it, run: sumexp data fetch gowalla")
    gowalla = datasets.gowalla()
    assert gowalla.train.shape == gowalla.test.shape == (29_858, 40_981)
    assert (gowalla.train.nnz, gowalla.test.nnz) == (810_128, 217_242)
    assert (gowalla.counts.min(), gowalla.counts.max(), np.median(gowalla.counts)) == (1, 1_415, 12)
    assert {7580, 3730, 5983, 5990} <= set(gowalla.test[[0]].indices)  # as the file's first line has it
