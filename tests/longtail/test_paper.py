"""Section 5.1 of the paper on negatives: its settings by arithmetic, its findings by runs (rules: `longtail.grids`)."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sumexp.chapters import intervals
from sumexp.chapters.intervals import Decision, Interval, Published, interval
from sumexp.chapters.longtail import grids
from sumexp.chapters.longtail.grids import Config
from sumexp.chapters.longtail.images import counts
from sumexp.chapters.models.sampled import comparison
from sumexp.chapters.models.sampled.comparison import Values, difference
from sumexp.chapters.models.sampled.groups import Group, groups
from sumexp.chapters.models.sampled.methods import LAWS, SCHEMES, Law, Loss, Method, Weighting
from sumexp.datasets.labelled import Imbalance, imbalanced_counts
from sumexp.functional import CONTRASTIVE
from tests.complete import State, complete, of_one_mind


def test_the_published_profiles() -> None:
    # Head 100 or more, tail below 20; the numbers themselves are held in the tests of `imbalanced_counts`.
    exp, step = (groups(imbalanced_counts(kind, 100, 500, 100), "numbers") for kind in grids.IMBALANCES)
    assert {name: mask.sum() for name, mask in exp.items()} == {"head": 35, "torso": 35, "tail": 30}
    assert set(step) == {"head", "tail"}


@pytest.mark.claim("negatives-contrastive", shows="counterexample", evidence="exact")
def test_the_printed_margin_penalises_negative_cosines() -> None:
    # D9. varphi(z) = [z]_+^2 as printed is taken at -f: of cosines 0.5 and -0.5 it charges the second, which is right.
    def printed(z: torch.Tensor) -> torch.Tensor:
        return z.relu().square()

    f = torch.tensor([0.5, -0.5])
    assert printed(-f).tolist() == [0.0, 0.25]


@pytest.mark.claim("negatives-contrastive", shows="correction", evidence="exact")
def test_the_corrected_margin_penalises_positive_cosines() -> None:
    # (1 - f_y)^2 + sum of [f]_+^2: for f_y = 0.25 and negatives 0.5, -0.5 it is 0.5625 + 0.25.
    f = torch.tensor([0.5, -0.5])
    assert CONTRASTIVE.negative(-f).tolist() == [0.25, 0.0]
    assert CONTRASTIVE.positive(torch.tensor(0.25)).item() == 0.5625


STANDARD: tuple[Weighting, ...] = ("constant", "importance", "relative")
BELOW: Published = (None, 0)
ABOVE: Published = (0, None)
LOSSES: tuple[Loss, ...] = ("contrastive", "softmax")
BASE, FEWEST, MOST = grids.PLANS["cpu"]["cifar-100"].negatives
METHODS = grids.methods((BASE, FEWEST, MOST))
SAMPLED: Sequence[tuple[Law, Weighting, int]] = [(law, w, BASE) for law in LAWS for w in SCHEMES]


@dataclass(frozen=True)
class Found:
    """The runs of a profile: errors of each method that a rule compares [seeds, C], and groups of classes."""

    profile: str
    keys: tuple[str, ...]
    errors: Mapping[Method, Values]
    members: Mapping[Group, NDArray[np.bool_]]


def asked(imbalance: Imbalance, compared: Collection[Method]) -> Iterator[tuple[str, Sequence[Config]]]:
    """Profiles, and their runs on CIFAR-100 with all methods that a rule compares: the paper's network first."""
    large = (("paper", grids.networks(source.__eq__)) for source in ("cifar-100", "cifar-100-lt"))
    small = ((name, grids.configs(*each)) for name in ("paper", "cpu") for each in grids.PLANS[name].items())
    for name, configs in (*large, *small):
        if kept := [c for c in configs if c.imbalance == imbalance and set(compared) <= set(c.methods)]:
            yield name, kept


@cache
def confirming() -> Found | None:
    """The runs of the confirmation, of the largest profile that is complete."""
    every = ((name, grids.confirmation(*each)) for name in ("paper", "cpu") for each in grids.PLANS[name].items())
    return _first(every, (Method(), at("batch", "constant")))


