"""The pytest plugin: what a run of the tests records of the claims, keeps as evidence, and leaves out as known."""

import json
import ntpath
from pathlib import Path

import pytest

from claimbook.register import evidence, outcomes
from claimbook.store import Store
from sumexp import datasets
from sumexp.chapters import intervals

pytest_plugins = "pytester"
# Imported here: pytester forgets what its runs import, and the C code of YAML and NumPy cannot be loaded twice.
PLUGIN, NEEDED = evidence.__name__, (datasets, intervals, ntpath)

CLAIMS = """
- {id: bias-x, chapter: bias, where: eq. (1), kind: equation, paper_says: one, unjudged: not yet}
- {id: bias-y, chapter: bias, where: eq. (2), kind: equation, paper_says: two, unjudged: not yet}
"""
XDIST = ("-p", "xdist.plugin", "-n")
MARK = '@pytest.mark.claim("bias-x", shows="statement", evidence="exact")'
EXPERIMENT = '@pytest.mark.claim("bias-x", shows="statement", evidence="experiment")'
ONE_WORKER = (*XDIST, "1")
SMALL = f"""import os

{MARK}
@pytest.mark.parametrize("n", [1, 2])
def test_passes(n): ...

{MARK}
def test_fails(): assert "MENDED" in os.environ

{MARK}
@pytest.mark.slow
def test_slow(): ...

def test_of_no_claim(): ...
"""


class Project:
    """A project with two claims, in which only the plugin and the options given count."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester, self.path, self.store = pytester, pytester.path, Store(pytester.path / "store")

    def write(self, text: str, name: str = "test_bias.py") -> None:
        """Write a module of tests."""
        file = self.path / "tests" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"import pytest\n{text}", "utf-8")

    def test(self, *options: str, code: int = 0) -> str:
        """Run the tests, keeping their outcomes."""
        result = self.pytester.runpytest_inprocess("--keep-evidence", *options)
        output = f"{result.stdout}{result.stderr}"
        assert result.ret == code, output
        return output

    def recorded(self, name: str = "test_bias.py") -> list[dict]:
        """What the store has of a module of tests; None if nothing."""
        entry = self.store.find(outcomes.computation(Path("tests", name)))
        return json.loads((entry.path / outcomes.FILE).read_text("utf-8")) if entry else None

    def kept(self, name: str = "test_bias.py") -> dict[str, str] | None:
        """The same, by the name of a test its outcome."""
        tests = self.recorded(name)
        return None if tests is None else {test["test"].partition("::")[2]: test["outcome"] for test in tests}


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    for variable in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "MENDED"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("SUMEXP_STORE", str(pytester.path / "store"))
    (pytester.mkdir("claims") / "bias.yml").write_text(CLAIMS)
    pytester.makeini(f"[pytest]\naddopts = --strict-markers -p {PLUGIN}\nmarkers = slow\ntestpaths = tests\n")
    made = Project(pytester)
    made.write(SMALL)
    return made


def record(project: Project, source: str, *options: str, code: int = 0) -> list[dict]:
    """Run the tests in ``source`` and return the evidence they leave, if any."""
    project.write(source)
    project.test(*options, code=code)
    return project.recorded()


SUITE = f"""
{MARK}
def test_passes(): ...

{MARK}
def test_fails(): assert 1 == 2

{MARK}
def test_skips(): pytest.skip("no data")

{MARK}
@pytest.mark.parametrize("n", [1, 2, 3])
def test_all_cases(n): assert n < 4

{MARK}
@pytest.mark.parametrize("n", [1, 2, 3])
def test_all_cases_but_one(n): assert n < 3

{MARK}
@pytest.mark.parametrize("n", [1, 2])
def test_one_case_skipped(n):
    if n == 2: pytest.skip("no data")

@pytest.fixture
def broken(): raise RuntimeError("no")

{MARK}
def test_setup_fails(broken): ...

@pytest.fixture
def left_broken():
    yield
    raise RuntimeError("no")

{MARK}
def test_teardown_fails(left_broken): ...

def test_of_no_claim(): ...

class TestOne:
    {MARK}
    def test_in_a_class(self): ...
