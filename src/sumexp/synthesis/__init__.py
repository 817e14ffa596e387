"""One training step seen by all five papers, and what estimates of its softmax cost.

- `step`: the bar of exponentials of one label, and what each paper makes of it;
- `choice`: what to train with, for given numbers;
- `estimates`: bias, deviation and reads of estimates of the softmax, exactly, and those that no other one beats.
"""

from sumexp.synthesis.choice import Choice, choose
from sumexp.synthesis.estimates import Estimate, drawn, dyadic, front, halves, occasional, subset
from sumexp.synthesis.step import Bar, bars

__all__ = [
    "Bar",
    "Choice",
    "Estimate",
    "bars",
    "choose",
    "drawn",
    "dyadic",
    "front",
    "halves",
    "occasional",
    "subset",
]