def _first(every: Iterable[tuple[str, Sequence[Config]]], compared: Collection[Method]) -> Found | None:
    for profile, configs in every:
        if configs and (runs := complete(grids.task(configs[0]), configs, grids.data)):
            [errors] = grids.gathered(zip(configs, (run.arrays["errors"] for run in runs), strict=True)).values()
            members = groups(counts(configs[0].source, configs[0].imbalance), "numbers")
            return Found(profile, tuple(run.key for run in runs), {m: errors[m] for m in compared}, members)
    return None


@cache
def cached(imbalance: Imbalance, compared: tuple[Method, ...] = METHODS) -> Found:
    """The runs that decide a rule on an imbalance, the first that are complete; skip if none are."""
    if runs := _first(asked(imbalance, compared), compared):
        return runs
    pytest.skip("not all runs of the profiles cpu or paper on CIFAR-100 are in the store: make runs GRID=longtail")


def test_the_residual_network_decides_only_rules_all_of_whose_methods_it_has() -> None:
    def deciding(imbalance: Imbalance, compared: Sequence[Method]) -> list[tuple[str, str]]:
        return [(name, runs[0].source) for name, runs in asked(imbalance, compared)]

    small = [(name, source) for name in ("paper", "cpu") for source in ("cifar-100", "cifar-100-small")]
    assert deciding("exp", grids.FIGURE_1) == [("paper", "cifar-100"), ("paper", "cifar-100-lt"), *small]
    # With a method more, of another m or with hits kept or of the other loss, it is left out; so it is on STEP.
    for more in (at("batch", "tail", MOST), replace(at("batch", "tail"), hits="keep"), Method("contrastive")):
        assert deciding("exp", [Method(), more]) == small
    assert deciding("exp", METHODS) == deciding("step", grids.FIGURE_1) == small


CONFIDENCE = intervals.family_confidence("longtail")
"""Of each interval that decides: nine claims share 5 %."""


def state(finding: State, runs: Found, decided: Decision, published: Published) -> None:
    """State what decides; the register says what it says of the paper."""
    finding(decided.interval, published, margin=grids.ALIKE, data="cifar-100", profile=runs.profile, keys=runs.keys)


def all_below(finding: State, runs: Found, differences: Sequence[Interval], parts: int = 2) -> None:
    """State what decides whether all lie below zero; so many `parts`, each imbalance one, decide the claim."""
    state(finding, runs, intervals.all_below(differences, grids.ALIKE, parts), BELOW)


def all_above(finding: State, runs: Found, differences: Sequence[Interval], parts: int = 2) -> None:
    """The mirror image of `all_below`."""
    state(finding, runs, intervals.all_above(differences, grids.ALIKE, parts), ABOVE)


def needs_room(errors: Values, members: NDArray[np.bool_] | None = None) -> None:
    """Skip where what is to be exceeded lies so near to 1 that nothing could be seen above it."""
    left, least = 1 - float(comparison.mean(errors, members).mean()), intervals.ROOM * grids.ALIKE
    if left < least:
        pytest.skip(f"no room: an error is to be exceeded that lies {left:.4f} below 1, less than {least:.4g}")


def at(law: Law, weighting: Weighting, m: int = BASE) -> Method:
    return Method("softmax", law, weighting, m)


def apart(runs: Found, first: Method, second: Method, group: Group | None = "tail") -> Interval:
    """By how much the first errs more than the second, on a group or on all classes alike."""
    members = None if group is None else runs.members[group]
    return difference(runs.errors[first], runs.errors[second], members, CONFIDENCE)


def test_what_lies_near_one_leaves_no_room() -> None:
    needs_room(np.full((5, 3), 0.94))
    with pytest.raises(pytest.skip.Exception, match=r"no room: .* that lies 0\.0200 below 1, less than 0\.05"):
        needs_room(np.full((5, 3), 0.98))
    with pytest.raises(pytest.skip.Exception, match="no room"):
        needs_room(np.array([[0.5, 1.0, 1.0]] * 5), np.array([False, True, True]))


both = pytest.mark.parametrize("imbalance", grids.IMBALANCES)


@both
@pytest.mark.claim("negatives-f-const-tail", shows="statement", evidence="experiment")
def test_batch_constant_has_the_least_tail_error_of_the_standard_schemes(imbalance: Imbalance, finding: State) -> None:
    runs = cached(imbalance, grids.FIGURE_1)
    ours = at("batch", "constant")
    others = [at(law, w) for law in LAWS for w in STANDARD]
    all_below(finding, runs, [apart(runs, ours, other) for other in others if other != ours])


