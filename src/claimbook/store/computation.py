"""What is computed, and the key that follows from all it depends on."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256


@dataclass(frozen=True)
class Computation:
    """Something to compute: its kind (``notebook``, ``evidence``, ``run``, ``grid``, ``pages``), and which of them.

    The parts are what its result depends on, by name (``module sumexp.nn``, ``data brown``, ``version torch``): a
    digest or a short value each.
    """

    kind: str
    name: str
    parts: Mapping[str, str]

    @cached_property
    def key(self) -> str:
        """SHA-256 (hex) of kind, name and parts."""
        return digest(self.kind, self.name, *(text for part in sorted(self.parts.items()) for text in part))

    def named(self, prefix: str) -> dict[str, str]:
        """The parts whose names begin so, by what follows: ``config`` of runs, ``parameter`` of notebooks and pages."""
        return {name.removeprefix(prefix): value for name, value in self.parts.items() if name.startswith(prefix)}

    @property
    def settings(self) -> dict[str, str]:
        """The parameters of a notebook, by name."""
        return self.named("parameter ")

    def differences(self, other: "Computation") -> list[str]:
        """The parts that differ from the earlier computation ``other``, in words."""
        names = sorted(self.parts.keys() | other.parts.keys())
        pairs = [(name, other.parts.get(name), self.parts.get(name)) for name in names]
        return [_difference(name, before, now) for name, before, now in pairs if before != now]


def digest(*texts: str) -> str:
    """SHA-256 (hex) of a sequence of strings, each set off from the next by its length."""
    return sha256(b"".join(b"%d:%s" % (len(text.encode()), text.encode()) for text in texts)).hexdigest()


def _difference(name: str, before: str | None, now: str | None) -> str:
    if before is None or now is None:
        return f"{name}: {'new' if before is None else 'gone'}"
    return f"{name}: {_short(before)} -> {_short(now)}"


def _short(value: str) -> str:
    return f"{value[:8]}..." if len(value) == 64 else value if len(value) <= 60 else f"{value[:57]}..."
