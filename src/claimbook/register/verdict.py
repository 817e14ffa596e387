"""The verdict of a claim, computed from its tests by a table that the book prints."""

import ast
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from pydantic import TypeAdapter, ValidationError

from claimbook.register.model import EVIDENCE, Claim, Claims, Evidence, RegisterError, Test, explain

Verdict: TypeAlias = Literal[
    "holds", "holds with correction", "refuted", "not reproduced", "failing", "convention", "open"
]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


@dataclass(frozen=True)
class Row:
    """One row of the truth table: the first all of whose ``facts`` are so gives the verdict."""

    when: str
    verdict: Verdict
    says: str
    facts: Set[str]


TRUTH_TABLE: tuple[Row, ...] = (
    Row("a test fails", "failing", "names the test; nothing is concluded until it passes", {"failing"}),
    Row("anything, and our text has lost what would decide", "open", "says what is lost in our text", {"lost"}),
    Row("an experiment's interval excludes the paper's finding", "not reproduced", "says by how much", {"excluded"}),
    Row("some of its parts; another decided nothing or has not run", "open", "names that part", {"in part"}),
    Row(
        "a counterexample and a correction",
        "holds with correction",
        "gives the corrected statement and links its erratum",
        {"counterexample", "correction"},
    ),
    Row("a counterexample only", "refuted", "names the test that runs the counterexample", {"counterexample"}),
    Row(
        "the statement (never with a counterexample: that is an error)",
        "holds",
        "names the strongest evidence",
        {"statement"},
    ),
    Row(
        "nothing, and it is a definition or notation printed without error",
        "convention",
        "nothing to decide, so no test is owed",
        {"convention"},
    ),
    Row("nothing", "open", "gives the reason", frozenset()),
)


class Entry(Claim):
    """A claim with its tests as they last ran, its verdict, the same in words, and the strongest evidence for it."""

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
    """The register in a file of the form of :func:`to_json`."""
    try:
        return _JSON.validate_json(path.read_bytes())
    except ValidationError as error:
        raise RegisterError([f"{path}: {explain(error)}: delete the file and build the book again"]) from None


def markers(tests_dir: Path) -> Iterator[tuple[str, str]]:
    """The tests in ``tests_dir/**/test_*.py`` that bear ``claim`` markers, and their claims, by reading alone.

    They tell a claim whose tests have not run yet from a claim without tests.
    """
    for path in sorted(tests_dir.rglob("test_*.py")):
        try:
            tests = marked(path.read_text(encoding="utf-8"))
        except SyntaxError as error:
            raise RegisterError([f"{path}:{error.lineno}: not Python: {error.msg}"]) from None
        yield from ((f"{path.as_posix()}::{name}", claim) for name, claim, _shows, _evidence in tests)


@cache
def marked(code: str) -> tuple[tuple[str, str, object, object], ...]:
    """The tests and classes of a module with what their markers name: a claim, ``shows`` and ``evidence``."""
    return tuple(_marked(ast.parse(code)))


def _marked(node: ast.AST) -> Iterator[tuple[str, str, object, object]]:
    """Markers on a node and on the statements within it, except within functions, where pytest collects nothing."""
    for call in (call for decorator in getattr(node, "decorator_list", ()) for call in ast.walk(decorator)):
        match call:
            case ast.Call(
                func=ast.Attribute(value=ast.Attribute(attr="mark"), attr="claim"),
                args=[ast.Constant(value=str(claim)), *_],
                keywords=keywords,
            ):
                named = {keyword.arg: getattr(keyword.value, "value", None) for keyword in keywords}
                yield getattr(node, "name", ""), claim, named.get("shows"), named.get("evidence")
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                yield from _marked(child)


def _open_part(deciding: Sequence[Test], waiting: bool) -> str:
    """The undecided parts of a claim of which some part is shown. Each of its tests is a part.

    Except the kernel's: it needs Coq, and checks again what another test shows.
    """
    if not any(test.found == "shown" for test in deciding):
        return ""
    open_parts = [test for test in deciding if test.evidence != "kernel" and test.found in ("skipped", "undecided")]
    if open_parts:
        return f"shown in part: {', '.join(map(_named, open_parts))} decided nothing in this build"
    return "shown in part: a test of it has not run in this build" if waiting else ""


def _named(test: Test) -> str:
    """A test that decided nothing, and why, if it says so: what was measured, or the reason of the skip."""
    measured = "; ".join(
        f"{finding.estimate:.3g}, interval {finding.low:.3g} to {finding.high:.3g} ({finding.design})"
        for finding in test.findings
        if finding.verdict in ("undecided", "alike")
    )
    alike = any(finding.verdict == "alike" for finding in test.findings)
    why = ("no difference: " * alike + measured) or test.reason
    return test.name + (f" ({why})" if why else "")


