"""The verdict of a claim, computed from its tests by a table that the book prints."""

import ast
from collections.abc import Iterator, Sequence, Set
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from pydantic import TypeAdapter, ValidationError

from claimbook import BookError
from claimbook.register.model import EVIDENCE, Claim, Claims, Evidence, Finding, Test

Verdict: TypeAlias = Literal[
    "holds", "holds with correction", "refuted", "not reproduced", "failing", "convention", "open", "not judged"
]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
_RANK = [*EVIDENCE]

TRUTH_TABLE: tuple[tuple[str, Verdict, Set[str]], ...] = (
    ("a test fails", "failing", {"failing"}),
    ("anything, and our text has lost what would decide", "not judged", {"lost"}),
    ("an experiment's interval excludes the paper's finding", "not reproduced", {"excluded"}),
    ("some of its parts; another decided nothing or has not run", "open", {"in part"}),
    ("a counterexample and a correction", "holds with correction", {"counterexample", "correction"}),
    ("a counterexample only", "refuted", {"counterexample"}),
    ("the statement (never with a counterexample: that is an error)", "holds", {"statement"}),
    ("nothing, and it is a definition or notation printed without error", "convention", {"convention"}),
    ("nothing, and the entry says why nobody judges it", "not judged", {"unjudged"}),
    ("nothing", "open", frozenset()),
)
"""What the tests show, the verdict, the same as facts: the first row all of whose facts are so gives the verdict."""


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
    except ValidationError:
        raise BookError(f"{path} is damaged or of another version: delete the file and build the book again") from None


def markers(tests_dir: Path) -> Iterator[tuple[str, str]]:
    """The tests in ``tests_dir`` that bear ``claim`` markers, with their claims, whether or not they have run."""
    for path in sorted(tests_dir.rglob("test_*.py")):
        try:
            marked = _marked(path.read_text(encoding="utf-8"))
        except SyntaxError as error:
            raise BookError(f"{path}:{error.lineno}: not Python: {error.msg}") from None
        yield from ((f"{path.relative_to(tests_dir.parent).as_posix()}::{name}", claim) for name, claim in marked)


@cache
def _marked(code: str) -> tuple[tuple[str, str], ...]:
    """The functions and classes of a module whose decorators have markers, also those of cases, and their claims."""
    return tuple(
        (getattr(node, "name", ""), ast.literal_eval(call.args[0]))
        for node in ast.walk(ast.parse(code))
        for decorator in getattr(node, "decorator_list", ())
        for call in ast.walk(decorator)
        if isinstance(call, ast.Call) and call.args and ast.unparse(call.func) == "pytest.mark.claim"
    )


def _interval(finding: Finding) -> str:
    return f"{finding.estimate:.3g}, interval {finding.low:.3g} to {finding.high:.3g}"


def _named(test: Test) -> str:
    """A test that decided nothing, with what it measured or why it was skipped."""
    nothing = [finding for finding in test.findings if finding.verdict in ("undecided", "alike")]
    alike = any(finding.verdict == "alike" for finding in nothing)
    measured = "; ".join(f"{_interval(finding)} ({finding.design})" for finding in nothing)
    why = ("no difference: " * alike + measured) or test.reason
    return test.name + (f" ({why})" if why else "")


def _shortfall(test: Test) -> str:
    """By how much an experiment misses the paper's finding."""
    missed = []
    for finding in test.findings:
        if finding.verdict == "excluded" and finding.published:
            least, most = finding.published
            gap = max(0.0 if least is None else least - finding.high, 0.0 if most is None else finding.low - most, 0.0)
            ends = " to ".join(dict.fromkeys("…" if end is None else f"{end:.3g}" for end in (least, most)))
            ran = f" ({finding.ran})" if finding.ran else ""
            missed.append(f"measured {_interval(finding)}: {gap:.3g} away from the paper's {ends}{ran}")
    return "; ".join(missed)


def _measured(claim: Claim, tests: Sequence[Test]) -> str:
    """The data sets of the claim on which it was measured, and those on which it was not; empty if on none."""
    runs = {finding.data: finding.ran for test in tests for finding in test.findings if finding.data in claim.data}
    parts = [f"measured on {ran}" for ran in runs.values()]
    if runs and (missing := [name for name in claim.data if name not in runs]):
        parts.append(f"not on {', '.join(missing)}")
    return "; ".join(parts)


