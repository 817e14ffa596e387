"""Head or tail: the classes that each loss favours, by bound and by exact implicit loss, and in a training run."""

import math

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sumexp import functional, negatives, samplers
from sumexp.chapters import intervals
from sumexp.datasets import digits
from sumexp.negatives.consistency import minimiser
from sumexp.negatives.schemes import Weights
from sumexp.samplers import Hits
from tests.complete import State
from tests.negatives.search import implicit_losses, searched

PI = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)
LOG_PI = PI.log()
EQUAL = torch.full((3,), 1 / 3, dtype=torch.float64)
SKEWED = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)


def centred(scores: Tensor) -> Tensor:
    return scores - scores.mean()


def bound_minimiser(log_q: Tensor, weights: Weights, m: int, hits: Hits, posterior: Tensor = EQUAL) -> Tensor:
    """The population minimiser of the bound (11)."""
    classes = range(len(posterior))
    log_rho = torch.stack([negatives.scheme(log_q, y, m, weights, hits, prior=LOG_PI).log_rho for y in classes])
    return searched(negatives.margin_losses(log_rho), posterior)


def exact_minimiser(log_q: Tensor, weights: Weights, m: int, hits: Hits, posterior: Tensor = EQUAL) -> Tensor:
    """The population minimiser of the exact implicit loss."""
    schemes = [negatives.scheme(log_q, y, m, weights, hits, prior=LOG_PI) for y in range(len(posterior))]
    return searched(implicit_losses(schemes), posterior)


@pytest.mark.claim("negatives-logit-adjusted", shows="statement", evidence="proof")
def test_the_logit_adjusted_loss_is_the_cross_entropy_of_shifted_scores() -> None:
    # log(1 + sum pi_y'/pi_y e^{f_y' - f_y}) = log sum pi e^f - log(pi_y e^{f_y}): the cross entropy of f + log pi. Its
    # population minimiser is softmax(f + log pi) = P, so f = log P - log pi; the margin log rho is large for rare y.
    f, g, h = sp.symbols("f g h", real=True)
    a, b, c = sp.symbols("a b c", positive=True)  # pi of the label and of two negatives
    loss = 1 + b / a * sp.exp(g - f) + c / a * sp.exp(h - f)
    assert sp.simplify(loss - (a * sp.exp(f) + b * sp.exp(g) + c * sp.exp(h)) / (a * sp.exp(f))) == 0


@pytest.mark.claim("negatives-logit-adjusted", shows="statement", evidence="quadrature")
@settings(deadline=None, max_examples=25)
@given(st.lists(st.floats(0.01, 1), min_size=4, max_size=4), st.lists(st.floats(0.01, 1), min_size=4, max_size=4))
def test_the_logit_adjusted_minimiser(prior: list[float], posterior: list[float]) -> None:
    pi, p = (torch.tensor(v, dtype=torch.float64) / sum(v) for v in (prior, posterior))
    log_rho = functional.logit_adjusted(pi.log().unsqueeze(-1), pi.log())
    got = searched(negatives.margin_losses(log_rho), p)
    assert torch.allclose(got, centred(p.log() - pi.log()), atol=1e-7)


@pytest.mark.claim("negatives-balanced-error", shows="statement", evidence="proof")
def test_the_minimum_of_the_equalised_bound_in_closed_form() -> None:
    # Slope of sum_y P_y (log D_y - f_y) in f_k, D_y = S + (1 - pi_y) z_y: P_k is proportional to pi_k z_k D_k.
    S, A, P, z, a, b = sp.symbols("S A P z a b", positive=True)
    rest = A - P / (S + (1 - a) * z)  # sum of P_y / D_y over the other labels
    slope = a * z * rest + P * z / (S + (1 - a) * z) - P
    (solution,) = sp.solve(slope, P)
    assert sp.simplify(solution - A / S * a * z * (S + (1 - a) * z)) == 0
    # At equal scores the more frequent label, a > b, has the larger P and the smaller P / pi.
    more = a * z * (S + (1 - a) * z) - b * z * (S + (1 - b) * z)
    assert sp.expand(more - (a - b) * z * (S + (1 - a - b) * z)) == 0
    assert sp.expand(z * (S + (1 - a) * z) - z * (S + (1 - b) * z) + (a - b) * z**2) == 0


