"""What tells the runs of a grid apart, in few words."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

MANY = 20
"""Of more values of a setting only their number is shown."""


def differences(configs: Sequence[Any]) -> list[str]:
    """For each config the settings that it does not share with all the others.

    Of a list of parts, such as the models of a stack, these are their number and the values that each setting takes
    among them.
    """
    settings = [_settings(asdict(config)) for config in configs]
    names = dict.fromkeys(name for each in settings for name in each)
    varying = [name for name in names if len({each.get(name) for each in settings}) > 1]
    return [" ".join(each[name] for name in varying if name in each) for each in settings]


def _settings(config: Mapping[str, Any]) -> dict[str, str]:
    """Each setting in words, ``seeds=0,1``; those of parts too, under ``parts.name``."""
    found = {}
    for name, value in config.items():
        values = value if isinstance(value, list | tuple) else [value]
        if values and all(isinstance(part, dict) for part in values):
            if values is value:
                found[name] = f"{name}={len(values)}"
            found |= {f"{name}.{key}": _words(key, [part[key] for part in values]) for key in values[0]}
        else:
            found[name] = _words(name, values)
    return found


def _words(name: str, values: Sequence[Any]) -> str:
    texts = dict.fromkeys(f"{value:.4g}" if isinstance(value, float) else str(value) for value in values)
    return f"{name}:{len(texts)}" if len(texts) > MANY else f"{name}={','.join(texts)}"
