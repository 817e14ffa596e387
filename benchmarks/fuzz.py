"""Hostile arguments of each public function by the hundred: what came of each call, and none may be raw, NaN or a hang.

The tests try a few of the same; see `tests.fuzz`.
"""

import json
import warnings
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests import fuzz


def main(threads: int, quick: bool) -> None:
    """Run the campaign, print its figures and what fell; it measures no time, so threads do not matter.

    Raises:
        AssertionError: if something fell.
    """
    counts: Counter[str] = Counter()
    fell: list[str] = []
    for name in fuzz.TABLE:

        def tried(replaced: dict[str | int, Any], name: str) -> None:
            outcome = fuzz.outcome(name, replaced)
            counts[outcome.split(":")[0]] += 1
            if outcome not in fuzz.FINE:
                fell.append(f"{name}: {outcome} of {str(replaced)[:300]}")
                print(fell[-1], flush=True)

        search = settings(
            max_examples=10 if quick else 100,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search(given(replaced=fuzz.hostile(name), name=st.just(name))(tried))()
    figures = {"functions": len(fuzz.TABLE), "calls": counts.total(), "outcomes": dict(counts.most_common())}
    print(json.dumps(figures, indent=1))
    assert not fell, f"{len(fell)} of {counts.total()} calls fell"
