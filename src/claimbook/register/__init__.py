"""The register: every checkable claim of the papers, the theorems of the book, and the verdict their tests give.

Entries stand in ``claims/*.yml``; tests name them with ``@pytest.mark.claim``;
``pytest --evidence`` records how the tests ended (:mod:`claimbook.register.evidence`); :func:`decide` computes
the verdicts.
"""

from claimbook.register.model import RegisterError, load
from claimbook.register.verdict import TRUTH_TABLE, VERDICTS, Entry, Register, decide, read_json, to_json

__all__ = ["TRUTH_TABLE", "VERDICTS", "Entry", "Register", "RegisterError", "decide", "load", "read_json", "to_json"]
