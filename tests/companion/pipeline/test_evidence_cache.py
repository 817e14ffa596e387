"""What a run of the tests keeps as evidence, and what it leaves out as known."""

import json
from pathlib import Path

import pytest

from sumexp import datasets
from sumexp.companion.pipeline import evidence_cache, inputs, view
from sumexp.companion.register import evidence
from sumexp.companion.store import Store, progress

pytest_plugins = "pytester"
NEEDED = (datasets, view)
"""Imported here, so that runs in this process do not import them, and NumPy's C code, again."""
CLAIMS = "- {id: bias-x, chapter: bias, where: eq. (1), kind: equation, paper_says: one, open: not yet}\n"
MARK = '@pytest.mark.claim("bias-x", shows="statement", evidence="exact")'
XDIST = ("-p", "xdist.plugin", "-n", "1")
MODULE = f"""import os
import pytest

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
    """Tests of claims, run with the keeper and nothing else."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self._pytester, self.store = pytester, Store(pytester.path / "store")

    def write(self, name: str, text: str = MODULE) -> None:
        file = self._pytester.path / "tests" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, "utf-8")

    def test(self, *options: str, code: int = 1) -> str:
        """Run the tests with ``--keep-evidence``; returns the last line, which counts them."""
        result = self._pytester.runpytest_inprocess("--keep-evidence", *options)
        assert result.ret == code, result.stdout.str() + result.stderr.str()
        return "".join(result.stdout.lines[-1:])

    def kept(self, name: str = "test_a.py") -> dict[str, str] | None:
        """The outcomes that the store has of a module of tests."""
        entry = self.store.find(inputs.evidence(Path("tests", name)))
        if entry is None:
            return None
        tests = json.loads((entry.path / "outcomes.json").read_text("utf-8"))["tests"]
        return {test["test"].partition("::")[2]: test["outcome"] for test in tests}


ENDED = {"test_fails": "failed", "test_passes": "passed", "test_slow": "passed"}


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    for variable in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "SUMEXP_REMOTE", "MENDED"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("SUMEXP_STORE", str(pytester.path / "store"))
    (pytester.mkdir("claims") / "bias.yml").write_text(CLAIMS)
    plugins = f"-p {evidence.__name__} -p {evidence_cache.__name__}"
    pytester.makeini(f"[pytest]\naddopts = --strict-markers {plugins}\nmarkers = slow\ntestpaths = tests\n")
    made = Project(pytester)
    made.write("test_a.py")
    return made


@pytest.mark.parametrize("options", [(), XDIST, ("-m", "claim"), ("tests/test_a.py",)], ids=str)
def test_a_module_all_of_whose_tests_ran_is_kept_failures_too(project: Project, options: tuple[str, ...]) -> None:
    project.test(*options)
    assert project.kept() == ENDED


@pytest.mark.parametrize("options", [(), XDIST], ids=str)
def test_a_module_has_the_time_of_its_own_tests(project: Project, options: tuple[str, ...]) -> None:
    project.write("test_b.py", f"import time\nimport pytest\n\n{MARK}\ndef test_it(): time.sleep(1)\n")
    project.test(*options)
    quick, slow = (project.store.find(inputs.evidence(Path("tests", name))) for name in ("test_a.py", "test_b.py"))
    assert quick is not None
    assert slow is not None
    assert quick.provenance.seconds < 1 <= slow.provenance.seconds