"""
ENDED = {
    **dict.fromkeys(("test_passes", "test_all_cases", "TestOne::test_in_a_class"), "passed"),
    **dict.fromkeys(("test_fails", "test_all_cases_but_one", "test_setup_fails", "test_teardown_fails"), "failed"),
    **dict.fromkeys(("test_skips", "test_one_case_skipped"), "skipped"),
}


@pytest.mark.parametrize("options", [(), (*XDIST, "2"), ("-m", "claim")], ids=["plain", "xdist", "claims-only"])
def test_outcome_of_every_marked_test(project, options):
    tests = record(project, SUITE, *options, code=1)
    ended = {f"tests/test_bias.py::{name}": outcome for name, outcome in ENDED.items()}
    assert {test["test"]: test["outcome"] for test in tests} == ended


def test_record_names_claim_and_what_is_shown(project):
    source = f"""
{MARK}
@pytest.mark.claim("bias-y", shows="counterexample", evidence="proof")
def test_two(): ...
"""
    common = {"test": "tests/test_bias.py::test_two", "outcome": "passed", "findings": [], "reason": ""}
    assert record(project, source) == [
        common | {"claim": "bias-x", "shows": "statement", "evidence": "exact"},
        common | {"claim": "bias-y", "shows": "counterexample", "evidence": "proof"},
    ]


def test_cases_may_decide_different_claims(project):
    source = """
@pytest.mark.parametrize("n", [
    pytest.param(1, marks=pytest.mark.claim("bias-x", shows="statement", evidence="exact")),
    pytest.param(2, marks=pytest.mark.claim("bias-y", shows="statement", evidence="exact")),
])
def test_each(n): assert n == 1
"""
    tests = record(project, source, code=1)
    assert {test["claim"]: test["outcome"] for test in tests} == {"bias-x": "passed", "bias-y": "failed"}


def test_without_the_option_nothing_is_written(project):
    project.write(f"{MARK}\ndef test_it(): ...")
    assert project.pytester.runpytest_inprocess().ret == 0
    assert not project.store.root.exists()


FAULTS = {
    "unknown id": ('"bias-z", shows="statement", evidence="exact"', "names 'bias-z', which is no entry of claims/"),
    "orphan": ("", 'is not of the form @pytest.mark.claim("<id>", shows="<what>", evidence="<kind>")'),
    "no evidence": ('"bias-x", shows="statement"', "is not of the form"),
    "too much": ('"bias-x", shows="statement", evidence="exact", sure=True', "is not of the form"),
    "shows": ('"bias-x", shows="theorem", evidence="exact"', "shows: Input should be 'statement', 'correction'"),
    "kind": ('"bias-x", shows="statement", evidence="belief"', "evidence: Input should be 'kernel', 'proof', 'exact'"),
}


@pytest.mark.parametrize(("arguments", "message"), FAULTS.values(), ids=FAULTS)
def test_faulty_marker_stops_the_run_and_is_named(project, arguments, message):
    project.write(f"@pytest.mark.claim({arguments})\ndef test_it(): ...")
    output = project.test(code=pytest.ExitCode.INTERRUPTED)
    assert "tests/test_bias.py::test_it: the marker claim(" in output
    assert message in output
    assert project.recorded() is None


@pytest.mark.parametrize(("options", "code"), [((), pytest.ExitCode.INTERRUPTED), (ONE_WORKER, 1)])
def test_faulty_register_stops_the_run_and_is_named(project, options, code):
    (project.path / "claims" / "bias.yml").write_text("- {id: bias-x}")
    project.write(f"{MARK}\nclass TestIt:\n    def test_it(self): ...")
    assert "claims/bias.yml: entry bias-x: " in project.test(*options, code=code)


def test_tests_without_markers_need_no_register(project):
    (project.path / "claims" / "bias.yml").unlink()
    assert record(project, "def test_plain(): ...") is None


def test_findings_are_recorded(project):
    source = f"""
from dataclasses import replace
from sumexp.chapters import intervals
{EXPERIMENT}
def test_it(finding):
    six = intervals.interval([1.0, 1.0, 1.0, 2.0, 2.0, 2.0])
    finding(six, 1.25)
    finding(six, published=(None, 0.5), margin=0.1)
    finding(replace(six, room=0.25), data="mnist", profile="cpu", keys=("ab", "cd"))
