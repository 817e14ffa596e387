"""The pytest plugin that records what tests show of the claims."""

import json

import pytest

from sumexp.companion.register import evidence

pytest_plugins = "pytester"
PLUGIN = evidence.__name__  # imported here, so that runs in this process do not import it, and YAML's C code, again

CLAIMS = """
- {id: bias-x, chapter: bias, where: eq. (1), kind: equation, paper_says: one, open: not yet}
- {id: bias-y, chapter: bias, where: eq. (2), kind: equation, paper_says: two, open: not yet}
"""
XDIST = ("-p", "xdist.plugin", "-n")
MARK = '@pytest.mark.claim("bias-x", shows="statement", evidence="exact")'
EXPERIMENT = '@pytest.mark.claim("bias-x", shows="statement", evidence="experiment")'


@pytest.fixture
def project(pytester, monkeypatch):
    """A project with two claims, in which only the plugin and the options given count."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (pytester.mkdir("claims") / "bias.yml").write_text(CLAIMS)
    pytester.makeini(f"[pytest]\naddopts = --strict-markers -p {PLUGIN}\n")
    return pytester


def record(project, source, *options, code=0):
    """Run the tests in ``source`` and return the evidence they leave, if any."""
    project.makepyfile(test_bias=f"import pytest\n{source}")
    alone = "KeyboardInterrupt" in source  # else in this process: ten times as quick
    run = project.runpytest_subprocess if alone else project.runpytest_inprocess
    result = run("--evidence", "build/evidence/bias.json", *options)
    assert result.ret == code, result.stdout.str() + result.stderr.str()
    path = project.path / "build" / "evidence" / "bias.json"
    return json.loads(path.read_text())["tests"] if path.exists() else None


def outcomes(tests):
    return {test["test"]: test["outcome"] for test in tests}


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
    "test_bias.py::test_passes": "passed",
    "test_bias.py::test_fails": "failed",
    "test_bias.py::test_skips": "skipped",
    "test_bias.py::test_all_cases": "passed",
    "test_bias.py::test_all_cases_but_one": "failed",
    "test_bias.py::test_one_case_skipped": "skipped",
    "test_bias.py::test_setup_fails": "failed",
    "test_bias.py::test_teardown_fails": "failed",
    "test_bias.py::TestOne::test_in_a_class": "passed",
}


@pytest.mark.parametrize("options", [(), (*XDIST, "2"), ("-m", "claim")], ids=["plain", "xdist", "claims-only"])
def test_outcome_of_every_marked_test(project, options):
    assert outcomes(record(project, SUITE, *options, code=1)) == ENDED


def test_record_names_claim_and_what_is_shown(project):
    source = f"""
{MARK}
@pytest.mark.claim("bias-y", shows="counterexample", evidence="proof")
def test_two(): ...
"""
    common = {"test": "test_bias.py::test_two", "outcome": "passed", "findings": []}
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


def test_no_marked_tests_is_empty_evidence(project):
    assert record(project, "def test_plain(): ...", "-m", "claim", code=pytest.ExitCode.NO_TESTS_COLLECTED) == []


def test_half_a_run_leaves_the_evidence_as_it_was(project):
    assert outcomes(record(project, f"{MARK}\ndef test_it(): ...")) == {"test_bias.py::test_it": "passed"}
    interrupted = f"{MARK}\ndef test_it(): raise KeyboardInterrupt\n"
    stopped = f"{MARK}\ndef test_one(): assert 0\n{MARK}\ndef test_two(): assert 0\n"
    broken = f"{MARK}\ndef test_it(: ...\n"
    for source, options, code in ((interrupted, (), 2), (stopped, ("-x",), 1), (broken, (), 2)):
        tests = record(project, source, *options, code=code)
        assert outcomes(tests) == {"test_bias.py::test_it": "passed"}
    assert [path.name for path in (project.path / "build" / "evidence").iterdir()] == ["bias.json"]


def test_without_the_option_nothing_is_written(project):
    project.makepyfile(test_bias=f"import pytest\n{MARK}\ndef test_it(): ...")
    assert project.runpytest_inprocess().ret == 0
    assert not (project.path / "build").exists()


FAULTS = {
    "unknown id": ('"bias-z", shows="statement", evidence="exact"', "names 'bias-z', which is no entry of claims/"),
    "orphan": ("", 'is not of the form @pytest.mark.claim("<id>", shows="<what>", evidence="<kind>")'),
    "no evidence": ('"bias-x", shows="statement"', "is not of the form"),
    "too much": ('"bias-x", shows="statement", evidence="exact", sure=True', "is not of the form"),
    "shows": ('"bias-x", shows="theorem", evidence="exact"', "shows='theorem', expected one of statement, correction"),
    "evidence": (
        '"bias-x", shows="statement", evidence="belief"',
        "evidence='belief', expected one of kernel, proof, exact",
    ),
}


@pytest.mark.parametrize(("arguments", "message"), FAULTS.values(), ids=FAULTS)
def test_faulty_marker_stops_the_run_and_is_named(project, arguments, message):
    project.makepyfile(test_bias=f"import pytest\n@pytest.mark.claim({arguments})\ndef test_it(): ...")
    result = project.runpytest_inprocess("--evidence", "bias.json")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert "test_bias.py::test_it: the marker claim(" in result.stdout.str()
    assert message in result.stdout.str()
    assert not (project.path / "bias.json").exists()


def test_faulty_marker_is_named_under_xdist(project):
    project.makepyfile(
        test_bias='import pytest\n@pytest.mark.claim("bias-z")\nclass TestIt:\n    def test_it(self): ...'
    )
    result = project.runpytest_subprocess("--evidence", "bias.json", *XDIST, "1")
    assert result.ret != 0
    assert not (project.path / "bias.json").exists()
    assert (
        "test_bias.py::TestIt::test_it: the marker claim('bias-z',) with {} is not of the form" in result.stdout.str()
    )


def test_faulty_register_stops_the_run_and_is_named(project):
    (project.path / "claims" / "bias.yml").write_text("- {id: bias-x}")
    project.makepyfile(test_bias=f"import pytest\n{MARK}\ndef test_it(): ...")
    result = project.runpytest_inprocess()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert "claims/bias.yml:1: entry bias-x: " in result.stdout.str()


def test_tests_without_markers_need_no_register(project):
    (project.path / "claims" / "bias.yml").unlink()
    assert record(project, "def test_plain(): ...") == []


# Experiments ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [(), (*XDIST, "1")], ids=["plain", "xdist"])
def test_findings_are_recorded(project, options):
    source = f"""
{EXPERIMENT}
def test_it(finding):
    finding(1.5, 1.0, 2.0, 1.25)
    finding(estimate=1.5, low=1.0, high=2.0, published=(None, 0.5))
    finding(1.5, 1.0, 2.0, data="mnist", profile="cpu", seeds=4, keys=("ab", "cd"))
