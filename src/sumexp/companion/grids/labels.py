"""What tells the runs of a grid apart, in few words."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

FEW = 4
"""The most values of a setting that are shown; of more, only their number."""


def differences(configs: Sequence[Any]) -> list[str]:
    """In a few words for each config what it does not share with all the others.

    Of a list of parts, such as the models of a stack, these are their number and the values that each setting takes
    among them; what lies deeper in the parts is counted.
    """
    settings = [_settings(asdict(config)) for config in configs]
    names = list(dict.fromkeys(name for each in settings for name in each))
    varying = [name for name in names if len({repr(each.get(name)) for each in settings}) > 1]
    shown = [name for name in names if any(f"{other}.".startswith(f"{name}.") for other in varying)]
    return [" ".join(_words(name, each[name]) for name in shown if name in each) for each in settings]


def _settings(config: dict[str, Any]) -> dict[str, list[Any]]:
    """The different values of each setting, of those of parts too, under ``parts.name``; the parts' number in words."""
    found: dict[str, list[Any]] = {}
    for name, value in config.items():
        values = value if isinstance(value, list | tuple) else [value]
        if values and all(isinstance(part, dict) for part in values):
            if values is value:
                found[name] = [f"{len(values)} {name}"]
            found |= {f"{name}.{key}": _different(part[key] for part in values) for key in values[0]}
        else:
            found[name] = _different(values)
    return found


def _different(values: Iterable[Any]) -> list[Any]:
    return list({repr(value): value for value in values}.values())


def _words(name: str, values: Sequence[Any]) -> str:
    """Words stand for themselves, numbers have a name, whole numbers in a row are given by their ends."""
    name = name.rpartition(".")[2]
    if len(values) > 2 and all(type(value) is int for value in values):
        low, high = min(values), max(values)
        if high - low == len(values) - 1:
            return f"{name}={low}-{high}"
    if len(values) > FEW or any(isinstance(value, dict | list | tuple) for value in values):
        return f"{name}:{len(values)}"
    text = ",".join(f"{value:.4g}" if isinstance(value, float) else str(value) for value in values)
    return text if all(isinstance(value, str) for value in values) else f"{name}={text}"
