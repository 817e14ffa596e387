"""Small laws by all their draws: against the integrals, against perturbed data, and the least variance."""

import pytest
import torch
from torch import Tensor

from sumexp.negatives import consistency, enumerated, information, published
from sumexp.negatives.consistency import factors, multiset_losses
from sumexp.negatives.enumerated import draws, estimate


def logs(*law: float) -> Tensor:
    return torch.tensor(law, dtype=torch.float64).log()


P, Q = logs(0.5, 0.3, 0.2), logs(0.2, 0.3, 0.5)
CORRECTIONS = {
    "kept": (factors("relative", Q, 3), "keep"),
    "masked": (factors("relative", Q, 3), "mask"),
    "importance": (factors("importance", Q, 3), "mask"),
    "baseline": ((torch.zeros(3), -Q), "mask"),
}


def least(matrix: Tensor) -> float:
    """Its least eigenvalue."""
    return float(torch.linalg.eigvalsh(matrix).min())


@pytest.mark.parametrize("name", CORRECTIONS)
def test_the_integral_has_the_same_minimum(name: str) -> None:
    weights, hits = CORRECTIONS[name]
    by_integral = consistency.minimiser(multiset_losses(Q, 3, weights, hits), P.exp()).log_softmax(0)  # type: ignore[arg-type]
    assert torch.allclose(estimate(enumerated.LOSSES[name], P, Q, 3).log_f, by_integral, rtol=0, atol=1e-8)


@pytest.mark.claim("sumexp-refined", shows="statement", evidence="exact")
@pytest.mark.parametrize("m", [1, 3])
def test_refined_has_the_minimum_of_the_integral_over_the_draws_that_remain(m: int) -> None:
    by_integral = published.stationary("refined", P, Q, m)
    assert torch.allclose(estimate(enumerated.refined, P, Q, m).log_f, by_integral, rtol=0, atol=1e-8)


def test_kept_has_the_variance_of_its_information() -> None:
    got = estimate(enumerated.kept, P, Q, 3)
    expected = information.information(P, Q, 3)
    assert torch.allclose(got.spread, expected, rtol=1e-9)
    assert torch.allclose(got.covariance, information.variance(expected), rtol=1e-9)
    assert got.error(P) < 1e-12
    assert not got.log_f.requires_grad


@pytest.mark.parametrize("loss", [*enumerated.LOSSES.values(), enumerated.hard(0.7)])
def test_a_shift_changes_nothing_and_far_apart_the_largest_negative_decides(loss: enumerated.Loss) -> None:
    scores, (counts, _) = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64), draws(Q, 2)
    torch.testing.assert_close(loss(scores + 1e6, counts, Q), loss(scores, counts, Q), rtol=1e-14, atol=0)
    seen = torch.where((counts > 0) | (loss is enumerated.full), scores, -torch.inf)
    expected = (seen.amax(-1, keepdim=True) - scores).clamp_min(0)
    torch.testing.assert_close(loss(1e4 * scores, counts, Q) / 1e4, expected, rtol=0, atol=1e-3)


@pytest.mark.parametrize("name", ["masked", "refined"])
def test_the_covariance_is_the_effect_of_another_example(name: str) -> None:
    """A share of 1e-5 goes to one label and draw; what that moves, squared and averaged over all, is the variance."""
    loss = enumerated.LOSSES[name]
    got, share, total = estimate(loss, P, Q, 1), 1e-5, torch.zeros(3, 3, dtype=torch.float64)
    _, chance = draws(Q, 1)
    for label in range(3):
        for drawn in range(3):

            def mixed(scores: Tensor, counts: Tensor, log_q: Tensor) -> Tensor:
                cell = loss(scores, counts, log_q)
                extra = cell[drawn, label] * share / (1 - share)  # noqa: B023
                return cell + extra

            moved = estimate(mixed, P, Q, 1).log_f - got.log_f
            moved = (moved - moved.mean()) / share
            total += P[label].exp() * chance[drawn] * torch.outer(moved, moved)
    assert torch.allclose(total, got.covariance, rtol=1e-3, atol=1e-3)


def pairwise(scores: Tensor, counts: Tensor, log_q: Tensor) -> Tensor:
    """log q subtracted from every logit, each negative against the label by itself."""
    s = scores - log_q
    return counts @ torch.nn.functional.softplus(s.unsqueeze(1) - s)


