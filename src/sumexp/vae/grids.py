r"""Which stacks each profile trains, what data they read, and how much work they are.

Two protocols. ``published``: Gumbel and Gaussian noise of unit scale, the schedule and the KL term of the public code.
``corrected``: the KL term of the law that the noise induces; each family at several fixed temperatures, of which the
validation images choose; and a Gaussian of the Gumbel's variance :math:`\pi^2/6` at the published schedule. For a
Gumbel of unit scale the two KL terms are one, so that the published Gumbel, whose temperature stays between 1 and 0.96
for 8 epochs of MNIST, belongs to both protocols. Seeds are paired in all of them.

The profile ``paper`` decides the claim where the paper makes it, on MNIST, Fashion-MNIST and Omniglot, after 300 epochs
and from 8 seeds. It has two stacks a data set: published with K = 10, 30, 50 and the logistic with K = 10, 56 runs; and
corrected with K = 10 at six temperatures, 104 runs; together 480 runs and, by :func:`work`, 2.1e16 operations. At 20
teraflops of float32 that is 18 minutes. A step of one member with K = 10 also moves about 45 MB of memory (15 MB in
Adam: 532,184 weights, each with gradient and two moments, 28 bytes; the rest the products and activations of 100
images), which makes 2.7e15 bytes for the 5.9e7 steps of all members, another 20 minutes at 2 TB/s. No GPU has run it
yet: plan two GPU hours. A stack is one job and needs less than 4 GB.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sumexp.vae.config import Member, NoiseName, Source, Stack, Temperature, fixed

PUBLISHED = Stack(source="mnist", members=(Member(seed=775),), epochs=300, samples=100)
"""The Gumbel-Softmax run of the public code as it is; its noise, K and data set are changed by the command line."""

MATCHED = math.sqrt(math.pi**2 / 6)
"""The scale at which a Gaussian has the variance of the standard Gumbel."""

_FAMILIES: tuple[NoiseName, ...] = ("gumbel", "gaussian")
_SOURCES: tuple[Source, ...] = ("mnist", "fashion-mnist", "omniglot")

_NEAR_BEST: Mapping[NoiseName, Sequence[float]] = {"gumbel": (0.35, 0.5, 0.7), "gaussian": (0.15, 0.25, 0.4)}
"""Trials with one seed had the Gaussian's best near 0.3, the Gumbel's near 0.6; ``published`` has a Gumbel near 1."""

_NEAR_BEST_ON_DIGITS: Mapping[NoiseName, Sequence[float]] = {"gumbel": (0.2, 0.35, 0.5), "gaussian": (0.1, 0.15, 0.25)}
"""The longer the training the colder the best: with the ranges above validation chose the coldest of each."""

_WIDE: Mapping[NoiseName, Sequence[float]] = dict.fromkeys(_FAMILIES, (0.1, 0.2, 0.35, 0.5, 0.7, 1.0))

_SIZES: dict[Source, tuple[int, int, int, int]] = {
    "digits": (64, 1_200, 297, 300),
    "mnist": (784, 50_000, 10_000, 10_000),
    "binarized-mnist": (784, 50_000, 10_000, 10_000),
    "fashion-mnist": (784, 50_000, 10_000, 10_000),
    "omniglot": (784, 23_000, 1_345, 8_115),
    "omniglot-28": (784, 23_000, 1_345, 8_070),
}
"""Pixels, and images to train on, for validation and to test on."""


def published(source: Source, seeds: int, categories: Sequence[int] = (10,), **settings: Any) -> Stack:
    """Gumbel and Gaussian noise by the published protocol, each K with each seed.

    Args:
        source: the data set.
        seeds: how many.
        categories: the K.
        settings: other fields of the stack.
    """
    members = [
        Member(noise, categories=k, seed=seed) for k in categories for noise in _FAMILIES for seed in range(seeds)
    ]
    return Stack(source, tuple(members), **settings)


def corrected(source: Source, seeds: int, temperatures: Mapping[NoiseName, Sequence[float]], **settings: Any) -> Stack:
    """Each family at its fixed temperatures, and the Gaussian of matched variance, trained on the true KL.

    Args:
        source: the data set.
        seeds: how many.
        temperatures: those of each family.
        settings: other fields of the stack.
    """
    cases = [(noise, 1.0, fixed(tau)) for noise, grid in temperatures.items() for tau in grid]
    members = [
        Member(noise, scale, "exact", temperature=temperature, seed=seed)
        for noise, scale, temperature in [*cases, ("gaussian", MATCHED, Temperature())]
        for seed in range(seeds)
    ]
    return Stack(source, tuple(members), **settings)


def by_noise(stack: Stack) -> tuple[Stack, ...]:
    """A stack for each noise: on a CPU they are trained side by side, for a stack is no quicker than its parts."""
    noises = dict.fromkeys(member.noise for member in stack.members)
    return tuple(
        replace(stack, members=tuple(member for member in stack.members if member.noise == noise)) for noise in noises
    )


def grid(profile: str, sources: Sequence[str]) -> tuple[Stack, ...]:
    """The stacks of a profile.

    Args:
        profile: ``smoke``, ``cpu`` or ``paper``.
        sources: the data sets that are there; without MNIST all is trained on the digits.

    Raises:
        ValueError: if there is no such profile.
    """
    if profile not in ("smoke", "cpu", "paper"):
        raise ValueError(f"profile is {profile!r}; there are smoke, cpu, paper")
    if profile == "smoke":
        return (
            published("digits", 3, epochs=8, importance=20, test_images=100),
            corrected("digits", 3, _NEAR_BEST, epochs=3, importance=20, test_images=100),
        )
    if "mnist" not in sources:
        return (
            published("digits", 8, epochs=150, importance=100),
            *by_noise(corrected("digits", 8, _NEAR_BEST_ON_DIGITS, epochs=60, importance=100)),
        )
    if profile == "cpu":
        return (
            *reversed(by_noise(corrected("mnist", 8, _NEAR_BEST, importance=100, test_images=1000))),  # longest first
            published("mnist", 8, importance=100, test_images=2000),
            *(published(source, 8, epochs=3, test_images=1000) for source in _SOURCES[1:] if source in sources),
        )
    return tuple(stack for source in _SOURCES if source in sources for stack in _paper(source))


def _paper(source: Source) -> tuple[Stack, Stack]:
    settings = {"epochs": 300, "samples": 100, "importance": 1000, "test_images": 2000}
    first = published(source, 8, (10, 30, 50), **settings)
    logistic = tuple(Member("logistic", seed=seed) for seed in range(8))
    return (
        replace(first, members=first.members + logistic),
        corrected(source, 8, _WIDE, **settings),
    )


def data(stack: Stack) -> tuple[str, ...]:
    """The data sets that the training of a stack reads from the disk."""
    return () if stack.source == "digits" else (stack.source,)


def work(stack: Stack) -> float:
    """The floating-point operations of a run: those of the matrix products, 2 n a b for [n, a] times [a, b].

    Training takes each layer three times (forward, and the gradients of its weights and of its input), the first one
    twice; evaluation takes the decoder once a sample.
    """
    pixels, train, validation, test = _SIZES[stack.source]
    train, test = min(stack.images or train, train), min(stack.test_images or test, test)
    code = stack.variables * max(member.categories for member in stack.members)
    outer, inner = 2 * pixels * stack.hidden, 2 * code * stack.hidden  # of one image and layer
    of_training = 5 * outer + 6 * inner
    forward = 2 * (outer + inner)
    drawn = (stack.samples + stack.importance) * (outer + inner)
    images = stack.epochs * (train * of_training + validation * forward) + test * drawn
    return float(len(stack.members) * images)
