"""Labels served that have another law: the line for it after training, the size from both sides, and no false alarm."""

import math
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from sumexp import datasets
from sumexp.audit import AuditError, audit, drift, inputs
from sumexp.audit._command import main
from sumexp.audit._rows import groups
from sumexp.negatives import consistency

COUNTS = np.maximum(1, 4000 // np.arange(1, 201))

# A small world: contexts x of each class y, and shares of four classes in training and when serving.
CONTEXTS = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4], [0.05, 0.05, 0.9]])
TRAINED, SERVED = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.1, 0.2, 0.3, 0.4])


def posterior(prior: np.ndarray, contexts: np.ndarray) -> np.ndarray:
    """P(y|x), [x, y], by Bayes' rule."""
    joint = (prior[:, None] * contexts).T
    return np.asarray(joint / joint.sum(1, keepdims=True))


@pytest.mark.parametrize("weights, added", [("relative", SERVED / TRAINED), ("none", SERVED)])
def test_the_line_after_training(weights: str, added: np.ndarray) -> None:
    """log q off all logits ends at log P; uncorrected in-batch scores end at log P/q, and take log p' alone."""
    law = posterior(TRAINED, CONTEXTS)[0]
    log_q = torch.from_numpy(np.log(TRAINED))
    zero = torch.zeros_like(log_q)
    factors = (log_q, -log_q) if weights == "relative" else (zero, zero)
    losses = consistency.multiset_losses(log_q, 3, factors, "keep")
    scores = consistency.minimiser(losses, torch.from_numpy(law), tol=1e-11).numpy()
    actual = torch.softmax(torch.from_numpy(scores + np.log(added)), -1).numpy()
    assert actual == pytest.approx(posterior(SERVED, CONTEXTS)[0], abs=1e-6)


@pytest.mark.parametrize("strength", [0.5, 20.0])
def test_both_ends_enclose_the_divergence_in_expectation(strength: float) -> None:
    """All samples of four labels of three classes: the means are the divergence and the two terms of the docstring."""
    p, law, n = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5]), 4
    low = high = 0.0
    for labels in product(range(3), repeat=n):
        counts = np.bincount(labels, minlength=3).astype(float)
        chance, seen = np.prod(law[list(labels)]), counts > 0
        weight = counts[seen] / n
        # of all classes the estimate's total is n - 1 + A: those that were not seen count in it by A p alone
        left = np.log((counts[seen] - 1 + strength * p[seen]) / ((n - 1 + strength) * p[seen]))
        assert left == pytest.approx(drift._left_out(counts[seen], p[seen], strength))
        low += chance * float(weight @ left)
        high += chance * float(weight @ np.log(weight / p[seen]))
    divergence = float(law @ np.log(law / p))
    short = frequency = 0.0
    for labels in product(range(3), repeat=n - 1):
        estimate = (np.bincount(labels, minlength=3) + strength * p) / (n - 1 + strength)
        short += np.prod(law[list(labels)]) * float(law @ np.log(law / estimate))
    for labels in product(range(3), repeat=n):
        share = np.bincount(labels, minlength=3) / n
        seen = share > 0
        frequency += np.prod(law[list(labels)]) * float(share[seen] @ np.log(share[seen] / law[seen]))
    assert low == pytest.approx(divergence - short, abs=1e-12)
    assert high == pytest.approx(divergence + frequency, abs=1e-12)


def zipf(classes: int, power: float = 1.0) -> np.ndarray:
    law = 1 / np.arange(1, classes + 1.0) ** power
    return np.asarray(law / law.sum())