@both
@pytest.mark.claim("negatives-f-beats-ce", shows="statement", evidence="experiment")
def test_batch_constant_beats_the_cross_entropy_on_the_tail(imbalance: Imbalance, finding: State) -> None:
    runs = cached(imbalance, grids.FIGURE_1)
    all_below(finding, runs, [apart(runs, at("batch", "constant"), Method())])


@both
@pytest.mark.claim("negatives-f-tail-weights", shows="statement", evidence="experiment")
def test_tail_weights_have_the_least_tail_error(imbalance: Imbalance, finding: State) -> None:
    runs = cached(imbalance, grids.FIGURE_1)
    rivals = [Method(), *(at(law, w) for law in LAWS for w in STANDARD)]
    pairs = [(at(law, "tail"), rival) for law in LAWS for rival in rivals]
    panels = [pair for pair in pairs if pair[1].law in ("all", pair[0].law)]  # a panel of the figure has one law
    readings = [intervals.all_below([apart(runs, *pair) for pair in each], grids.ALIKE, 2) for each in (panels, pairs)]
    for decided in of_one_mind(readings, ("within a panel", "all schemes")):
        state(finding, runs, decided, BELOW)


@both
@pytest.mark.claim("negatives-f-relative-head", shows="statement", evidence="experiment")
def test_batch_relative_beats_batch_constant_on_the_head(imbalance: Imbalance, finding: State) -> None:
    runs = cached(imbalance, grids.FIGURE_1)
    all_below(finding, runs, [apart(runs, at("batch", "relative"), at("batch", "constant"), "head")])


@both
@pytest.mark.claim("negatives-f-q-matters", shows="statement", evidence="experiment")
def test_the_weighting_does_other_things_under_another_law(imbalance: Imbalance, finding: State) -> None:
    runs = cached(imbalance, grids.FIGURE_1)
    changes = [
        comparison.mean(runs.errors[at(law, "relative")] - runs.errors[at(law, "constant")], runs.members["tail"])
        for law in ("batch", "uniform")
    ]
    change = interval(changes[0] - changes[1], CONFIDENCE)
    all_above(finding, runs, [change if change.mean > 0 else -change])  # of either sign the trends are different


@both
@pytest.mark.claim("negatives-f-limits", shows="statement", evidence="experiment")
def test_logit_adjustment_beats_the_cross_entropy_on_the_tail(imbalance: Imbalance, finding: State) -> None:
    runs = cached(imbalance)
    all_below(finding, runs, [apart(runs, Method(weighting="logit-adjusted"), Method())], LIMITS)


@both
@pytest.mark.claim("negatives-f-limits", shows="statement", evidence="experiment")
def test_logit_adjustment_beats_its_sampled_form(imbalance: Imbalance, finding: State) -> None:
    runs = cached(imbalance)
    ours, sampled = Method(weighting="logit-adjusted"), at("batch", "tail")
    readings = [
        intervals.all_below([apart(runs, ours, sampled, group)], grids.ALIKE, LIMITS) for group in ("tail", None)
    ]
    for decided in of_one_mind(readings, ("tail", "all classes")):
        state(finding, runs, decided, BELOW)


LIMITS = 6
"""Three findings of *negatives-f-limits*, each on two imbalances."""


def test_a_sentence_with_two_readings_is_decided_where_both_agree() -> None:
    below, above = (Decision(v, interval([m, 2 * m])) for v, m in (("shown", -0.1), ("excluded", 0.1)))  # type: ignore[arg-type]
    assert of_one_mind([below, below], "ab") == [below, below]
    with pytest.raises(pytest.skip.Exception, match=r"it matters: a excluded, 0\.1500 .*; b shown, -0\.1500"):
        of_one_mind([above, below], "ab")


@both
@pytest.mark.claim("negatives-f-limits", shows="statement", evidence="experiment")
def test_more_negatives_lessen_what_sampling_costs(imbalance: Imbalance, finding: State) -> None:
    # The excess over logit adjustment with the fewest minus that with the most: what is not sampled cancels.
    runs = cached(imbalance)
    all_below(finding, runs, [apart(runs, at("batch", "tail", MOST), at("batch", "tail", FEWEST))], LIMITS)