@pytest.mark.claim("negatives-balanced-error", shows="statement", evidence="quadrature")
def test_the_equalised_bound_trades_the_error_of_examples_for_that_of_labels() -> None:
    """Five x of equal probability, four labels: a chosen label that is not the likeliest is rarer, of larger P / pi."""
    generator, moved = torch.Generator().manual_seed(0), 0
    for spread in torch.linspace(0.2, 3, 12, dtype=torch.float64):
        noise = torch.randn(5, 4, generator=generator, dtype=torch.float64)
        posterior = (spread * noise - 0.7 * torch.arange(4)).softmax(-1)
        prior = posterior.mean(0)
        losses = negatives.margin_losses(prior.log().expand(4, 4))
        z = torch.stack([minimiser(losses, p) for p in posterior]).exp()
        closed = prior * z * ((prior * z).sum(-1, keepdim=True) + (1 - prior) * z)
        torch.testing.assert_close(closed / closed.sum(-1, keepdim=True), posterior, rtol=1e-6, atol=0)
        chosen, likely = (each.argmax(-1, keepdim=True) for each in (z, posterior))
        apart, ratio = chosen != likely, posterior / prior
        assert (prior[chosen] < prior[likely])[apart].all()
        assert (ratio.gather(1, chosen) > ratio.gather(1, likely))[apart].all()
        moved += int(apart.sum())
    assert moved >= 10


@pytest.mark.claim("negatives-cheap-draws", shows="statement", evidence="proof")
def test_the_models_distribution_alone_depends_on_the_scores() -> None:
    # d q_i / d f_k = q_i ([i = k] - q_k) is not 0: each probability takes all L scores. 1/L and pi have no score in
    # them, and the labels of a batch are draws from pi that are there already.
    f, g = sp.symbols("f g", real=True)
    rest = sp.symbols("rest", positive=True)
    q = sp.exp(f) / (sp.exp(f) + sp.exp(g) + rest)
    other = sp.exp(g) / (sp.exp(f) + sp.exp(g) + rest)
    assert sp.simplify(sp.diff(q, f) - q * (1 - q)) == 0
    assert sp.simplify(sp.diff(q, g) + q * other) == 0


@pytest.mark.claim("negatives-ldam", shows="counterexample", evidence="exact")
def test_printed_ldam_margins_are_not_those_of_the_loss() -> None:
    # D14. With 1, 16 and 81 examples LDAM's margins are as 1 : 1/2 : 1/3. With rho = C pi^{-1/4}, as printed, they are
    # log C minus 0, log 2 and log 3: no C gives these ratios, nor does any shift and scale.
    published = [sp.Integer(n) ** sp.Rational(-1, 4) for n in (1, 16, 81)]
    assert published == [1, sp.Rational(1, 2), sp.Rational(1, 3)]
    printed = [-sp.log(n) / 4 for n in (1, 16, 81)]
    steps = [(values[1] - values[0]) / (values[2] - values[1]) for values in (published, printed)]
    assert steps[0] == 3
    assert sp.simplify(steps[1] - sp.log(2) / sp.log(sp.Rational(3, 2))) == 0
    assert steps[1].evalf() < 2


