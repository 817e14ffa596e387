"""Rows of classes that are alike against the classes themselves, and what no lot may change."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from sumexp.audit import _rows as tables
from sumexp.audit._effects import Truth, effect
from sumexp.audit._rows import Rows, assumed, given, groups, posteriors, spread
from sumexp.audit._setup import Floats, Setup, Weights, read_setup

COUNTS = np.repeat([1000, 40, 5, 2, 1], [5, 100, 1000, 2000, 4000])
PRIOR = COUNTS / COUNTS.sum()
CLASSES = len(COUNTS)  # 7105


def noisy(seed: int = 1) -> Floats:
    """A table of log q that is off by a tenth of a nat, another for each class."""
    return np.asarray(np.log(PRIOR) + 0.1 * np.random.default_rng(seed).standard_normal(CLASSES))


def rows_of(how: Setup) -> Rows:
    with np.errstate(divide="ignore"):
        laws = [np.log(how.q[0] if how.law is None else how.law)]
    return assumed(COUNTS, PRIOR, laws if how.table is None else [*laws, how.table])


def one_by_one(rows: Rows) -> Rows:
    """A row for each class, with the z of a row that has room for it: which of a lot get which is drawn."""
    z = np.empty(CLASSES)
    generator = np.random.default_rng(0)
    for lot in range(len(rows.first)):
        values = np.repeat(rows.z[rows.lot == lot], rows.number[rows.lot == lot].astype(int))
        z[rows.place == lot] = generator.permutation(values)
    return replace(given(COUNTS, PRIOR), z=z)


@pytest.mark.parametrize(
    "sampler, weights, table, many, most",
    [
        ("within-batch", "importance", None, 500, 1500), ("log-uniform", "importance", None, 30, 4700),
        ("log-uniform", "none", None, 30, 4700), ("union:log-uniform", "none", None, 30, 4700),
        ("distinct:log-uniform", "importance", None, 30, 4700), ("within-batch", "relative", noisy(), 30, 4000),
    ],
)  # fmt: skip
def test_rows_of_lots_are_their_classes(
    sampler: str, weights: Weights, table: Floats | None, many: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is learned on rows and on single classes with the same z: the divergence within a half per cent."""
    monkeypatch.setattr(tables, "MANY", many)
    monkeypatch.setattr(tables, "EDGES", np.linspace(-6.5, 6.5, 66))  # fewer: the z of single classes are the same
    how = read_setup(PRIOR, sampler, weights, "mask", 64, None, table)
    rows = rows_of(how)
    assert len(rows.number) < most < CLASSES == rows.number.sum()
    whole = one_by_one(rows)
    together, alone = (effect(Truth(x, x.truth(2.0), x.of(how)), x.of(how)) for x in (rows, whole))
    assert alone.kl > 1e-4
    assert together.kl == pytest.approx(alone.kl, rel=5e-3)
    assert together.gap == pytest.approx(alone.gap, rel=5e-3)
    assert together.items == pytest.approx(alone.items, abs=5e-3 * (1 + abs(alone.items).max()))
    assert together.deviation == pytest.approx(alone.deviation, rel=5e-3)
    assert together.overlap == pytest.approx(alone.overlap, abs=1)


@pytest.mark.parametrize("sampler", ["within-batch", "log-uniform", "distinct:log-uniform", "mixed"])
def test_rows_keep_the_sums(sampler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of classes, labels and negatives, over all and in each group; z is a standard normal number."""
    monkeypatch.setattr(tables, "MANY", 30)
    how = read_setup(PRIOR, sampler, "none", "mask", 64, 65 if sampler == "mixed" else None)
    rows, group = rows_of(how), groups(COUNTS)
    by_row = rows.of(how)
    for g in range(3):
        part, those = rows.group == g, group == g
        assert rows.number[part].sum() == those.sum()
        assert rows.number[part] @ rows.prior[part] == pytest.approx(PRIOR[those].sum(), rel=1e-12)
        for law, whole in zip(by_row.q, how.q, strict=True):
            assert rows.number[part] @ law[part] == pytest.approx(whole[those].sum(), rel=1e-12)
    assert rows.number @ rows.z / CLASSES == pytest.approx(0, abs=5 / math.sqrt(CLASSES))  # five deviations
    assert rows.number @ rows.z**2 / CLASSES == pytest.approx(1, abs=5 * math.sqrt(2 / CLASSES))


def test_a_lot_is_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes of one count within .01 nats of a table; where rows would be too many, within .08."""
    monkeypatch.setattr(tables, "MANY", 30)
    table = noisy()

    def widths(rows: Rows) -> float:
        lots = [np.flatnonzero(rows.place == lot) for lot in range(len(rows.first))]
        assert all(np.ptp(COUNTS[lot]) == 0 for lot in lots)
        return float(max(np.ptp(table[lot]) for lot in lots))

    assert 0.005 < widths(assumed(COUNTS, PRIOR, [table])) <= 0.01
    monkeypatch.setattr(tables, "MOST_ROWS", 0)
    assert 0.05 < widths(assumed(COUNTS, PRIOR, [table])) <= 0.08


def test_classes_that_are_never_drawn_or_never_labels_are_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the classes of each count are never drawn, and as many without a label are: no row is of two kinds."""
    monkeypatch.setattr(tables, "MANY", 30)
    counts = np.repeat([0, 7], 2000)
    law: NDArray[np.float64] = np.tile([1.0, 0.0], 2000) / 2000
    how = read_setup(counts / counts.sum(), law, "none", "mask", 8, None)
    with np.errstate(divide="ignore"):
        rows = assumed(counts, counts / counts.sum(), [np.log(law)])
    q = rows.of(how).q[0]
    for label in (False, True):
        for drawn, each in ((False, 0.0), (True, 1 / 2000)):
            part = ((rows.group >= 0) == label) & ((q > 0) == drawn)
            assert rows.number[part].sum() == 1000
            assert q[part] == pytest.approx(each, rel=1e-12)
    assert (rows.group < 0).sum() == 2  # without a label z is of no account


def test_small_tables_have_a_row_for_each_class() -> None:
    """And the z of a class is the number that is drawn for it."""
    counts = COUNTS[COUNTS > 1][-400:]
    rows = assumed(counts, counts / counts.sum(), [np.log(1 / np.arange(1.0, 401))])
    assert (rows.number == 1).all()
    assert np.array_equal(rows.first[rows.lot], np.arange(400))
    assert np.array_equal(rows.z, np.random.default_rng(0).standard_normal(400))


@pytest.mark.parametrize("constant", [0.0, 2000.0, -2000.0])
def test_what_all_scores_have_in_common_is_no_truth(constant: float) -> None:
    actual = posteriors(np.array([[0.0, 2.0, 4.0]]) + constant, 2.0, 3)
    total = 1 + math.e + math.e**2
    assert actual[0].tolist() == pytest.approx([1 / total, math.e / total, math.e**2 / total], rel=1e-12)


def test_groups_are_thirds_of_the_labels_and_keep_equal_counts_together() -> None:
    counts = np.array([2, 2, 6, 0, 2])
    assert groups(counts).tolist() == [1, 1, 0, -1, 1]  # 6 of 12 labels; the equal ones begin at a half


def test_the_spread_is_that_of_the_truth() -> None:
    counts = np.maximum(1, 800000 // np.arange(1, 20001))
    prior = counts / counts.sum()
    z = np.random.default_rng(0).standard_normal(20000)
    p = prior * np.exp(2 * (z - prior @ z) / math.sqrt(prior @ z**2 - (prior @ z) ** 2))
    assert spread(p / p.sum(), prior) == pytest.approx(2)