@pytest.mark.claim("sumexp-kept-optimal", shows="statement", evidence="exact")
@pytest.mark.parametrize("seed", range(5))
def test_no_function_that_is_right_given_the_candidates_varies_less_than_kept(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    log_p, log_q = torch.randn(2, 3, generator=generator, dtype=torch.float64).log_softmax(-1)
    kept = estimate(enumerated.kept, log_p, log_q, 2).covariance
    by_pairs = estimate(pairwise, log_p, log_q, 2)
    assert by_pairs.error(log_p) < 1e-10
    # a weight for each unordered tuple: of the candidates' counts alone
    weight = torch.rand(7, 7, 7, generator=generator, dtype=torch.float64) + 0.05

    def weighted(scores: Tensor, counts: Tensor, log_q: Tensor) -> Tensor:
        candidates = (counts.unsqueeze(1) + torch.eye(3)).long()  # [multisets, labels, classes]
        return weight[candidates.unbind(-1)] * enumerated.kept(scores, counts, log_q)

    by_weights = estimate(weighted, log_p, log_q, 2)
    assert by_weights.error(log_p) < 1e-10
    for other in (by_pairs, by_weights):
        assert least(other.covariance - kept) > -1e-9
        assert (other.covariance - kept).trace() > 1e-3


@pytest.mark.claim("sumexp-kept-optimal", shows="statement", evidence="exact")
def test_the_full_softmax_varies_less() -> None:
    kept, full = (estimate(loss, P, Q, 2).covariance for loss in (enumerated.kept, enumerated.full))
    assert least(kept - full) > -1e-12
    assert (kept - full).trace() > 0.5


@pytest.mark.claim("sumexp-refined-variance", shows="statement", evidence="exact")
@pytest.mark.parametrize("laws", [
    (logs(0.6, 0.25, 0.1, 0.05), logs(0.1, 0.2, 0.3, 0.4)),
    (logs(0.5, 0.3, 0.15, 0.05), logs(0.4, 0.3, 0.2, 0.1)),
    (logs(0.28, 0.26, 0.24, 0.22), logs(0.4, 0.3, 0.2, 0.1)),
    (logs(0.45, 0.35, 0.15, 0.05), logs(0.25, 0.25, 0.25, 0.25)),
])  # fmt: skip
def test_refined_varies_more_than_kept_and_is_biased(laws: tuple[Tensor, Tensor]) -> None:
    for m in (1, 4):
        kept, refined = (estimate(enumerated.LOSSES[name], *laws, m) for name in ("kept", "refined"))
        assert refined.relative_variance(laws[0]) > 1.2 * kept.relative_variance(laws[0])
        assert refined.error(laws[0]) > 0.1 > 1e-10 > kept.error(laws[0])


@pytest.mark.claim("sumexp-refined-rate", shows="statement", evidence="exact")
@pytest.mark.parametrize("scheme", ["refined", "importance"])
def test_the_first_order_in_one_over_m(scheme: str) -> None:
    """What is left falls by 4 as m doubles, up to the next order."""
    expected = published.first_order(scheme, P, Q)  # type: ignore[arg-type]
    rests = [
        (estimate(enumerated.LOSSES[scheme], P, Q, m).log_f - P - expected / m).abs().max().item() for m in (40, 80)
    ]
    assert rests[0] / rests[1] == pytest.approx(4, rel=0.1)
    assert expected.abs().max() > 0.3


@pytest.mark.claim("sumexp-refined-rate", shows="statement", evidence="exact")
def test_over_many_rare_classes_refined_is_the_old_correction_to_first_order() -> None:
    log_p = -torch.arange(1, 10_001, dtype=torch.float64).log()
    log_p = log_p.log_softmax(0)
    log_q = torch.full_like(log_p, 1e-4).log()
    refined, old = (published.first_order(scheme, log_p, log_q) for scheme in ("refined", "importance"))  # type: ignore[arg-type]
    assert ((refined - old).abs().max() / old.abs().max()) < 1e-4 * 1.01


@pytest.mark.claim("sumexp-refined-rate", shows="statement", evidence="exact")
def test_with_draws_from_the_law_of_labels_refined_is_biased_by_examples_without_a_negative() -> None:
    """The largest q is 0.5: four more draws divide the error by 16."""
    few, more = (estimate(enumerated.refined, P, P, m).error(P) for m in (12, 16))
    assert few / more == pytest.approx(16, rel=0.02)
