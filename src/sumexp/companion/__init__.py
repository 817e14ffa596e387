"""The machinery of the book: the store, building, the register, what notebooks call, grids, the command line."""

import sys

# jsonschema, which nbformat imports, would compile an Earley grammar for each of 35 kinds of addresses: 1.5 s in every
# process that reads a notebook, whose schema has no address. Without the module jsonschema goes on.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]


class CompanionError(Exception):
    """An error of the person's input or surroundings: its message says what, where and what to do."""
