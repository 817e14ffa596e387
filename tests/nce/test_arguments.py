"""What the campaign of hostile arguments found in `nce`: raw errors of torch and Python."""

import pytest
import torch

from sumexp.nce import gaussians, global_nce, pairs


def test_raw_errors_are_one_clear_error() -> None:
    with pytest.raises(ValueError, match="log_p is 'values'"):
        pairs.gbce("values", 3, 0.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"scores is one number; it must be \[..., classes\]"):
        global_nce.recover(torch.tensor(1.0), torch.zeros(4).log_softmax(0))


def test_vectors_of_two_precisions_meet_in_the_higher_one() -> None:
    x, y = torch.tensor([[0.5, -1.0]]), torch.tensor([[1.0, 0.25]], dtype=torch.float64)
    assert torch.equal(gaussians.log_ratio(x, y, 0.5), gaussians.log_ratio(x.double(), y, 0.5))
