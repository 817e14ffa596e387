"""One training step seen by all five papers, and the cost of estimates of its softmax."""

from sumexp.chapters.synthesis.estimates import Estimate, drawn, dyadic, front, halves, occasional, subset
from sumexp.chapters.synthesis.step import Bar, bars

__all__ = [
    "Bar",
    "Estimate",
    "bars",
    "drawn",
    "dyadic",
    "front",
    "halves",
    "occasional",
    "subset",
]
