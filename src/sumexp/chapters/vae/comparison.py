"""Runs of trained stacks by case, temperatures chosen on validation, and differences paired by seed.

A case is a member with its seed set to 0; its runs are ordered by seed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sumexp.chapters import intervals
from sumexp.chapters.intervals import Decision, Interval, interval, paired
from sumexp.chapters.vae.config import Member, Stack, Temperature

Values = NDArray[np.float64]
Arrays: TypeAlias = Mapping[str, ArrayLike]
Criterion: TypeAlias = Literal["relaxed", "published", "bound", "likelihood"]
CRITERIA: tuple[Criterion, ...] = get_args(Criterion)
"""What a model is judged by: the loss that it descends, the published number, the true bound, the estimate."""


@dataclass(frozen=True)
class Trained:
    """The runs of a case.

    Attributes:
        seeds: in ascending order.
        losses: the training loss of every epoch [seeds, epochs].
        validation: each criterion on the validation images [seeds, images].
        test: each criterion on the test images [seeds, images].
        by_count: by number of samples, the estimate of -log p(x) on the test images [seeds].
    """

    seeds: tuple[int, ...]
    losses: Values
    validation: Mapping[Criterion, Values]
    test: Mapping[Criterion, Values]
    by_count: Mapping[int, Values]


Cases: TypeAlias = Mapping[Member, Trained]


@dataclass(frozen=True)
class Difference:
    """The differences ``apart`` of two cases, [seeds, images]."""

    apart: Values

    @property
    def seeds(self) -> Interval:
        """The interval over seeds of the mean difference over images."""
        return interval(self.apart.mean(1))

    @property
    def images(self) -> Interval:
        """The interval over images of the mean difference over seeds."""
        return interval(self.apart.mean(0))


def gathered(runs: Iterable[tuple[Stack, Arrays, Arrays]]) -> dict[Member, Trained]:
    """The runs of stacks of one length by case, from each stack, its arrays and its history.

    Raises:
        ValueError: if a stack's arrays have another number of members, or two members of the stacks are equal.
    """
    rows: dict[Member, list[tuple[int, Mapping[str, Values]]]] = {}
    for stack, arrays, history in runs:
        if (count := len(np.asarray(arrays["by_count"]))) != len(stack.members):
            raise ValueError(f"{count} runs for {len(stack.members)} members; give one run for each of the members")
        losses = np.full((len(stack.members), stack.epochs), np.nan)
        losses[np.asarray(history["member"]), np.asarray(history["epoch"])] = history["train_loss"]
        tables = {name: np.asarray({**arrays, "losses": losses}[name], dtype=np.float64) for name in _TABLES}
        for s, member in enumerate(stack.members):
            row = {name: table[s] for name, table in tables.items()} | {"counts": np.asarray(arrays["counts"])}
            rows.setdefault(replace(member, seed=0), []).append((member.seed, row))
    return {case: _trained(case, sorted(of_seeds, key=lambda row: row[0])) for case, of_seeds in rows.items()}


_TABLES = ("losses", "by_count", *(f"{part}_{name}" for part in ("validation", "test") for name in CRITERIA))


def _trained(case: Member, rows: Sequence[tuple[int, Mapping[str, Values]]]) -> Trained:
    seeds = tuple(seed for seed, _ in rows)
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"the runs of {case} have the seeds {seeds}; give each member once")
    tables = {name: np.stack([row[name] for _, row in rows]) for name in _TABLES}
    validation, test = ({name: tables[f"{part}_{name}"] for name in CRITERIA} for part in ("validation", "test"))
    by_count = dict(zip(rows[0][1]["counts"].tolist(), tables["by_count"].T, strict=True))
    return Trained(seeds, tables["losses"], validation, test, by_count)


def training_loss(first: Trained, second: Trained) -> list[Interval]:
    """The difference of the training losses after each epoch, paired by seed; a ValueError if the seeds differ."""
    _check(first, second)
    return [paired(a, b) for a, b in zip(first.losses.T, second.losses.T, strict=True)]


def speed(first: Trained, second: Trained) -> Interval:
    """The difference of the mean training losses over all epochs, paired by seed; a ValueError if the seeds differ."""
    _check(first, second)
    return paired(first.losses.mean(1), second.losses.mean(1))


def difference(first: Trained, second: Trained, criterion: Criterion) -> Difference:
    """The difference ``first - second`` of a criterion on the test images; a ValueError if the seeds differ.

    If only means over images are available for one of them, the difference is that of the means. Estimates of
    -log p(x), which fall with the number of samples, are compared at the largest number that both have.
    """
    _check(first, second)
    pair = [first.test[criterion], second.test[criterion]]
    if criterion == "likelihood" and first.by_count.keys() != second.by_count.keys():
        most = max(first.by_count.keys() & second.by_count.keys())
        pair = [runs.by_count[most][:, np.newaxis] for runs in (first, second)]
    if pair[0].shape != pair[1].shape:
        pair = [values.mean(1, keepdims=True) for values in pair]
    return Difference(pair[0] - pair[1])


def name(temperature: Temperature) -> str:
    """``0.25``, or ``the public schedule``."""
    return f"{temperature.start:g}" if temperature.rate == 0 else "the public schedule"


SHOWN = frozenset({"images", "shown", "reconstructions", "imagined", "probe", "probe_logits"})
"""What the chapter shows of the first stack of a data set alone."""


def condensed(arrays: Mapping[str, NDArray[Any]], shown: bool, judged: bool) -> dict[str, NDArray[Any]]:
    """The arrays of a stack with means over images in the place of the numbers of each image.

    Stacks that are ``shown`` keep their images, those that are ``judged`` the numbers of the test images.
    """

    def kept(name: str, values: NDArray[Any]) -> NDArray[Any]:
        if name.startswith("validation_") or (name.startswith("test_") and not judged):
            return np.asarray(values.astype(np.float64).mean(1, keepdims=True))
        return np.asarray(values)

    return {name: kept(name, values) for name, values in arrays.items() if shown or name not in SHOWN}


def _check(first: Trained, second: Trained) -> None:
    if first.seeds != second.seeds:
        raise ValueError(f"runs of the seeds {first.seeds} are paired with {second.seeds}; give the same seeds")


def temperatures(cases: Cases, family: Member) -> dict[Temperature, Trained]:
    """The runs of a family, a case without its temperature, by temperature."""
    return {
        case.temperature: runs
        for case, runs in cases.items()
        if replace(case, temperature=family.temperature) == family
    }


def chosen(cases: Cases, family: Member, criterion: Criterion) -> Member:
    """The case of a family with the best criterion on validation images, mean over seeds; else a ValueError."""
    by_temperature = temperatures(cases, family)
    if not by_temperature:
        raise ValueError(f"there is no run of {family} at any temperature")
    best = min(by_temperature, key=lambda tau: by_temperature[tau].validation[criterion].mean())
    return replace(family, temperature=best)


def decides(differences: Sequence[Interval], parts: int = 1) -> Decision:
    """The verdict of the training losses at several temperatures, by the rule of `chapters.vae.grids`.

    ``shown`` if all intervals, of one confidence c, lie below zero; ``excluded`` if all lie above it at
    ``1 - (1 - c) / parts``, for ``parts`` such sets that decide one claim; otherwise undecided, by the interval that
    comes closest to zero or is widest across it.
    """
    below = intervals.all_below(differences)
    if below.verdict == "shown":
        return below
    above = intervals.all_above([span.at(1 - (1 - span.confidence) / parts) for span in differences])
    if above.verdict == "shown":
        return Decision("excluded", above.interval)
    return Decision("undecided", max(differences, key=lambda span: min(span.high, -span.low)))
