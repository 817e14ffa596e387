"""Importing a library without what it imports for nothing."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

GRAMMARS = "rfc3987_syntax"
"""Grammars for jsonschema, of addresses that no notebook and no setting has: 1.5 s to import."""


@contextmanager
def spared(module: str = GRAMMARS) -> Iterator[None]:
    """Let an optional module seem absent, unless it is imported already."""
    absent = module not in sys.modules
    if absent:
        sys.modules[module] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if absent:
            del sys.modules[module]
