"""The register: every checkable claim of the five papers, the theorems of our own, and the verdict their tests give.

Entries stand in ``claims/<paper>.yml`` and ``claims/sumexp.yml``; tests name them with ``@pytest.mark.claim``;
``pytest --evidence`` records how the tests ended (:mod:`sumexp.companion.register.evidence`); :func:`decide` computes
the verdicts.
"""

from sumexp.companion.register.model import CHAPTERS, Claim, Claims, Finding, RegisterError, load
from sumexp.companion.register.store import as_records, read_json, write_json
from sumexp.companion.register.verdict import TRUTH_TABLE, VERDICTS, Entry, Register, decide

__all__ = [
    "CHAPTERS",
    "TRUTH_TABLE",
    "VERDICTS",
    "Claim",
    "Claims",
    "Entry",
    "Finding",
    "Register",
    "RegisterError",
    "as_records",
    "decide",
    "load",
    "read_json",
    "write_json",
]