def test_it_says_how_many_tests_have_ended(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("progress")
    monkeypatch.setenv(progress.FOLDER, str(folder))
    monkeypatch.setenv(progress.STEP, "claims")
    project.test()
    [said] = progress._reports(folder)
    assert (said.what, said.done, said.total) == ("testing claims", 5, 5)


FILTERED = {
    "by name": ("-k", "passes"),
    "by marker": ("-m", "slow"),
    "by another marker": ("-m", "not slow"),
    "one test": ("tests/test_a.py::test_passes",),
    "one left out": ("--deselect", "tests/test_a.py::test_fails"),
    "another module": ("tests/test_b.py",),
    "one module left out": ("--ignore", "tests/test_a.py"),
    "none is run": ("--collect-only",),
    "none is called": ("--setup-only",),
}


@pytest.mark.parametrize("options", FILTERED.values(), ids=FILTERED)
def test_what_did_not_run_whole_is_not_kept(project: Project, options: tuple[str, ...]) -> None:
    project.write("test_b.py", f"import pytest\n\n{MARK}\ndef test_it(): ...\n")
    project.test(*options, code=int("not slow" in options))
    assert project.kept() is None


CASES = {"a name": ("-k", "1"), "a case": ("tests/test_a.py::test_passes[1]",)}
CASES["one left out"] = ("--deselect", "tests/test_a.py::test_passes[2]")


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_a_module_whose_only_test_ran_in_one_of_two_cases_is_not_kept(
    project: Project, options: tuple[str, ...]
) -> None:
    project.write("test_a.py", MODULE[: MODULE.index("def test_passes")] + "def test_passes(n): ...\n")
    project.test(*options, code=0)
    assert project.kept() is None
    project.test(code=0)
    assert project.kept() == {"test_passes": "passed"}


@pytest.mark.parametrize(
    "source, options, code",
    [
        (MODULE, ("-x",), 1),
        (MODULE, ("--maxfail", "1"), 1),
        (f"{MODULE}\ndef test_stop(): raise KeyboardInterrupt\n", XDIST, 2),
        (f"{MODULE}\ndef broken(:\n", (), 4),
    ],
    ids=["stopped", "stopped by a count", "interrupted", "broken"],
)
def test_half_a_run_keeps_nothing(project: Project, source: str, options: tuple[str, ...], code: int) -> None:
    project.write("test_a.py", source)
    project.test(*options, code=code)
    assert not list(project.store.root.glob("evidence/*/*"))


def test_a_module_that_leaves_itself_out_is_kept_as_empty(project: Project) -> None:
    alone = "import pytest\n\npytest.importorskip('no_such_module')\n"
    project.write("test_a.py", f"{alone}\n{MARK}\ndef test_it(): ...\n")
    project.test(code=5)
    assert project.kept() == {}


def test_code_that_changes_while_its_tests_run_is_not_kept(project: Project) -> None:
    project.write("test_a.py", f"{MODULE}\ndef test_change():\n    open('tests/test_a.py', 'a').write('x = 1')\n")
    project.test()
    assert not list(project.store.root.glob("evidence/*/*"))


@pytest.mark.parametrize("options", [(), XDIST], ids=["plain", "xdist"])
def test_what_is_known_to_pass_is_left_out_and_what_fails_is_run_again(
    project: Project, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "1 failed, 4 passed" in project.test(*options)
    again = project.test("--stored-evidence", *options)
    assert "1 failed, 1 passed" in again
    assert project.kept() == ENDED
    monkeypatch.setenv("MENDED", "1")  # what no key knows of, such as a full disk
    finished = Path("build/.finished")
    finished.parent.mkdir()
    finished.touch()
    assert "2 passed" in project.test("--stored-evidence", *options, code=0)
    assert project.kept() == dict.fromkeys(ENDED, "passed")
    assert not finished.exists()  # the next build shows it
    assert "1 passed" in project.test("--stored-evidence", *options, code=0)


def test_other_code_is_tested_anew(project: Project) -> None:
    project.test()
    project.write("test_a.py", MODULE.replace("def test_slow(): ...", "def test_slow(): assert 1"))
    assert project.kept() is None
    assert "1 failed, 4 passed" in project.test("--stored-evidence")
    assert project.kept() == ENDED


def test_evidence_that_is_none_is_tested_anew(project: Project) -> None:
    project.test()
    wanted = inputs.evidence(Path("tests/test_a.py"))
    (project.store.path(wanted) / "outcomes.json").write_text("{}")
    assert "1 failed, 4 passed" in project.test("--stored-evidence")
    assert project.kept() == ENDED
