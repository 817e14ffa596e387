r"""Drift between training counts and served labels: its size, the groups that moved, and the correction for serving.

Let p be the law of the training counts and n the N labels that are served, independent draws from p'. With p' made of
the labels and the counts, :math:`\hat p_A=(n+Ap)/(N+A)`, two numbers enclose the divergence in expectation:

.. math:: \frac1N\sum_y n_y\log\frac{n_y-1+Ap_y}{(N-1+A)\,p_y} \quad\text{and}\quad
          \frac1N\sum_y n_y\log\frac{n_y}{Np_y}.

The first leaves each label out of the estimate that it is judged by: for each A its mean is
:math:`\mathrm{KL}(p'\|p)-\mathbb E\,\mathrm{KL}(p'\|\hat p_A)`, with N - 1 labels. The mean of the second is
:math:`\mathrm{KL}(p'\|p)+\mathbb E\,\mathrm{KL}(n/N\,\|\,p')`. A is chosen where the first is largest, from the
labels themselves, which raises its mean by less than 1/N.

**The test.** Given how often each class is there in counts and labels together, the labels of one law that fall into a
group are hypergeometric. Drift is found if the share of a group has a p-value below :data:`LEVEL` over the number of
groups, so that labels of the counts' law are taken for another in at most one of a hundred audits; or if single classes
change places, which Pearson's statistic shows, more than :data:`DEVIATIONS` standard deviations above its mean. That
statistic alone misses a drift to frequent classes, which lowers it where the table is sparse. Where no label is of a
class that training never had, such labels may have been left out, and then rare classes seem to lose: only classes are
compared that training of the same law has with a probability of at least 1 - :data:`MISSED`.

**The line.** If contexts of a class stay what they are, :math:`P'(x\mid y)=P(x\mid y)`, Bayes' rule gives

.. math:: \log P'(y\mid x) = \log P(y\mid x) + \log\frac{p'_y}{p_y} + \text{constant in } y

and nothing else need change (label shift; Saerens, Latinne and Decaestecker, Adjusting the Outputs of a Classifier to
New a Priori Probabilities, 2002). Counts cannot show whether they do. Where P(x|y) changes, the line is wrong by
:math:`\log P'(x\mid y)/P(x\mid y)`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from sumexp.audit._arguments import Numbers, as_counts, serving_counts
from sumexp.audit._rows import groups
from sumexp.audit._setup import AuditError
from sumexp.audit._text import digits, percent
from sumexp.audit.results import SMALL, Line

Floats = NDArray[np.float64]

END = 0.01
"""Share of all labels in each of the two outermost groups, up to classes of equal count."""

LEVEL = 0.01
"""The false-alarm rate of the group tests together."""

DEVIATIONS = 6.0
"""Standard deviations of Pearson's statistic beyond which single classes have drifted."""

SEEN = 3.9
"""Standard deviations by which a share must move to be found nine times in ten: 2.6 for the level, 1.3 for the rest."""

MISSED = 1e-4
"""The probability that training lacks a class that is compared, where no label is of a class that it lacks."""

STRENGTHS = (1e-2, 1e12)
"""Between these A is looked for: nearly the labels alone, and nearly the counts alone."""


@dataclass(frozen=True)
class Group:
    """Classes with similar counts in training and serving together.

    Attributes:
        name: of the group.
        classes: number of classes.
        trained: their share of the training labels.
        served: their share of the served labels.
        moved: 1 or -1 if the share rose or fell significantly, else 0.
        deviation: standard deviation of the difference of the shares without drift.
    """

    name: str
    classes: int
    trained: float
    served: float
    moved: int
    deviation: float