@pytest.mark.claim("negatives-ldam", shows="correction", evidence="proof")
def test_the_quarter_power_is_that_of_a_margin() -> None:
    # The power comes from the best split of a margin g + h between two classes of a and b examples with the error bound
    # 1/(g sqrt a) + 1/(h sqrt b): the slopes agree for g : h = a^{-1/4} : b^{-1/4}. So what is as pi^{-1/4} is a gap of
    # scores. LDAM lowers the label's score by it before the cross entropy, which makes the margin log rho.
    g, h, a, b, f, s, margin = sp.symbols("g h a b f s margin", positive=True)
    bound = 1 / (g * sp.sqrt(a)) + 1 / (h * sp.sqrt(b))
    slopes = (sp.diff(bound, g) - sp.diff(bound, h)).subs({g: a ** sp.Rational(-1, 4), h: b ** sp.Rational(-1, 4)})
    assert sp.simplify(slopes) == 0
    lowered = sp.log(sp.exp(f - margin) + s) - (f - margin)
    assert sp.simplify(sp.exp(lowered) - (1 + sp.exp(margin) * s * sp.exp(-f))) == 0


@pytest.mark.claim("negatives-ldam", shows="correction", evidence="quadrature")
def test_the_adaptive_margins_are_the_cross_entropy_of_a_lowered_label() -> None:
    logits = torch.tensor([[0.3, -1.0, 2.0]], dtype=torch.float64)
    for y in range(3):
        log_rho = functional.adaptive(LOG_PI[y], 0.3)
        assert log_rho.item() == pytest.approx(0.3 * PI[y].item() ** -0.25, rel=1e-14)
        lowered = logits.clone()
        lowered[0, y] -= log_rho
        label = torch.tensor([y])
        ours = functional.pairwise_margin(logits, label, log_rho, reduction="sum")
        assert ours.item() == pytest.approx(functional.cross_entropy(lowered, label).item(), rel=1e-14)


priors = st.lists(st.floats(0.02, 1), min_size=3, max_size=5, unique=True).map(
    lambda v: torch.tensor(sorted(v, reverse=True), dtype=torch.float64) / sum(v)
)


def rises(scores: Tensor) -> bool:
    """From head to tail."""
    return bool((scores.diff() > -1e-9).all()) and bool(scores[-1] > scores[0])


@pytest.mark.claim("negatives-t2-batch-constant", shows="statement", evidence="quadrature")
@pytest.mark.claim("negatives-eq-13-tail", shows="statement", evidence="quadrature")
@settings(deadline=None, max_examples=20)
@given(priors)
def test_the_equalised_loss_favours_the_tail(pi: Tensor) -> None:
    equal = torch.full_like(pi, 1 / len(pi))
    assert rises(searched(negatives.margin_losses(functional.equalised(pi.log())), equal))


@pytest.mark.claim("negatives-eq-13-tail", shows="statement", evidence="proof")
def test_at_equal_posteriors_scores_fall_as_the_weight_of_a_negative_rises() -> None:
    # rho_yy' = r_y' in (0, 1), increasing in pi_y'. With u = e^f, Z = sum r u, W = sum 1/(u (1 - r) + Z) the slope of
    # the risk in f_k is r u W - Z/(u (1 - r) + Z), so that h = r u W (u (1 - r) + Z) - Z vanishes for all k. Z and W
    # are common to all: h rises in u and in r (as Z >= r u), so u falls as r rises.
    u, r, Z, W, rest = sp.symbols("u r Z W rest", positive=True)
    label_loss = sp.log(u * (1 - r) + Z) - sp.log(u)  # the loss of label k; in the others f_k enters through Z
    slope = u * (sp.diff(label_loss, u) + r * (1 / (u * (1 - r) + Z) + (W - 1 / (u * (1 - r) + Z))))
    assert sp.simplify(slope - (r * u * W - Z / (u * (1 - r) + Z))) == 0
    h = r * u * W * (u * (1 - r) + Z) - Z
    share = sp.symbols("share", positive=True)  # r = 1/(1 + share) is any number in (0, 1)
    inside = {r: 1 / (1 + share)}
    assert sp.expand(sp.simplify(sp.diff(h, u).subs(inside) * (1 + share) ** 2)).is_positive
    with_rest = sp.diff(h, r).subs(Z, r * u + rest).subs(inside)
    assert sp.expand(sp.simplify(with_rest * (1 + share))).is_positive