def test_two_samples_of_one_law_show_drift_in_one_of_a_hundred_at_most() -> None:
    """200 pairs of samples, sparse and dense: more than 4 of 50 found at a rate of .01 is a false alarm of 2e-4.

    A group's mean difference beyond five standard errors would be a false alarm in one of 300,000. The lower end is at
    most 1/N above 0 in the mean.
    """
    generator = np.random.default_rng(0)
    for classes, trained, labels in ((300, 3000, 1000), (5000, 20_000, 500), (50, 200_000, 20_000), (20, 400, 100)):
        law, differences, least, alarms = zipf(classes), [], [], 0
        for _ in range(50):
            counts = generator.multinomial(trained, law)
            counts[:2] += 1  # two classes with a label, at least
            drifted = drift.measure(counts, generator.multinomial(labels, law))
            alarms += drifted.found
            least.append(drift.measure(counts, generator.multinomial(labels, counts / counts.sum())).least)
            head = drifted.groups[0]
            differences.append((head.served - head.trained) / head.deviation)
        assert alarms <= 4
        assert abs(np.mean(differences)) < 5 / math.sqrt(50) + 2 / math.sqrt(trained)
        assert np.mean(least) < 1 / labels


def test_labels_without_new_classes_are_no_drift() -> None:
    """60 pairs of one law, the labels of classes without counts left out: more than 4 found is an alarm of 3e-4."""
    generator, law, alarms = np.random.default_rng(2), zipf(20_000), 0
    for _ in range(60):
        counts, served = generator.multinomial(200_000, law), generator.multinomial(10_000, law)
        alarms += drift.measure(counts, np.where(counts > 0, served, 0)).found
    assert alarms <= 4


@pytest.mark.parametrize("labels", [300, 3000])
@pytest.mark.parametrize("power", [0.8, 1.5])
@pytest.mark.parametrize("classes", [1000, 20_000])
def test_drift_to_the_head_and_to_the_tail_is_found(classes: int, power: float, labels: int) -> None:
    """In 20 of 20: Pearson's statistic alone, which falls where labels move to the head, missed 40 of 40."""
    law, generator = zipf(classes), np.random.default_rng(0)
    served = law**power / (law**power).sum()
    counts = np.maximum(generator.multinomial(10 * classes, law), np.arange(classes) < 2)
    results = [drift.measure(counts, generator.multinomial(labels, served)) for _ in range(20)]
    assert sum(each.found for each in results) >= (20 if power > 1 or labels > 300 else 10)
    moved = {group.name: group.moved for group in results[0].groups if results[0].found}
    assert moved.get("head", np.sign(power - 1)) in (np.sign(power - 1), 0)


def test_single_classes_that_change_places_are_found() -> None:
    """Every second class of each pair takes the other's share: no group moves much."""
    law = zipf(400)
    swapped = law.reshape(-1, 2)[:, ::-1].copy()
    swapped[:, 0], swapped[:, 1] = law[::2] * 0.4, law[1::2] * 1.6
    generator = np.random.default_rng(0)
    result = drift.measure(
        generator.multinomial(40_000, law), generator.multinomial(20_000, swapped.ravel() / swapped.sum())
    )
    assert (result.found, abs(result.deviations) > 6) == (True, True)


def test_what_no_drift_could_have_shown_is_said() -> None:
    """The share that the line names is found in some nine of ten, and half of it in less than half."""
    law, generator = zipf(200), np.random.default_rng(0)
    counts = np.round(1e5 * law).astype(int)
    none = drift.measure(counts, np.round(2000 * law))
    match = re.search(r"([\d,]+) labels would show a (\w+) that moves by ([\d.]+) points", str(none))
    assert match
    group, points = np.flatnonzero(groups(counts) == ("head", "torso", "tail").index(match[2])), float(match[3]) / 100
    rates = []
    for share in (points, points / 2):
        part = np.isin(np.arange(200), group)
        mass = law[part].sum()
        moved = law * np.where(part, (mass + share) / mass, (1 - mass - share) / (1 - mass))
        results = [drift.measure(counts, generator.multinomial(2000, moved)) for _ in range(60)]
        rates.append(sum(each.found for each in results) / 60)
    assert rates[0] > 0.75 > 0.5 > rates[1]  # 60 of rate .9: a false alarm of 10^-3