@dataclass(frozen=True)
class Drift:
    """The distribution of the served labels against the training counts; nats.

    Attributes:
        found: whether a group has moved, or single classes have.
        deviations: of Pearson's statistic from its mean, in standard deviations.
        least: mean log ratio of held-out labels: in expectation at most the divergence, and 1/N more.
        error: its standard error over the labels.
        most: divergence of the labels' frequencies: in expectation at least that of their law.
        labels: number of served labels.
        unknown: share of them whose class is absent from training.
        groups: head, torso and tail, each a third of all labels, and the two ends of one per cent.
        strength: A, the counts' weight in the estimated law, in labels.
    """

    found: bool
    deviations: float
    least: float
    error: float
    most: float
    labels: int
    unknown: float
    groups: tuple[Group, ...]
    strength: float

    @property
    def direction(self) -> str:
        """The groups that gained and lost."""
        sides = (("gained", 1), ("lost", -1))
        phrases = [
            f"{word}: {', '.join(names)}"
            for word, sign in sides
            if (names := [group.name for group in self.groups if group.moved == sign])
        ]
        return "; ".join(phrases) if phrases else "no group moved, only single classes"

    @property
    def lines(self) -> str:
        """The correction in PyTorch."""
        weight = f"{self.strength:.4g}"
        return (
            "p = counts / counts.sum()  # [classes], above 0; served: counts of labels from before those to predict\n"
            f"p_new = (served + {weight} * p) / (served.sum() + {weight})\n"
            "scores = scores + torch.log(p_new / p)  # scores end at log P(y|x); right if P(x|y) stays\n"
        )

    def __str__(self) -> str:
        shares = ", ".join(f"{group.name} {percent(group.trained)} -> {percent(group.served)}" for group in self.groups)
        lost = f"; {percent(self.unknown, 2)} of the labels belong to classes that training never had"
        more = lost if self.unknown else ""
        if self.found:
            size = f"{digits(max(self.least, 0.0))} to {digits(self.most)} nats of KL from the counts' distribution"
            return f"{size}; {shares}; {self.direction}{more}"
        head = max(self.groups, key=lambda group: group.deviation)
        points = 100 * SEEN * head.deviation
        moved = f"would show a {head.name} that moves by {digits(points, 2)} points of share or more"
        power = moved if points < 100 else "are too few to show any"
        return f"none found; {self.labels:,} labels {power}; {shares}{more}"

    def line(self) -> Line:
        """As a line of an audit."""
        fix = "if you serve labels like those given, add log p_new - log p_train to the scores"
        sure = self.least >= SMALL
        return Line("drift", self.found, str(self), fix, self.most if self.found else 0.0, sure, code=self.lines)


def measure(counts: Numbers, served: Numbers) -> Drift:
    """The drift of the served labels from the training counts.

    Args:
        counts: [classes] of training, integers.
        served: [classes or more] of the served labels; entries beyond ``counts`` are classes absent from training.

    Raises:
        AuditError: if an argument is invalid, or fewer than two served labels are of classes of the training.

    >>> import numpy as np
    >>> from sumexp.audit import drift
    >>> drift.measure(np.array([500, 300, 200]), np.array([20, 30, 50])).direction
    'gained: tail; lost: head'
    """
    counts = as_counts(counts)
    served = serving_counts(served, len(counts))
    known = counts > 0
    trained, n = counts[known].astype(np.float64), served[: len(counts)][known].astype(np.float64)
    number, total = served.sum(), n.sum()
    if total < 2:
        raise AuditError(f"{total:.0f} of the labels served are of classes that training had; give two or more")
    p = trained / trained.sum()
    seen = n > 0
    strength = _strength(n[seen], p[seen])
    ratios = _left_out(n[seen], p[seen], strength)
    weight = n[seen] / total
    least = float(weight @ ratios)
    spread = float(weight @ (ratios - least) ** 2)
    every = np.pad(counts, (0, len(served) - len(counts))).astype(np.float64)
    if total == number:
        share = total / (total + trained.sum())
        kept = share ** (every + served) <= MISSED
        every, served = (every[kept], served[kept]) if kept.any() else (every, served)
    away, parts = homogeneity(served, every), _groups(every, served)
    return Drift(
        away > DEVIATIONS or any(group.moved for group in parts), away, least, float(np.sqrt(spread / total)),
        float(weight @ np.log(weight / p[seen])), int(number), float(1 - total / number), parts, strength,
    )  # fmt: skip


