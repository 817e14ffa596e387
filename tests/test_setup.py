"""Pins: each within its bounds, with hashes, and the same by conda."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
PINS = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines() if "==" in line)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


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