def test_two_samples_have_the_mean_and_variance_that_are_said() -> None:
    generator = np.random.default_rng(0)
    both = np.array([5, 3, 2, 9, 1, 1, 1, 1, 40])
    z = [drift.homogeneity(a, both - a) for a in generator.multivariate_hypergeometric(both, 21, 4000).astype(float)]
    assert np.mean(z) == pytest.approx(0, abs=5 / math.sqrt(4000))  # five deviations
    assert np.var(z) == pytest.approx(1, abs=0.15)


def test_a_known_drift_is_enclosed() -> None:
    """A law tilted towards the frequent classes; five standard errors of the lower end is one false alarm in 10^6."""
    p = COUNTS / COUNTS.sum()
    law = p**1.3 / (p**1.3).sum()
    divergence = float(law @ np.log(law / p))
    result = drift.measure(COUNTS, np.random.default_rng(0).multinomial(50_000, law).astype(float))
    assert result.found
    assert result.least < divergence + 5 * result.error
    assert result.least > 0.9 * divergence
    assert result.most > divergence - 5 * result.error
    moved = {group.name: group.moved for group in result.groups}
    assert (moved["head"], moved["tail"]) == (1, -1)
    assert result.direction == "gained: most frequent, head, torso; lost: tail, rarest"


def test_groups_by_hand() -> None:
    """Both together have 6 + 3 + 2 + 1 of twelve: half, a quarter, a sixth, a twelfth."""
    result = drift.measure(np.array([4, 2, 1, 1]), np.array([2.0, 1.0, 1.0, 0.0]))
    assert [(g.name, g.classes, g.trained, g.served) for g in result.groups] == [
        ("head", 1, 0.5, 0.5), ("torso", 1, 0.25, 0.25), ("tail", 2, 0.25, 0.25), ("rarest", 1, 0.125, 0.0)
    ]  # fmt: skip
    assert not result.found
    # of 12 in all: sqrt(1/4 (1/8 + 1/4) 12/11) = .32, and 3.9 of it
    assert re.fullmatch("none found; 4 labels are too few to show any; head 50 .*, rarest 12.5 % -> 0 %", str(result))


def test_the_lines_that_are_printed_are_the_line() -> None:
    served = np.arange(1, 9) * 50
    result = drift.measure(COUNTS[:8], served)
    counts, scores = torch.from_numpy(COUNTS[:8]).double(), torch.zeros(2, 8, dtype=torch.float64)
    names = {"torch": torch, "counts": counts, "served": torch.from_numpy(served), "scores": scores}
    exec(result.lines, names)
    # the weight is printed to four digits
    p, weight = COUNTS[:8] / COUNTS[:8].sum(), result.strength
    log_ratio = np.log((served + weight * p) / (served.sum() + weight) / p)
    assert names["scores"][1].numpy() == pytest.approx(log_ratio, abs=1e-3)
    assert result.lines.splitlines()[2] in str(audit(COUNTS[:8], weights="relative", m=2).with_lines(result.line()))