def _why_open(claim: Claim, tests: Sequence[Test], deciding: Sequence[Test]) -> str:
    undecided = [test for test in deciding if test.evidence != "kernel" and test.result in ("skipped", "undecided")]
    elsewhere = {finding.data or "no data set" for test in tests if test not in deciding for finding in test.findings}
    if any(test.result == "shown" for test in deciding):
        reason = f"{', '.join(map(_named, undecided))} decided nothing" if undecided else "a test of it has not run"
        return f"shown in part: {reason} in this build"
    if measured := [_named(test) for test in undecided if test.result == "undecided"]:
        return f"nothing is decided: {', '.join(measured)}"
    if elsewhere:
        return f"measured on {', '.join(sorted(elsewhere))} only, and it speaks of {', '.join(claim.data)}"
    reasons = sorted({test.reason for test in tests if test.reason})
    ended = f"were skipped in this build{': ' * bool(reasons)}{'; '.join(reasons)}"
    return f"its tests {ended if tests else 'have not run in this build'}"


def _decided(claim: Claim, tests: tuple[Test, ...], waiting: bool) -> Entry:
    """The verdict, by what passing tests show and the other facts that the truth table looks at."""
    # A test on other data sets than the claim names decides nothing unless it fails.
    deciding = [
        test for test in tests if not claim.data or all(finding.data in claim.data for finding in test.findings)
    ]
    failed = [test for test in tests if test.outcome == "failed"]
    excluded = [test for test in deciding if test.result == "excluded"]
    shown = {test.shows for test in deciding if test.result == "shown"}
    parts = {test.result for test in deciding if test.evidence != "kernel"}  # which repeats what another test shows
    others = {
        "failing": failed,
        "lost": claim.lost,
        "unjudged": claim.unjudged,
        "excluded": excluded,
        "in part": shown and (waiting or parts & {"skipped", "undecided"}),
        "convention": claim.is_convention and not tests and not waiting,
    }
    facts = shown | {name for name in others if others[name]}
    match verdict := next(verdict for _, verdict, needed in TRUTH_TABLE if needed <= facts):
        case "failing":
            carrying, says = failed, f"fails: {', '.join(test.test for test in failed)}"
        case "not reproduced":
            carrying, says = excluded, "; ".join(map(_shortfall, excluded))
        case "not judged":
            carrying, says = [], f"lost in our text: {claim.lost}" if claim.lost else str(claim.unjudged)
        case "open":
            carrying, says = [], _why_open(claim, tests, deciding)
        case _:
            of = {"correction"} & shown or shown  # what a correction rests on, not its counterexample
            carrying = [test for test in deciding if test.outcome == "passed" and test.shows in of]
            says = _measured(claim, carrying)
    evidence = min((test.evidence for test in carrying), key=_RANK.index, default=None)
    return Entry(**dict(claim), verdict=verdict, says=says, evidence=evidence, tests=tests)


def _faults(claim: Claim, tests: tuple[Test, ...], waiting: bool) -> Iterator[str]:
    """What is wrong with a claim and its tests taken together."""
    passed = {test.shows: test.test for test in tests if test.result == "shown"}
    if {"statement", "counterexample"} <= passed.keys():
        yield f"{passed['statement']} shows it, {passed['counterexample']} refutes it: one of the two markers is wrong"
    for test in tests:
        if test.shows == "correction" and claim.corrected is None:
            yield f"{test.test} shows a correction, but the entry has no `corrected`: write it"
        if test.shows == "statement" and claim.corrected is not None:
            yield f"{test.test} shows the statement as printed, but the entry has `corrected`: remove one of them"
    if "correction" in passed and not waiting and all(test.shows == "correction" for test in tests):
        yield f"{passed['correction']} shows the correction, but no test shows the printed statement false: add one"
    if (tests or waiting) and claim.unjudged is not None:
        yield f"{tests[0].test if tests else 'a test'} bears its id, so `unjudged` is out of date: remove it"
    if not (tests or waiting or claim.unjudged or claim.lost or claim.is_convention):
        yield "it has no test: mark one with its id, or give the reason under `unjudged` or `lost`"


def decide(claims: Claims, ended: Sequence[Test], tests_dir: Path = Path("tests")) -> Register:
    """Compute every verdict from the tests as they last ran; the others are found by their markers in ``tests_dir``."""
    declared = list(markers(tests_dir))
    named = {(test.test, test.claim) for test in ended} | set(declared)
    orphans = (pair for pair in sorted(named) if pair[1] not in claims)
    faults = [f"{test}: its marker names {claim!r}, which is no entry of claims/" for test, claim in orphans]
    register: list[Entry] = []
    for claim in claims.values():
        its = (test for test in ended if test.claim == claim.id)
        tests = tuple(sorted(its, key=lambda test: (_RANK.index(test.evidence), test.test)))
        ran = {f"{file}::{name}" for test in tests for file, *names in [test.test.split("::")] for name in names}
        waiting = any(of == claim.id and test not in ran for test, of in declared)
        faults += [f"{claim.place}: {fault}" for fault in _faults(claim, tests, waiting)]
        register.append(_decided(claim, tests, waiting))
    if faults:
        raise BookError("\n".join(faults))
    return tuple(register)
