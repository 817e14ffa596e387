"""What the tests found of functions and of training tasks on a device that is not the CPU, as tables in MyST."""

from collections.abc import Mapping
from typing import Any

from sumexp.companion.pipeline.executions import table

Measured = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""``functions``, each with ``stays`` and ``waits``; ``tasks``, each with ``waits``, ``to_device``, ``to_host``."""


def functions(measured: Measured) -> str:
    """The table of functions, by package: where their arrays are, and how often the host waits in a call, in words."""
    rows = [
        (f"`{name}`", "there" if one["stays"] else "on the CPU", one["waits"])
        for name, one in sorted(measured["functions"].items(), key=_by_package)
    ]
    return table({"function": "", "its arrays": "", "waits": ""}, rows)


def tasks(measured: Measured) -> str:
    """The table of training tasks: waits and bytes of one round."""
    rows = [
        (name, str(one["waits"]), f"{one['to_device']:,}", f"{one['to_host']:,}")
        for name, one in measured["tasks"].items()
    ]
    return table({"task": "", "waits": ":", "bytes to the device": ":", "bytes from it": ":"}, rows)


def _by_package(item: tuple[str, object]) -> tuple[str, str]:
    return item[0].split(".")[0], item[0]