"""
    (test,) = record(project, source, *options)
    measured = {"estimate": 1.5, "low": 1.0, "high": 2.0}
    unsaid = {"data": None, "profile": None, "seeds": None, "keys": []}
    assert test["findings"] == [
        measured | unsaid | {"published": [1.25, 1.25]},
        measured | unsaid | {"published": [None, 0.5]},
        measured | {"published": None, "data": "mnist", "profile": "cpu", "seeds": 4, "keys": ["ab", "cd"]},
    ]


FINDINGS = {
    "nothing stated": (EXPERIMENT, "def test_it(): ...", "is an experiment but stated no finding"),
    "interval the wrong way round": (
        EXPERIMENT,
        "def test_it(finding): finding(1.5, 2.0, 1.0)",
        "expected low <= estimate <= high, got 2.0, 1.5, 1.0",
    ),
    "no number": (EXPERIMENT, "def test_it(finding): finding(float('nan'), 0, 1)", "should be a finite number"),
    "a word it does not know": (
        EXPERIMENT,
        "def test_it(finding): finding(1, 1, 1, dataset='mnist')",
        "dataset: Extra",
    ),
    "no experiment": (MARK, "def test_it(finding): finding(1, 1, 1)", "exactly one claim marker with evidence="),
}


@pytest.mark.parametrize(("mark", "body", "message"), FINDINGS.values(), ids=FINDINGS)
def test_faulty_finding_fails_the_test(project, mark, body, message):
    project.makepyfile(test_bias=f"import pytest\n{mark}\n{body}")
    result = project.runpytest_inprocess("--evidence", "bias.json")
    assert result.ret == 1
    assert message in result.stdout.str()
    (test,) = json.loads((project.path / "bias.json").read_text())["tests"]
    assert test["outcome"] == "failed"