@pytest.mark.claim("negatives-eq-14-head", shows="statement", evidence="proof")
def test_at_equal_posteriors_relative_weights_give_the_larger_score_to_the_larger_prior() -> None:
    # Loss of y: log(1 + c_y v_y), c_y = m pi_y, v_y = S/u_y - 1, S = sum u. If c_a > c_b and u_a < u_b, exchanging the
    # two scores leaves S and all other labels alone and lowers (1 + c_a v_a)(1 + c_b v_b). So u_a >= u_b at the
    # minimum; and not u_a = u_b, for there the slopes u V - c S/(u (1 - c) + c S) differ, being monotone in c.
    a, b, v, more, u, S, c = sp.symbols("a b v more u S c", positive=True)
    before = (1 + (a + b) * (v + more)) * (1 + b * v)  # c_a = a + b > b = c_b, v_a = v + more > v = v_b
    after = (1 + (a + b) * v) * (1 + b * (v + more))
    assert sp.expand(before - after) == a * more
    assert sp.simplify(sp.diff(c * (S + u) / (u * (1 - c) + c * (S + u)), c)).is_positive  # S + u: more than u alone


@pytest.mark.claim("negatives-t2-uniform-tail", shows="statement", evidence="quadrature")
@pytest.mark.claim("negatives-t2-batch-tail", shows="statement", evidence="quadrature")
def test_tail_weights_favour_the_tail_by_the_prior() -> None:
    for log_q in (negatives.uniform(3), LOG_PI):
        for hits in ("redraw", "mask"):
            got = bound_minimiser(log_q, "tail", 4, hits)  # type: ignore[arg-type]
            assert torch.allclose(got, centred(-LOG_PI), atol=1e-9)


@pytest.mark.claim("negatives-t2-batch-relative", shows="statement", evidence="quadrature")
@pytest.mark.claim("negatives-eq-14-head", shows="statement", evidence="quadrature")
@settings(deadline=None, max_examples=20)
@given(priors, st.sampled_from([1, 4, 64]))
def test_the_loss_of_relative_weights_favours_the_head(pi: Tensor, m: int) -> None:
    log_rho = math.log(m) + pi.log().unsqueeze(-1).expand(-1, len(pi))
    equal = torch.full_like(pi, 1 / len(pi))
    assert rises(searched(negatives.margin_losses(log_rho), equal).flip(0))


@pytest.mark.claim("negatives-uniform-downweight", shows="statement", evidence="quadrature")
def test_down_weighted_negatives_keep_the_order_of_the_scores() -> None:
    log_uniform = negatives.uniform(3)
    got = bound_minimiser(log_uniform, "constant", 5, "mask", SKEWED)
    full = centred(SKEWED.log())
    assert torch.equal(got.argsort(), full.argsort())
    assert bool((got.diff().abs() < full.diff().abs()).all())  # compressed
    # For every P: with u = e^f and c < 1 it is proportional to u ((1 - c) u + c sum u), more than proportional to u.
    u = got.exp()
    assert torch.allclose(SKEWED, (u * (2 * u + u.sum())) / (u * (2 * u + u.sum())).sum(), atol=1e-8)
    weighed_full = bound_minimiser(log_uniform, "importance", 5, "mask", SKEWED)
    assert torch.allclose(weighed_full, full, atol=1e-9)


