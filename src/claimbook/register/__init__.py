"""The register: claims of the papers and of the book (``claims/*.yml``), and the verdicts that their tests give."""

from claimbook.register.model import load
from claimbook.register.verdict import TRUTH_TABLE, VERDICTS, Entry, Register, decide, read_json, to_json

__all__ = ["TRUTH_TABLE", "VERDICTS", "Entry", "Register", "decide", "load", "read_json", "to_json"]
