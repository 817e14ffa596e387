"""The ways in: make, conda, pins."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
PINS = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines() if "==" in line)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def make(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    shutil.copy2(ROOT / "Makefile", folder)
    for name in ("pyproject.toml", "constraints.txt", "hashes.txt"):
        shutil.copy2(ROOT / name, folder)
    return subprocess.run(["make", *arguments], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "argument, message",
    [
        ("PYTHON=false", "PYTHON is 'false', which is not Python 3.11 or newer; install one"),
        ("PYTHON=no-such-python", "PYTHON is 'no-such-python', which is not Python 3.11 or newer"),
        ("TORCH=rocm", "TORCH is 'rocm'; expected cpu or cuda"),
    ],
)
def test_make_names_what_is_wrong(tmp_path: Path, argument: str, message: str) -> None:
    done = make("book", argument, folder=tmp_path)
    assert done.returncode != 0
    assert message in done.stderr
    assert not (tmp_path / ".venv").exists()


@pytest.mark.parametrize(
    "environment, torch",
    [({}, "--torch-backend cpu"), ({"TORCH": "cuda"}, "--torch-backend auto"), ({"UV_FIND_LINKS": "wheels"}, "")],
)
def test_torch_comes_from_where_it_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], torch: str
) -> None:
    for name in ("UV_FIND_LINKS", "PIP_FIND_LINKS", "TORCH"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    (install,) = [line for line in make("-n", "book", folder=tmp_path).stdout.splitlines() if "uv pip install" in line]
    options = f"--compile-bytecode -c hashes.txt {torch} -e '.[dev]'"
    assert install.split() == f".venv/bin/python -m uv pip install {options}".split()


@pytest.mark.parametrize("failing, built", [("never", 4), ("--profile smoke", 1), ("--profile cpu", 3)])
def test_books_are_four_and_end_with_the_first_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str, built: int
) -> None:
    monkeypatch.setenv("SUMEXP_DATA", "/data")
    monkeypatch.delenv("MAKEFLAGS", raising=False)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(
        f"""#!/bin/sh
if [ "$1" = -c ]; then echo /store; exit; fi
echo "$SUMEXP_DATA, $SUMEXP_STORE, $XDG_CACHE_HOME, $*" >> {tmp_path}/calls
case "$*" in *"{failing}"*) exit 1;; esac
"""
    )
    python.chmod(0o755)
    for name in ("pyproject.toml", "constraints.txt", "hashes.txt"):
        (tmp_path / name).touch()
    (tmp_path / ".venv" / "ready-cpu").touch()
    done = make("books", "-o", ".venv/ready-cpu", "CORES=1", folder=tmp_path)
    assert (done.returncode == 0) == (failing == "never")
    calls = [line.split(", ") for line in (tmp_path / "calls").read_text().splitlines()]
    wanted = [(data, profile) for profile in ("smoke", "cpu") for data in ("", "/data")]
    assert [(call[0], call[-1].split()[4]) for call in calls] == wanted[:built]
    assert {call[1] for call in calls} == {"/store"}
    assert all((call[2] == f"{tmp_path}/build/no-data") == (call[0] == "") for call in calls)


def test_help_lists_every_target() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert targets == set(re.findall(r"make ([a-z]+) ", shown)) >= {"book", "test", "serve", "clean", "lint", "bench"}


def test_every_dependency_is_pinned_within_its_bounds() -> None:
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    wanted = [*PROJECT["dependencies"], *(r for extra in PROJECT["optional-dependencies"].values() for r in extra)]
    for requirement in map(Requirement, wanted):
        if requirement.name != PROJECT["name"]:
            assert PINS[canonicalize_name(requirement.name)] in requirement.specifier


def test_every_pin_but_torch_has_hashes() -> None:
    """Builds of torch for CPU and CUDA differ; uv and pip refuse any other file of the rest."""
    text = (ROOT / "hashes.txt").read_text("utf-8")
    blocks = dict(re.findall(r"(?m)^(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})*)$", text))
    assert set(blocks) == {f"{name}=={version}" for name, version in PINS.items()}
    assert [pin for pin, hashes in blocks.items() if not hashes] == [f"torch=={PINS['torch']}"]
    assert text == "".join(f"{pin}{hashes}\n" for pin, hashes in blocks.items())  # neither options nor hosts


def test_conda_gives_the_same_versions() -> None:
    from packaging.specifiers import SpecifierSet

    *conda, pip = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))["dependencies"]
    versions = dict(item.split("=") for item in conda)
    assert versions.pop("python") in SpecifierSet(PROJECT["requires-python"])
    assert versions == {"pip": PINS["pip"]}
    assert pip == {"pip": ["-c constraints.txt", "-e .[dev]"]}
    assert "dev" in PROJECT["optional-dependencies"]