def test_files_are_matched_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    named = write("a.csv", "item,count\na,30\nb,20\nc,1\n")
    for table, right in (("item,count\nc,30\na,2\nd,1\n", [2, 0, 30, 1]), ("item\nc\na\nd\nc\nc\nd\n", [1, 0, 3, 2])):
        assert inputs.served(write("b.csv", table), inputs.tally(named)).counts.tolist() == right
    numbered = write("n.csv", "count\n30\n20\n1\n")
    few = write("k.csv", "item_id,count\n2,5\n0,7\n4,1\n")
    assert inputs.served(few, inputs.tally(numbered)).counts.tolist() == [7, 0, 5, 1]
    assert inputs.served(write("m.csv", "count\n3\n4\n"), inputs.tally(numbered)).counts.tolist() == [3, 4, 0]
    sorted_ids = write("s.csv", "item_id,count\n2,30\n0,10\n1,20\n")
    assert inputs.served(sorted_ids, inputs.tally(sorted_ids)).counts.tolist() == [10, 20, 30]
    np.save(tmp_path / "p.npy", np.array([1, 2, 3, 4]))
    assert inputs.served(tmp_path / "p.npy", inputs.tally(numbered)).counts.tolist() == [1, 2, 3, 4]
    with pytest.raises(AuditError, match=r"has no class 0 but 3, and the counts have 0..2: are its ids 1-based?"):
        inputs.served(write("o.csv", "item_id,count\n1,3\n2,2\n3,1\n"), inputs.tally(numbered))
    for first, second in ((named, numbered), (numbered, named)):
        with pytest.raises(AuditError, match=r"name classes and .* do not: they cannot be matched"):
            inputs.served(second, inputs.tally(first))
    write("i.csv", "number,name,count\n7,c,30\n8,a,2\n")  # two columns could be the names
    assert inputs.served(tmp_path / "i.csv", inputs.tally(named), ids="name").counts.tolist() == [2, 0, 30]
    with pytest.raises(AuditError, match="number and name could be the ids of the classes; say --ids number or name"):
        inputs.served(tmp_path / "i.csv", inputs.tally(named), ids="item")
    # Ids 0, 1, 2 were "no names", and the options of the training, a log, were forced on a table.
    gaps, dense = inputs.tally(write("g.csv", "item_id,count\n0,50\n1,10\n5,10\n")), "item_id,count\n1,3\n0,5\n2,4\n"
    for table in (dense, "user,item_id\n" + "7,0\n" * 5 + "7,1\n" * 3 + "7,2\n" * 4):
        assert inputs.served(write("d.csv", table), gaps).counts.tolist() == [5, 3, 0, 4]
    log, options = inputs.tally(write("l.csv", "user,movie\n7,0\n8,1\n"), "movie", "labels"), ("movie", "labels")
    logs = ("user,movie\n7,1\n8,0\n", [1, 1]), ("movie\n1\n1\n", [0, 2])
    for table, right in (("movie,count\n0,5\n1,3\n", [5, 3]), *logs):
        assert inputs.served(write("d.csv", table), log, *options).counts.tolist() == right
    for path, wrong in ((write("v.csv", "movie,views\n0,5\n1,6\n"), "there once.*; options describe the training"),
                        (tmp_path / "p.npy", "are these numbers counts or labels")):  # fmt: skip
        with pytest.raises(AuditError, match=wrong):
            inputs.served(path, log, *options)
    main([str(named), "-m", "2", "--weights", "relative", "--serving", str(tmp_path / "b.csv")])
    assert "3 % of the labels belong to classes that training never had" in capsys.readouterr().out


def test_the_drift_of_gowalla_is_found_and_sized() -> None:
    """The test pairs of the most frequent places have twice their training share; a split by chance shows nothing."""
    if not datasets.available("gowalla"):
        pytest.skip("Gowalla is missing; to download it, run: sumexp data fetch gowalla")
    gowalla = datasets.gowalla()
    result = drift.measure(gowalla.counts, gowalla.served.astype(float))
    assert result.found
    assert 0.07 < result.least < result.most < 0.24
    generator, shares = np.random.default_rng(1), gowalla.served / gowalla.served.sum()
    for labels in (10_000, 30_000):  # of 3,000 labels 18 in 20 samples show it, of 300 one
        assert drift.measure(gowalla.counts, generator.multinomial(labels, shares)).found
    ratios = {group.name: group.served / group.trained for group in result.groups}
    assert ratios["most frequent"] == pytest.approx(2.05, abs=0.01)
    assert ratios["head"] == pytest.approx(1.06, abs=0.01)
    top = np.argsort(-gowalla.counts)[:10]
    share = gowalla.served[top].sum() / gowalla.test.nnz / (gowalla.counts[top].sum() / gowalla.train.nnz)
    assert share == pytest.approx(1.90, abs=0.01)
    both = gowalla.counts + gowalla.served
    held = np.random.default_rng(0).multivariate_hypergeometric(both, gowalla.test.nnz, method="marginals")
    by_chance = drift.measure(both - held, held.astype(float))
    assert not by_chance.found
    groups = [group for group in by_chance.groups if group.name != "most frequent"]
    assert all(abs(group.served / group.trained - 1) < 0.02 for group in groups)
