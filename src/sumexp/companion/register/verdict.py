"""The verdict of a claim, computed from its tests by a table that the book prints."""

import ast
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import TypeAdapter, ValidationError

from sumexp.companion.register.model import (
    EVIDENCE,
    Claim,
    Claims,
    Evidence,
    RegisterError,
    Test,
    explain,
)

Verdict: TypeAlias = Literal[
    "failing", "not reproduced", "holds with correction", "refuted", "holds", "convention", "open"
]


@dataclass(frozen=True)
class Row:
    """One row of the truth table: the first all of whose ``facts`` are so gives the verdict."""

    when: str
    verdict: Verdict
    says: str
    facts: Set[str]


TRUTH_TABLE: tuple[Row, ...] = (
    Row("a test fails", "failing", "names the test; nothing is concluded until it passes", {"failing"}),
    Row("an experiment's interval excludes the paper's finding", "not reproduced", "says by how much", {"excluded"}),
    Row(
        "a counterexample and a correction",
        "holds with correction",
        "gives the corrected statement and links its erratum",
        {"counterexample", "correction"},
    ),
    Row("a counterexample only", "refuted", "names the test that runs the counterexample", {"counterexample"}),
    Row(
        "the statement; of experiments alone, each of its parts (never with a counterexample: that is an error)",
        "holds",
        "names the strongest evidence",
        {"statement", "whole"},
    ),
    Row(
        "nothing, and it is a definition or notation printed without error",
        "convention",
        "nothing to decide, so no test is owed",
        {"convention"},
    ),
    Row("nothing", "open", "gives the reason", frozenset()),
)
VERDICTS: tuple[Verdict, ...] = (
    "holds", "holds with correction", "refuted", "not reproduced", "failing", "convention", "open",
)  # fmt: skip


class Entry(Claim):
    """A claim with what its tests say of it.

    Attributes:
        verdict: by the truth table.
        says: the verdict in words, such as how far an experiment lies from the paper; may be empty.
        evidence: the strongest evidence among the tests that carry the verdict.
        tests: its tests as they last ran.
    """

    verdict: Verdict
    says: str
    evidence: Evidence | None
    tests: tuple[Test, ...]


Register: TypeAlias = tuple[Entry, ...]
_JSON = TypeAdapter(Register)


def to_json(register: Register) -> str:
    """The machine's form of the register: for each claim its fields, verdict, evidence and tests."""
    return f"{_JSON.dump_json(register, indent=1).decode()}\n"


def read_json(path: Path) -> Register:
    """The register in a file of the form of :func:`to_json`.

    Raises:
        RegisterError: if it is of another form.
    """
    try:
        return _JSON.validate_json(path.read_bytes())
    except ValidationError as error:
        raise RegisterError([f"{path}: {explain(error)}: delete the file and build the book again"]) from None


def markers(tests_dir: Path) -> Iterator[tuple[str, str]]:
    """Find the ``claim`` markers in ``tests_dir/**/test_*.py`` without running anything: the tests and their claims.

    A claim whose tests have not run yet is thereby distinguished from one that has no test.

    Raises:
        RegisterError: a file is not Python.
    """
    for path in sorted(tests_dir.rglob("test_*.py")):
        try:
            found = marked(path.read_text(encoding="utf-8"))
        except SyntaxError as error:
            raise RegisterError([f"{path}:{error.lineno}: not Python: {error.msg}"]) from None
        yield from ((f"{path.as_posix()}::{name}", claim) for name, claim, _shows, _evidence in found)


@cache
def marked(code: str) -> tuple[tuple[str, str, object, object], ...]:
    """The tests and classes of a module with what their markers name: a claim, ``shows`` and ``evidence``."""
    found = []
    for node in _definitions(ast.parse(code)):
        for call in (call for decorator in node.decorator_list for call in ast.walk(decorator)):
            match call:
                case ast.Call(
                    func=ast.Attribute(value=ast.Attribute(attr="mark"), attr="claim"),
                    args=[ast.Constant(value=str(claim)), *_],
                    keywords=keywords,
                ):
                    named = {one.arg: getattr(one.value, "value", None) for one in keywords}
                    found.append((node.name, claim, named.get("shows"), named.get("evidence")))
    return tuple(found)