def test_one_negative_of_the_batch_with_constant_weights_is_logit_adjustment() -> None:
    # m = 1, w = 1: the risk is a sum over pairs, P_y pi_y' softplus(-d) + P_y' pi_y softplus(d) with d = f_y - f_y',
    # each least at e^d = P_y pi_y' / (P_y' pi_y). So the exact minimiser is log P/pi, that of the logit-adjusted loss,
    # where the bound says the equalised loss.
    d, p, q = sp.symbols("d p q", positive=True)
    risk = p * sp.log(1 + sp.exp(-d)) + q * sp.log(1 + sp.exp(d))
    assert sp.simplify(sp.diff(risk, d).subs(d, sp.log(p / q))) == 0
    for posterior in (EQUAL, SKEWED):
        got = exact_minimiser(LOG_PI, "constant", 1, "mask", posterior)
        assert torch.allclose(got, centred(posterior.log() - LOG_PI), atol=1e-9)
    assert not torch.allclose(got, bound_minimiser(LOG_PI, "constant", 1, "mask", SKEWED), atol=0.1)


@pytest.mark.parametrize("hits", ["redraw", "mask"])
def test_importance_weights_favour_the_tail_while_m_is_small(hits: Hits) -> None:
    # Their bound is the cross entropy, which favours none; their exact loss leans to the tail by O(1/m).
    gaps = []
    for m in (1, 16, 64):
        got = exact_minimiser(LOG_PI, "importance", m, hits)
        assert rises(got)
        gaps.append((got[-1] - got[0]).item())
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-2] / gaps[-1] == pytest.approx(4, rel=0.15)
    assert bound_minimiser(LOG_PI, "importance", 1, hits).abs().max() < 1e-9


def test_relative_weights_favour_none_with_one_negative() -> None:
    # A pair's risk has the slope -q p/(p + q) + p q/(p + q) = 0 at equal scores.
    assert exact_minimiser(LOG_PI, "relative", 1, "mask").abs().max() < 1e-9
    assert rises(exact_minimiser(LOG_PI, "relative", 64, "mask").flip(0))


def test_minimisers_of_exact_loss_and_bound_meet_as_m_grows() -> None:
    for weights in ("constant", "tail"):
        far, near = (
            (exact_minimiser(LOG_PI, weights, m, "mask") - bound_minimiser(LOG_PI, weights, m, "mask")).norm().item()
            for m in (16, 256)
        )
        assert far / near == pytest.approx(16, rel=0.2)


def accuracy(hits: Hits, seed: int) -> float:
    """Of softmax regression on digits after 250 steps on the sampled loss with uniform, constant weights and m = 3."""
    data = digits()
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(data.labels), generator=generator)
    images = torch.as_tensor(data.images, dtype=torch.float32)[order]
    labels = torch.as_tensor(data.labels)[order].long()
    weight = torch.zeros(10, images.shape[1], requires_grad=True)
    for _ in range(250):
        rows = torch.randint(1347, (64,), generator=generator)
        ids, log_q, hit = samplers.draw(samplers.Uniform(10), labels[rows], 3, hits=hits, generator=generator)
        logits = images[rows] @ weight.T
        positive, others = logits.gather(1, labels[rows, None]).squeeze(1), logits.gather(1, ids)
        loss = functional.sampled_softmax(positive, others, weights=samplers.constant(log_q, 3), hits=hit)
        (slope,) = torch.autograd.grad(loss, weight)
        with torch.no_grad():
            weight -= 0.5 * slope
    return float((images[1347:] @ weight.T).argmax(1).eq(labels[1347:]).float().mean())


@pytest.mark.claim("negatives-remark-6", shows="statement", evidence="experiment")
def test_the_two_conventions_perform_similarly_on_digits(finding: State) -> None:
    # Held-out accuracy, paired over 6 seeds; "similarly" is read as within one point: the interval must lie within it.
    masked, redrawn = (np.array([accuracy(hits, seed) for seed in range(6)]) for hits in ("mask", "redraw"))
    apart = intervals.paired(masked, redrawn, intervals.family_confidence("negatives"))
    finding(apart, (-0.01, 0.01))
    assert masked.min() > 0.9