@both
@pytest.mark.claim("negatives-fig-3", shows="statement", evidence="experiment")
def test_sampled_contrastive_schemes_are_poor_on_the_tail(imbalance: Imbalance, finding: State) -> None:
    # One sentence says this and the next, so that neither by itself decides.
    runs = cached(imbalance)
    members = runs.members["tail"]
    needs_room(runs.errors[Method()], members)
    sampled = np.mean([runs.errors[Method("contrastive", *scheme)] for scheme in SAMPLED], axis=0)
    all_above(finding, runs, [difference(sampled, runs.errors[Method()], members, CONFIDENCE)], parts=4)


@both
@pytest.mark.claim("negatives-fig-3", shows="statement", evidence="experiment")
def test_sampled_contrastive_schemes_vary_more(imbalance: Imbalance, finding: State) -> None:
    errors = cached(imbalance).errors
    spread = [np.std([comparison.mean(errors[Method(loss, *scheme)]) for scheme in SAMPLED], axis=0) for loss in LOSSES]
    all_above(finding, cached(imbalance), [interval(spread[0] - spread[1], CONFIDENCE)], parts=4)


@pytest.mark.claim("negatives-fig-4-5", shows="statement", evidence="experiment")
def test_batch_constant_can_beat_the_cross_entropy_and_the_softmax_beats_the_contrastive_loss(finding: State) -> None:
    # One sentence says both, so that neither by itself decides.
    every = [cached(imbalance) for imbalance in grids.IMBALANCES]
    schemes: Sequence[tuple[Law, Weighting, int]] = [("all", "none", 0), *SAMPLED]
    decides, can = improves(every, confirming())
    all_below(finding, decides, [can], parts=3)
    for runs in every:
        losses = (np.mean([runs.errors[Method(loss, *scheme)] for scheme in schemes], axis=0) for loss in LOSSES)
        all_above(finding, runs, [difference(*losses, confidence=CONFIDENCE)], parts=3)


def improves(every: Sequence[Found], confirmed: Found | None) -> tuple[Found, Interval]:
    """Whether batch constant can err less than the cross entropy over all classes: by fresh seeds where there are any.

    Without them both imbalances are looked at, and one is enough: the lowest interval has half of what is allowed.
    """
    if confirmed is not None and confirmed.profile == every[0].profile:
        second, first = (confirmed.errors[method] for method in (Method(), at("batch", "constant")))
        return confirmed, difference(first, second, confidence=CONFIDENCE)
    gained = [comparison.mean(runs.errors[at("batch", "constant")] - runs.errors[Method()]) for runs in every]
    share = (1 - CONFIDENCE) / len(gained)
    return every[0], min((interval(gain, 1 - share) for gain in gained), key=lambda gain: gain.high)


def test_fresh_seeds_decide_alone_in_one_interval() -> None:
    def measured(profile: str, gained: Sequence[float]) -> Found:
        base = np.full((len(gained), 2), 0.5)
        errors = {Method(): base, Method("softmax", "batch", "constant", 32): base + np.array(gained)[:, None]}
        return Found(profile, ("key",), errors, {})

    # Of the seeds that raised the question nothing is taken, however clear they are.
    every = [measured("cpu", [-0.3, -0.31, -0.29])] * 2
    fresh = measured("cpu", [0.02, -0.01, 0.03, 0.01])
    decides, can = improves(every, fresh)
    assert decides is fresh
    # 0.0125 -+ 2.25 * 7.1849 * 0.00854, t of 3 degrees at 1 - 0.05/18.
    assert (can.low, can.high, can.count) == pytest.approx((-0.12556, 0.15056, 4), abs=1e-4)
    # Those of another profile of the book do not decide, nor do none.
    for other in (measured("paper", [0.02, -0.01, 0.03, 0.01]), None):
        decides, can = improves(every, other)
        assert decides is every[0]
        # -0.3 -+ 2.25 * 18.934 * 0.00577, t of 2 degrees at 1 - 0.05/36.
        assert (can.low, can.high) == pytest.approx((-0.54596, -0.05404), abs=1e-4)


@both
@pytest.mark.claim("negatives-fig-6", shows="statement", evidence="experiment")
def test_fewer_negatives_are_worse(imbalance: Imbalance, finding: State) -> None:
    runs = cached(imbalance)
    few, many = (np.mean([runs.errors[at(law, w, m)] for law, w, _ in SAMPLED], axis=0) for m in (FEWEST, MOST))
    all_above(finding, runs, [difference(few, many, group, CONFIDENCE) for group in (runs.members["tail"], None)])
