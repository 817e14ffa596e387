"""The lines that the audit advises for other libraries, run as they stand where those are installed."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from sumexp.audit.advice import RECOMMENDERS

pytestmark = pytest.mark.peers


def test_the_lines_for_draws_in_tensorflow() -> None:
    """Log of the expected count off all logits, the positive's too, with hits kept: each example's softmax by hand."""
    tf = pytest.importorskip("tensorflow")
    generator = np.random.default_rng(0)
    counts, m = [50, 20, 10, 5], 6
    weights, biases, queries = (generator.normal(size=shape).astype("f") for shape in ((4, 3), (4,), (2, 3)))
    labels = np.array([[0], [3]])
    names = {
        "tf": tf, "labels": labels, "m": m, "classes": 4, "counts": counts, "weights": weights, "biases": biases,
        "queries": queries,
    }  # fmt: skip
    exec(RECOMMENDERS["draws"], names)
    ids = torch.from_numpy(names["drawn"][0].numpy())  # type: ignore[index]
    q = torch.tensor(counts) / sum(counts)
    assert (ids == 0).any()  # a hit of the first example, which is kept
    scores = torch.from_numpy(queries @ weights.T + biases) - (m * q).log()
    rows = torch.cat([scores.gather(1, torch.from_numpy(labels)), scores[:, ids]], 1)
    expected = F.cross_entropy(rows, torch.zeros(2, dtype=torch.long), reduction="none")
    torch.testing.assert_close(torch.from_numpy(names["loss"].numpy()), expected, rtol=1e-5, atol=1e-5)  # type: ignore[attr-defined]
