"""One training step seen by all five papers, and what estimates of its softmax cost.

- `step`: the bar of exponentials of one label, and what each paper makes of it;
- `estimates`: bias, deviation and reads of estimates of the softmax, exactly, and those that no other one beats.
"""

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
