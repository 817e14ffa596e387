"""Write anew what tests hold pages to: ``src/sumexp/measured/devices.json`` and the functions of each keyword.

A new keyword comes last in ``book/api/keywords.md`` and wants its shape and its meaning.
``python -m tests.accelerator nce functional.info_nce`` measures only what begins so, and what is not there yet.
"""

import json
import sys
from typing import Any

from tests import test_keywords
from tests.accelerator.functions import TABLE
from tests.accelerator.test_functions import RESULTS, on_device, stated
from tests.accelerator.test_tasks import CASES, measured
from tests.builds.compiled import trials


def main(asked: tuple[str, ...]) -> None:
    tables: dict[str, list[dict[str, Any]]] = {}

    def tried(name: str) -> dict[str, str]:
        """What torch makes of it."""
        inductor = "yes" if name in trials.LOSSES | trials.LAWS else "not tried"
        return {"function": name, **trials.row(name), "Inductor": inductor}

    by_package = sorted(TABLE, key=lambda name: (name.split(".")[0], name))
    for table, names, measure in (
        ("tasks", CASES, measured),
        ("functions", by_package, lambda name: on_device(name)[1]),
        ("torch", sorted(trials.CALLS), tried),
    ):
        before = stated(table)
        tables[table] = [
            before[name] if asked and name in before and not name.startswith(asked) else measure(name) for name in names
        ]
    test_keywords.PAGE.write_text(test_keywords.written(), "utf-8")
    RESULTS.write_text(json.dumps({"tables": tables}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