def _shortfall(test: Test) -> str:
    """Say by how much an experiment misses the paper's finding."""
    return "; ".join(
        f"measured {finding.estimate:.3g}, interval {finding.low:.3g} to {finding.high:.3g}: "
        f"{finding.gap:.3g} away from the paper's {_published(*finding.published)}"
        + (f" ({finding.ran})" if finding.ran else "")
        for finding in test.findings
        if finding.verdict == "excluded" and finding.published
    )


def _published(least: float | None, most: float | None) -> str:
    if least is None or most is None:
        return f"at most {most:.3g}" if least is None else f"at least {least:.3g}"
    return f"{least:.3g}" if least == most else f"{least:.3g} to {most:.3g}"


def _measured(claim: Claim, tests: Sequence[Test]) -> str:
    """The data sets of the claim on which it was measured, and those on which it was not; empty if on none."""
    runs = {finding.data: finding.ran for test in tests for finding in test.findings if finding.data in claim.data}
    parts = [f"measured on {ran}" for ran in runs.values()]
    if runs and (missing := [name for name in claim.data if name not in runs]):
        parts.append(f"not on {', '.join(missing)}")
    return "; ".join(parts)


def _why_open(claim: Claim, tests: Sequence[Test], deciding: Sequence[Test]) -> str:
    if undecided := [_named(test) for test in deciding if test.found == "undecided"]:
        return f"nothing is decided: {', '.join(undecided)}"
    elsewhere = [finding.data or "no data set" for test in tests if test not in deciding for finding in test.findings]
    if elsewhere:
        return f"measured on {', '.join(sorted(set(elsewhere)))} only, and it speaks of {', '.join(claim.data)}"
    if not tests:
        return "its tests have not run in this build"
    reasons = sorted({test.reason for test in tests if test.reason})
    return "its tests were skipped in this build" + (f": {'; '.join(reasons)}" if reasons else "")


def _decided(claim: Claim, tests: tuple[Test, ...], waiting: bool) -> Entry:
    """The verdict, by what passing tests show and the other facts that the truth table looks at.

    Where a claim names data sets, a test that measured on others decides nothing unless it fails.
    """
    deciding = [
        test for test in tests if not claim.data or all(finding.data in claim.data for finding in test.findings)
    ]
    failed = [test for test in tests if test.outcome == "failed"]
    excluded = [test for test in deciding if test.found == "excluded"]
    open_part = _open_part(deciding, waiting)
    others = {
        "failing": failed,
        "lost": claim.lost,
        "excluded": excluded,
        "in part": open_part,
        "convention": claim.is_convention and not tests and not waiting,
    }
    facts = {test.shows for test in deciding if test.found == "shown"} | {name for name in others if others[name]}
    verdict = next(row.verdict for row in TRUTH_TABLE if row.facts <= facts)
    match verdict:
        case "failing":
            carrying, says = failed, f"fails: {', '.join(test.test for test in failed)}"
        case "not reproduced":
            carrying, says = excluded, "; ".join(map(_shortfall, excluded))
        case "open":
            lost = claim.lost and f"lost in our text: {claim.lost}"
            carrying, says = [], lost or claim.open or open_part or _why_open(claim, tests, deciding)
        case "convention":
            carrying, says = [], ""
        case _:
            carrying = [test for test in deciding if test.outcome == "passed"]
            says = _measured(claim, carrying)
    evidence = min((test.evidence for test in carrying), key=EVIDENCE.index, default=None)
    return Entry(**dict(claim), verdict=verdict, says=says, evidence=evidence, tests=tests)


def _faults(claim: Claim, tests: tuple[Test, ...], waiting: bool) -> Iterator[str]:
    """What is wrong with a claim and its tests taken together."""
    passed = {test.shows: test.test for test in tests if test.found == "shown"}
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
    if not tested and claim.open is None and claim.lost is None and not claim.is_convention:
        yield "it has no test: mark one with its id, or give the reason under `open` or `lost`"


def decide(claims: Claims, ended: Sequence[Test], tests_dir: Path = Path("tests")) -> Register:
    """Compute every verdict from the tests as they last ran; those that have not run are not among ``ended``.

    The tests in ``tests_dir`` are read for markers only (:func:`markers`).
    """
    declared = list(markers(tests_dir))
    named = {(test.test, test.claim) for test in ended} | set(declared)
    orphans = sorted((test, claim) for test, claim in named if claim not in claims)
    faults = [f"{test}: its marker names {claim!r}, which is no entry of claims/" for test, claim in orphans]
    register: list[Entry] = []
    for claim in claims.values():
        its = (test for test in ended if test.claim == claim.id)
        tests = tuple(sorted(its, key=lambda test: (EVIDENCE.index(test.evidence), test.test)))
        ran = {test.name for test in tests}
        waiting = any(of == claim.id and test.rpartition("::")[2] not in ran for test, of in declared)
        faults += [f"{claim.place}: {fault}" for fault in _faults(claim, tests, waiting)]
        register.append(_decided(claim, tests, waiting))
    if faults:
        raise RegisterError(faults)
    return tuple(register)