def _left_out(n: Floats, p: Floats, strength: float) -> Floats:
    """The log ratio of each class for one of its labels, which the estimate leaves out."""
    return np.asarray(np.log((n - 1 + strength * p) / ((n.sum() - 1 + strength) * p)))


def _strength(n: Floats, p: Floats) -> float:
    """A, by the likelihood of left-out labels."""
    weight = n / n.sum()
    low, high = np.log(STRENGTHS)
    optimum = minimize_scalar(lambda a: -(weight @ _left_out(n, p, np.exp(a))), bounds=(low, high), method="bounded")
    return float(np.exp(optimum.x))


def _groups(trained: Floats, served: Floats) -> tuple[Group, ...]:
    """Five groups; an outermost group only if it is not all of head or tail.

    They are cut by the counts of training and serving together: given these, labels of one law split by chance alone.
    Classes that are rare in training are partly rare by chance, and would seem to gain.
    """
    both = trained + served
    order = groups(both)
    _, place = np.unique(both, return_inverse=True)
    mass = np.bincount(place, weights=both) / both.sum()
    above = (np.cumsum(mass[::-1])[::-1] - mass)[place]  # the share of what is more frequent
    below = (np.cumsum(mass) - mass)[place]
    parts = {
        "most frequent": above < END,
        "head": order == 0,
        "torso": order == 1,
        "tail": order == 2,
        "rarest": (below < END) & (both > 0),
    }
    same = {"most frequent": parts["head"], "rarest": parts["tail"]}
    kept = [
        (name, part) for name, part in parts.items()
        if part.any() and not (name in same and np.array_equal(part, same[name]))
    ]  # fmt: skip
    return tuple(_group(name, part, trained, served, LEVEL / len(kept)) for name, part in kept)


def _group(name: str, part: NDArray[np.bool_], trained: Floats, served: Floats, level: float) -> Group:
    from scipy.stats import hypergeom  # half a second of every start, and seldom asked for

    first, second = trained.sum(), served.sum()
    trained_here, served_here = trained[part].sum(), served[part].sum()
    law = hypergeom(round(first + second), round(trained_here + served_here), round(second))
    below, above = law.cdf(round(served_here)), law.sf(round(served_here) - 1)
    moved = 0 if 2 * min(below, above) > level else 1 if above < below else -1
    share = (trained_here + served_here) / (first + second)
    variance = share * (1 - share) * (1 / first + 1 / second) * (first + second) / (first + second - 1)
    return Group(
        name, int(part.sum()), float(trained_here / first), float(served_here / second), moved, float(np.sqrt(variance))
    )


def homogeneity(first: Floats, second: Floats) -> float:
    r"""Pearson's statistic of two samples of counts, in standard deviations from its mean.

    Both are [classes], integers, not all 0. Mean and variance are exact for two samples of one law, given the total
    count of each class.

    Source: Dawson, A simplified expression for the variance of the chi-squared function on a contingency table (1954).
    """
    both = first + second
    seen = both > 0
    first, both = first[seen], both[seen]
    rows, columns, total = np.array([first.sum(), both.sum() - first.sum()]), len(both), both.sum()
    if columns < 2 or total < 4:
        return 0.0
    statistic = total**2 / rows.prod() * (((first - rows[0] * both / total) ** 2 / both).sum())
    v1, v2 = (total - 2) / (total - 1), (columns - 1) * (total - columns) / (total - 1)
    w1 = (total * (1 / rows).sum() - 4) / (total - 2)
    w2 = (total * (1 / both).sum() - columns**2) / (total - 2)
    variance = 2 * total / (total - 3) * (v1 - w1) * (v2 - w2) + total**2 / (total - 1) * w1 * w2
    mean = total / (total - 1) * (columns - 1)
    return float((statistic - mean) / np.sqrt(variance)) if variance > 0 else 0.0
