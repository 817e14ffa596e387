r"""Labels of another law than the training counts: how far it is, which classes gained, and the line for serving.

Let p be the law of the training counts and n the N labels that are served, independent draws from p'. With p' made of
the labels and the counts, :math:`\hat p_A=(n+Ap)/(N+A)`, two numbers enclose the divergence in expectation:

.. math:: \frac1N\sum_y n_y\log\frac{n_y-1+Ap_y}{(N-1+A)\,p_y} \quad\text{and}\quad
          \frac1N\sum_y n_y\log\frac{n_y}{Np_y}.

The first leaves each label out of the estimate that it is judged by: for each A its mean is
:math:`\mathrm{KL}(p'\|p)-\mathbb E\,\mathrm{KL}(p'\|\hat p_A)`, with N - 1 labels. The mean of the second is
:math:`\mathrm{KL}(p'\|p)+\mathbb E\,\mathrm{KL}(n/N\,\|\,p')`. A is where the first is largest, from the labels
themselves: one number, whose optimism is of the order 1/N.

**The line.** If contexts of a class stay what they are, :math:`P'(x\mid y)=P(x\mid y)`, Bayes' rule gives

.. math:: \log P'(y\mid x) = \log P(y\mid x) + \log\frac{p'_y}{p_y} + \text{constant in } y

and nothing else need change (label shift; Saerens, Latinne and Decaestecker, Adjusting the Outputs of a Classifier to
New a Priori Probabilities, 2002). Counts cannot show whether they do. Where P(x|y) changes, the line is wrong by
:math:`\log P'(x\mid y)/P(x\mid y)`.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from sumexp.audit._faults import DEVIATIONS, homogeneity
from sumexp.audit._rows import groups
from sumexp.audit._setup import AuditError
from sumexp.audit._text import digits, hundredths, percent

Floats = NDArray[np.float64]

END = 0.01
"""Share of all labels that the two outermost groups reach: classes of one count are in one group."""

LINE = "log p_new - log p_train"
"""What is added to the scores that are served, in words."""

MOVED = 3.0
"""Standard deviations from which on a group's share is said to have moved."""

STRENGTHS = (1e-2, 1e12)
"""Between these A is looked for: nearly the labels alone, and nearly the counts alone."""


@dataclass(frozen=True)
class Group:
    """Classes that are alike by their counts in training and serving together.

    Attributes:
        name: what it is called.
        classes: how many there are.
        trained: their share of the training labels.
        served: their share of the labels served.
        moved: 1 or -1 where the share rose or fell by more than :data:`MOVED` standard deviations, else 0.
    """

    name: str
    classes: int
    trained: float
    served: float
    moved: int

    @property
    def ratio(self) -> float:
        """Served share over training share."""
        return self.served / self.trained if self.trained else math.inf