"""
    (test,) = record(project, source)
    # Deviation 0.5477, t of five degrees 2.5706: half a width of 0.575.
    low, high = (pytest.approx(1.5 + 0.5748 * side, abs=1e-4) for side in (-1, 1))
    measured = {"estimate": 1.5, "low": low, "high": high, "confidence": 0.95, "seeds": 6}
    unsaid = {"margin": 0.0, "room": None, "data": None, "profile": None, "keys": [], "origin": ""}
    assert test["findings"] == [
        measured | unsaid | {"published": [1.25, 1.25]},
        measured | unsaid | {"published": [None, 0.5], "margin": 0.1},
        measured | unsaid | {"published": None, "room": 0.25, "data": "mnist", "profile": "cpu", "keys": ["ab", "cd"]},
    ]


FINDINGS = {
    "nothing stated": (EXPERIMENT, "def test_it(): ...", "is an experiment but stated no finding"),
    "a word it does not know": (
        EXPERIMENT,
        "def test_it(finding):\n"
        "    from sumexp.chapters.intervals import interval\n"
        "    finding(interval([1, 2]), dataset='mnist')",
        "Extra inputs are not permitted",
    ),
    "no experiment": (MARK, "def test_it(finding): finding(None)", "exactly one claim marker with evidence="),
}


@pytest.mark.parametrize(("mark", "body", "message"), FINDINGS.values(), ids=FINDINGS)
def test_faulty_finding_fails_the_test(project, mark, body, message):
    project.write(f"{mark}\n{body}")
    assert message in project.test(code=1)
    assert project.kept() == {"test_it": "failed"}


WHOLE = {"test_fails": "failed", "test_passes": "passed", "test_slow": "passed"}


@pytest.mark.parametrize("options", [(), ("-m", "claim"), ("tests/test_bias.py",)], ids=str)
def test_a_module_all_of_whose_tests_ran_is_kept_failures_too(project: Project, options: tuple[str, ...]) -> None:
    project.test(*options, code=1)
    assert project.kept() == WHOLE


FILTERED = {
    "by name": ("-k", "passes"),
    "by marker": ("-m", "slow"),
    "by another marker": ("-m", "not slow"),
    "one test": ("tests/test_bias.py::test_passes",),
    "what failed before": ("--lf",),
    "one left out": ("--deselect", "tests/test_bias.py::test_fails"),
    "another module": ("tests/test_b.py",),
    "one module left out": ("--ignore", "tests/test_bias.py"),
    "none is run": ("--collect-only",),
    "none is called": ("--setup-only",),
}


@pytest.mark.parametrize("options", FILTERED.values(), ids=FILTERED)
def test_what_did_not_run_whole_is_not_kept(project: Project, options: tuple[str, ...]) -> None:
    project.write(f"{MARK}\ndef test_it(): ...\n", "test_b.py")
    project.test(*options, code=int(options[-1] in ("not slow", "--lf")))
    assert project.kept() is None


@pytest.mark.parametrize(
    "source, options, code",
    [
        (SMALL, ("-x",), 1),
        (SMALL, ("--maxfail", "1"), 1),
        (f"{SMALL}\ndef test_stop(): raise KeyboardInterrupt\n", ONE_WORKER, 2),
        (f"{SMALL}\ndef broken(:\n", (), 4),
        (f"{SMALL}\n{MARK}\n@pytest.mark.parametrize('n', [0, 1])\ndef test_it(n): n and os._exit(n)\n", ONE_WORKER, 1),
    ],
    ids=["stopped", "stopped by a count", "interrupted", "broken", "crashed in one case"],
)
def test_half_a_run_keeps_nothing(project: Project, source: str, options: tuple[str, ...], code: int) -> None:
    project.write(source)
    project.test(*options, code=code)
    assert not list(project.store.root.glob("evidence/*/*"))


def test_code_that_changes_while_its_tests_run_is_not_kept(project: Project) -> None:
    project.write(f"{SMALL}\ndef test_change():\n    open('tests/test_bias.py', 'a').write('x = 1')\n")
    project.test(code=1)
    assert not list(project.store.root.glob("evidence/*/*"))


def test_the_outcomes_of_the_last_run_count(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.test(code=1)
    monkeypatch.setenv("MENDED", "1")  # what no key knows of, such as a full disk
    assert "5 passed" in project.test(code=0)
    assert project.kept() == dict.fromkeys(WHOLE, "passed")


def test_other_code_is_tested_anew(project: Project) -> None:
    project.test(code=1)
    project.write(SMALL.replace("def test_slow(): ...", "def test_slow(): assert 1"))
    assert project.kept() is None
    assert "1 failed, 4 passed" in project.test(code=1)
    assert project.kept() == WHOLE


def test_evidence_that_is_none_is_tested_anew(project: Project) -> None:
    project.test(code=1)
    wanted = outcomes.computation(Path("tests/test_bias.py"))
    (project.store.path(wanted) / "outcomes.json").write_text("{}")
    assert "1 failed, 4 passed" in project.test(code=1)
    assert project.kept() == WHOLE
