"""Write anew what the tests measured on the stand-in, ``benchmarks/results/devices.json``: look at the difference.

``python -m tests.accelerator nce losses.info_nce`` measures only what begins so, and what is not there yet.
"""

import json
import sys

from tests.accelerator.functions import TABLE
from tests.accelerator.test_functions import RESULTS, on_device
from tests.accelerator.test_tasks import CASES, measured


def main(asked: tuple[str, ...]) -> None:
    before = json.loads(RESULTS.read_text("utf-8"))
    found = {
        part: {
            name: before[part][name] if asked and name in before[part] and not name.startswith(asked) else measure(name)
            for name in names
        }
        for part, names, measure in (
            ("functions", sorted(TABLE), lambda name: on_device(name)[1]),
            ("tasks", CASES, measured),
        )
    }
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
