"""The command line as a whole: what a bare installation can do, what it imports, how it ends."""

import subprocess
import sys
from pathlib import Path

import pytest

from sumexp import __version__, datasets
from sumexp.audit._command import main as audit

WITHOUT = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if absent(name.partition(".")[0]):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Without())
"""
RUN = "from sumexp._command import main; main()"


def sumexp(*arguments: str, absent: str = "False") -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, which has no package ``name`` of which ``absent`` is true."""
    code = f"absent = lambda name: {absent}\n{WITHOUT}\n{RUN}"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


def bare(*arguments: str) -> subprocess.CompletedProcess[str]:
    """With what `pip install .` gives."""
    installed = "{*sys.stdlib_module_names, 'claimbook', 'sumexp', 'numpy', 'scipy', 'torch'}"
    return sumexp(*arguments, absent=f"name not in {installed}")


@pytest.mark.parametrize("arguments, missing", [(("book",), "typer"), (("data", "fetch", "brown"), "tqdm")])
def test_a_bare_installation_says_what_to_install(arguments: tuple[str, ...], missing: str) -> None:
    done = bare(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    install = "run in a copy of the book's sources: pip install '.[book]'"
    assert line == f"error: {missing} is not installed; to have all that the commands need, {install}"


@pytest.mark.parametrize("arguments", [(), ("--help",), ("data", "--help")])
def test_a_bare_installation_has_help(arguments: tuple[str, ...]) -> None:
    """The first command that anybody types: it ended in an error."""
    done = bare(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: sumexp ")
    shown = ("list",) if "data" in arguments else ("audit ", "data ", "--version", "pip install '.[book]'")
    assert all(name in done.stdout for name in shown)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("arguments", [(), ("--help",), ("--version",), ("data", "list")])
def test_a_full_disk_is_one_line(arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-c", RUN, *arguments], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert [line.startswith(b"error: ") for line in done.stderr.splitlines()] == [True]


def test_a_bare_installation_says_what_tables_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "counts.csv").write_text("count\n5\n3\n")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(SystemExit) as ended:
        audit([str(tmp_path / "counts.csv"), "-m", "1"])
    assert ended.value.code == 1
    out, err = capsys.readouterr()
    assert out == ""
    [line] = err.splitlines()
    assert "duckdb, which reads tables, is not installed; in a copy of the sources: pip install '.[audit]'" in line


def test_a_bare_installation_knows_its_version_and_the_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SUMEXP_DATA", str(tmp_path))
    done = bare("--version")
    assert (done.stdout, done.stderr, done.returncode) == (f"sumexp {__version__}\n", "", 0)
    listed = bare("data", "list")
    assert (listed.stderr, listed.returncode) == ("", 0)
    assert all(f"\n{name}: {dataset.description}\n" in listed.stdout for name, dataset in datasets.DATASETS.items())


def test_help_imports_nothing_heavy() -> None:
    code = f"import sys; sys.argv = ['sumexp', '--help']\n{RUN}\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "torch", "typer", "claimbook"} & set(done.stderr.split())


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("data", "fetch", "brwon"), "no data set 'brwon'; there are brown,"),
        (("register", "--chapter", "baias"), "baias"),
        (("data", "list", "--data", "/nowhere/at/all"), "--data names /nowhere/at/all, which is not a folder"),
    ],
)
def test_an_error_of_input_is_one_line(arguments: tuple[str, ...], message: str) -> None:
    done = sumexp(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert message in line