@dataclass(frozen=True)
class Drift:
    """The law of the labels served against that of the training counts; nats.

    Attributes:
        found: whether Pearson's statistic is more than :data:`~sumexp.audit._faults.DEVIATIONS` above its mean.
        deviations: by how many standard deviations it is.
        least: mean log ratio of held-out labels: in expectation at most the divergence.
        error: its standard error over the labels.
        most: divergence of the labels' frequencies: in expectation at least that of their law.
        labels: number of labels served.
        unknown: share of them whose class training never had.
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
        """Which groups gained and lost, in words."""
        sides = (("gained", 1), ("lost", -1))
        said = [
            f"{word}: {', '.join(names)}"
            for word, sign in sides
            if (names := [group.name for group in self.groups if group.moved == sign])
        ]
        return "; ".join(said) if said else "no group moved, only single classes"

    @property
    def lines(self) -> str:
        """What to write in PyTorch."""
        weight = f"{self.strength:.4g}"
        return (
            "p = counts / counts.sum()  # [classes], above 0; served: counts of labels from before those to predict\n"
            f"p_new = (served + {weight} * p) / (served.sum() + {weight})\n"
            "scores = scores + torch.log(p_new / p)  # scores end at log P(y|x); right if P(x|y) stays\n"
        )

    def __str__(self) -> str:
        shares = ", ".join(
            f"{group.name} {hundredths(group.trained)} to {percent(group.served)} (x{digits(group.ratio)})"
            for group in self.groups
        )
        lost = f"; {percent(self.unknown, 2)} of the labels belong to classes that training never had"
        if not self.found:
            return f"none that these {self.labels:,} labels show: {shares}{lost if self.unknown else ''}"
        return (
            f"{digits(max(self.least, 0.0))} to {digits(self.most)} nats of KL from the counts' distribution; "
            f"{shares}; {self.direction}{lost if self.unknown else ''}"
        )


def measure(counts: NDArray[np.int64], served: Floats) -> Drift:
    """How far labels are from the counts' law.

    Args:
        counts: [classes] of training.
        served: [classes or more] of the labels served; entries beyond ``counts`` are classes that training never had.

    Raises:
        AuditError: if training never had the class of any label served, or there is one label.
    """
    _, own, n = _known(counts, served)
    number, total = served.sum(), n.sum()
    if total < 2:
        raise AuditError(f"{total:.0f} of the labels served are of classes that training had; give two or more")
    p = own / own.sum()
    seen = n > 0
    strength = _strength(n[seen], p[seen])
    ratios = _left_out(n[seen], p[seen], strength)
    weight = n[seen] / total
    least = float(weight @ ratios)
    spread = float(weight @ (ratios - least) ** 2)
    every = np.pad(counts, (0, len(served) - len(counts))).astype(np.float64)
    away = homogeneity(served, every)
    return Drift(
        away > DEVIATIONS, away, least, float(np.sqrt(spread / total)), float(weight @ np.log(weight / p[seen])),
        int(number), float(1 - total / number), _groups(every, served), strength,
    )  # fmt: skip


def log_ratio(counts: NDArray[np.int64], served: Floats) -> Floats:
    r"""The line, :math:`\log\hat p_A/p`, [classes]; 0 for a class that training never had, which has no score.

    Raises:
        AuditError: as :func:`measure`.
    """
    known, own, n = _known(counts, served)
    strength = measure(counts, served).strength
    p = own / own.sum()
    ratio = np.zeros(len(counts))
    ratio[known] = np.log((n + strength * p) / (n.sum() + strength) / p)
    return ratio


def _known(counts: NDArray[np.int64], served: Floats) -> tuple[NDArray[np.bool_], Floats, Floats]:
    """The classes that training had, and what both have of them."""
    known = counts > 0
    return known, counts[known].astype(np.float64), served[: len(counts)][known].astype(np.float64)


def _left_out(n: Floats, p: Floats, strength: float) -> Floats:
    """The log ratio of each class for a label of its own that is left out of the estimate."""
    return np.asarray(np.log((n - 1 + strength * p) / ((n.sum() - 1 + strength) * p)))


def _strength(n: Floats, p: Floats) -> float:
    """A, where labels that are left out are likeliest."""
    weight = n / n.sum()
    low, high = np.log(STRENGTHS)
    found = minimize_scalar(lambda a: -(weight @ _left_out(n, p, np.exp(a))), bounds=(low, high), method="bounded")
    return float(np.exp(found.x))


def _groups(trained: Floats, served: Floats) -> tuple[Group, ...]:
    """Five groups; an outermost one only where it is not all of head or tail.

    They are cut by the counts of training and serving together: given these, labels of one law fall into both alike.
    Classes that are rare in training alone are partly rare by chance, and would seem to gain.
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
    return tuple(
        _group(name, part, trained, served)
        for name, part in parts.items()
        if part.any() and not (name in same and np.array_equal(part, same[name]))
    )


def _group(name: str, part: NDArray[np.bool_], trained: Floats, served: Floats) -> Group:
    first, second = trained.sum(), served.sum()
    own, new = trained[part].sum() / first, served[part].sum() / second
    share = (trained[part].sum() + served[part].sum()) / (first + second)
    # of a hypergeometric count: exact for two samples of one law, given both together
    deviation = np.sqrt(share * (1 - share) * (1 / first + 1 / second) * (first + second) / (first + second - 1))
    moved = int(np.sign(new - own)) if abs(new - own) > MOVED * deviation else 0
    return Group(name, int(part.sum()), float(own), float(new), moved)