def _definitions(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Functions and classes, but for what stands within a function: pytest collects none of it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield child
        if isinstance(child, ast.stmt) and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _definitions(child)


def _excluded(test: Test) -> bool:
    return test.outcome == "passed" and any(finding.verdict == "excluded" for finding in test.findings)


def _shown(test: Test) -> bool:
    """Whether a test shows what it bears witness to; an interval that decides nothing shows nothing."""
    return test.outcome == "passed" and all(finding.verdict == "shown" for finding in test.findings)


def _beside(claim: Claim, test: Test) -> bool:
    """Whether a test measured on other data sets than those that the claim speaks of."""
    return bool(claim.data) and any(finding.data not in claim.data for finding in test.findings)


def facts(claim: Claim, tests: tuple[Test, ...], waiting: bool) -> Set[str]:
    """What the truth table looks at: what passing tests show, and which of four other facts are so.

    These are ``failing``, if a test failed; ``excluded``, if an experiment excludes the paper's finding;
    ``convention``, if there is nothing to decide and no test; and ``whole``, unless experiments alone show the
    statement and one of its parts decided nothing or has not run.

    Args:
        claim: the claim.
        tests: its tests as they last ran.
        waiting: whether a test exists which has not run.
    """
    deciding = [test for test in tests if not _beside(claim, test)]
    others = {
        "failing": any(test.outcome == "failed" for test in tests),
        "excluded": any(map(_excluded, deciding)),
        "convention": claim.is_convention and not tests and not waiting,
        "whole": not (_open_parts(deciding) or (waiting and _by_experiments(deciding))),
    }
    return {test.shows for test in deciding if _shown(test)} | {name for name, is_so in others.items() if is_so}


def _by_experiments(deciding: Sequence[Test]) -> bool:
    """Whether experiments alone show the statement: then each part must hold."""
    return {test.evidence for test in deciding if test.shows == "statement" and _shown(test)} == {"experiment"}


def _open_parts(deciding: Sequence[Test]) -> list[Test]:
    """The experiments that decided nothing, of a statement that experiments alone show."""
    if not _by_experiments(deciding):
        return []
    parts = [test for test in deciding if test.shows == "statement" and test.evidence == "experiment"]
    return [test for test in parts if test.outcome == "skipped" or (test.outcome == "passed" and not _decides(test))]


def _decides(test: Test) -> bool:
    return _shown(test) or _excluded(test)


def _undecided(test: Test) -> str:
    """A test that decided nothing, and why: what was measured, or what it was skipped for; empty if it said neither."""
    measured = "; ".join(
        f"{finding.estimate:.3g}, interval {finding.low:.3g} to {finding.high:.3g} ({finding.design})"
        for finding in test.findings
        if finding.verdict in ("undecided", "alike")
    )
    alike = any(finding.verdict == "alike" for finding in test.findings)
    return ("no difference: " * alike + measured) or test.reason


def _carries(verdict: Verdict, claim: Claim, test: Test) -> bool:
    """Whether a test is among those that carry the verdict."""
    if verdict != "failing" and _beside(claim, test):
        return False
    match verdict:
        case "failing":
            return test.outcome == "failed"
        case "not reproduced":
            return _excluded(test)
        case "open" | "convention":
            return False
        case _:
            return test.outcome == "passed"


def _shortfall(test: Test) -> str:
    """Say by how much an experiment misses the paper's finding."""
    return "; ".join(
        f"measured {finding.estimate:.3g}, interval {finding.low:.3g} to {finding.high:.3g}: "
        f"{finding.gap:.3g} away from the paper's {_published(finding.published or (None, None))}"
        + (f" ({finding.ran})" if finding.ran else "")
        for finding in test.findings
        if finding.verdict == "excluded"
    )


def _published(published: tuple[float | None, float | None] | None) -> str:
    match published:
        case None | (None, None):
            return "any value"
        case (None, most):
            return f"at most {most:.3g}"
        case (least, None):
            return f"at least {least:.3g}"
        case (least, most) if least == most:
            return f"{least:.3g}"
        case (least, most):
            return f"{least:.3g} to {most:.3g}"


def _measured(claim: Claim, tests: list[Test]) -> str:
    """On which of the data sets that the claim speaks of it was measured, and on which not; empty if of none."""
    found = {finding.data: finding.ran for test in tests for finding in test.findings if finding.data in claim.data}
    lacking = [name for name in claim.data if name not in found]
    return "; ".join(
        [f"measured on {ran}" for ran in found.values()]
        + ([f"not on {', '.join(lacking)}"] if found and lacking else [])
    )


def _says(verdict: Verdict, claim: Claim, tests: tuple[Test, ...]) -> str:
    carrying = [test for test in tests if _carries(verdict, claim, test)]
    match verdict:
        case "failing":
            return f"fails: {', '.join(test.test for test in carrying)}"
        case "not reproduced":
            return "; ".join(map(_shortfall, carrying))
        case "open" if claim.open is None:
            deciding = [test for test in tests if not _beside(claim, test)]
            if parts := _open_parts(deciding):
                return f"shown in part: {', '.join(map(_named, parts))} decided nothing in this build"
            if _by_experiments(deciding):
                return "shown in part: a test of it has not run in this build"
            if whys := [_named(test) for test in deciding if test.outcome == "passed" and not _decides(test)]:
                return f"nothing is decided: {', '.join(whys)}"
            others = [test for test in tests if _beside(claim, test)]
            if elsewhere := sorted({finding.data or "no data set" for test in others for finding in test.findings}):
                return f"measured on {', '.join(elsewhere)} only, and it speaks of {', '.join(claim.data)}"
            if not tests:
                return "its tests have not run in this build"
            reasons = sorted({test.reason for test in tests if test.reason})
            return "its tests were skipped in this build" + (f": {'; '.join(reasons)}" if reasons else "")
        case "open":
            return claim.open or ""
        case _:
            return _measured(claim, carrying)


def _named(test: Test) -> str:
    why = _undecided(test)
    return _function(test.test) + (f" ({why})" if why else "")


def _faults(claim: Claim, tests: tuple[Test, ...], waiting: bool) -> Iterator[str]:
    """What is wrong with a claim and its tests taken together."""
    passed = {test.shows: test.test for test in tests if _shown(test)}
    tested = bool(tests) or waiting
    if {"statement", "counterexample"} <= passed.keys():
        yield (
            f"{passed['statement']} shows the statement and {passed['counterexample']} a counterexample to it: "
            "one of the two markers is wrong"
        )
    for test in tests:
        if test.shows == "correction" and claim.corrected is None:
            yield f"{test.test} shows a correction, but the entry has no `corrected`: write it"
        if test.shows == "statement" and claim.corrected is not None:
            yield f"{test.test} shows the statement as printed, but the entry has `corrected`: remove one of them"
    if "correction" in passed and not waiting and all(test.shows == "correction" for test in tests):
        yield f"{passed['correction']} shows the correction, but no test shows the printed statement false: add one"
    if tested and claim.open is not None:
        named = tests[0].test if tests else "a test"
        yield f"{named} bears its id, so `open` is out of date: remove it"
    if not tested and claim.open is None and not claim.is_convention:
        yield "it has no test: mark one with its id, or give the reason under `open`"


def _function(test: str) -> str:
    """The name of a test within its module or class."""
    return test.rpartition("::")[2]


def decide(claims: Claims, ended: Sequence[Test], tests_dir: Path = Path("tests")) -> Register:
    """Compute every verdict from the tests as they last ran.

    Args:
        claims: the entries.
        ended: how the tests of claims ended; those that have not run are absent.
        tests_dir: folder of the tests, read for markers only, so that a claim whose tests have not run
            is distinguished from a claim that has none.

    Raises:
        RegisterError: a test names an unknown claim; a statement and its counterexample both pass; an entry has
            neither a test nor a reason to be open, or has both.
    """
    declared = list(markers(tests_dir))
    by_claim: dict[str, list[Test]] = {}
    for test in ended:
        by_claim.setdefault(test.claim, []).append(test)
    named = {(test.test, test.claim) for test in ended} | set(declared)
    orphans = sorted((test, claim) for test, claim in named if claim not in claims)
    faults = [f"{test}: its marker names {claim!r}, which is no entry of claims/" for test, claim in orphans]
    register: list[Entry] = []
    for claim in claims.values():
        tests = tuple(sorted(by_claim.get(claim.id, ()), key=lambda test: (EVIDENCE.index(test.evidence), test.test)))
        ran = {_function(test.test) for test in tests}
        waiting = any(of == claim.id and _function(test) not in ran for test, of in declared)
        faults += [f"claims/{claim.paper}.yml: entry {claim.id}: {fault}" for fault in _faults(claim, tests, waiting)]
        seen = facts(claim, tests, waiting)
        verdict = next(row.verdict for row in TRUTH_TABLE if row.facts <= seen)
        carrying = [test.evidence for test in tests if _carries(verdict, claim, test)]
        register.append(
            Entry(
                **dict(claim),
                verdict=verdict,
                says=_says(verdict, claim, tests),
                evidence=min(carrying, key=EVIDENCE.index, default=None),
                tests=tests,
            )
        )
    if faults:
        raise RegisterError(faults)
    return tuple(register)
