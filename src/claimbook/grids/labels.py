"""Short labels for the runs of a grid."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

MOST = 60
"""Letters of a value that are shown."""


def differences(configs: Sequence[Any]) -> list[str]:
    """For each config the settings that it does not share with all the others, such as ``noise=gumbel steps=3``."""
    settings = [{name: str(value) for name, value in asdict(config).items()} for config in configs]
    names = dict.fromkeys(name for each in settings for name in each)
    varying = [name for name in names if len({each.get(name) for each in settings}) > 1]
    return [" ".join(f"{name}={each[name][:MOST]}" for name in varying if name in each) for each in settings]
