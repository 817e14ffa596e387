"""Parts change when a result could change, and not otherwise."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import claimbook
from claimbook import BookError
from claimbook.store import parts
from claimbook.store.computation import digest
from sumexp import datasets
from sumexp.datasets import DataFile, Dataset


def test_data_count_when_present_or_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    file = DataFile("tiny/tiny.bin", "https://nowhere.invalid", "ab" * 32, 1)
    tiny = {"tiny": Dataset("tiny", "", "", "", (file,)), "packed": Dataset("packed", "", "", "", ())}
    monkeypatch.setattr(datasets, "DATASETS", tiny)

    monkeypatch.setattr(datasets, "available", lambda name: True)
    assert parts.data(["tiny", "packed"]) == {"data tiny": digest("ab" * 32), "data packed": "included"}
    monkeypatch.setattr(datasets, "available", lambda name: False)
    assert parts.data(["tiny"]) == {"data tiny": "absent"}


def test_files_count_by_their_bytes(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("1\n")
    assert parts.files({"named": tmp_path / "b"}) == {"file named": parts.sha256(b"1\n").hexdigest()}
    assert parts.files([tmp_path / "a"]) == {f"file {tmp_path}/a": "absent"}


def test_versions_are_those_of_what_is_imported_and_of_what_that_requires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert parts.versions(["sumexp.chapters.intervals"]) == {}
    parts.PINS.write_text("# pins\nidna==3.7\nmarkupsafe==2\nnumpy==2.0\nscikit-learn==1\ntabulate==9\ntorch==1\n")
    assert parts.versions(["sumexp.chapters.intervals"]).keys() == {"version numpy"}
    assert "version torch" in parts.versions(["sumexp.audit"])  # a module that it imports does
    code = parts.versions([], "import sklearn.svm", "def f():\n    from tabulate import tabulate")
    assert code == {"version numpy": "2.0", "version scikit-learn": "1", "version tabulate": "9"}
    assert parts.versions([], "import torch").keys() == {"version markupsafe", "version torch"}  # by Jinja


def test_each_module_of_the_closure_is_a_part_but_those_of_the_store() -> None:
    names = parts.modules(["claimbook.authoring.runs"])
    assert names["module claimbook.authoring.runs"] == parts.module("claimbook.authoring.runs")
    assert "claimbook.store.entries" in parts.closure(["claimbook.authoring.runs"])
    assert not any(name.startswith("module claimbook.store") for name in names)


QUADRATURE = {"sumexp.expectations", "sumexp.expectations.quadrature"}


@pytest.mark.parametrize(
    "code, modules",
    [
        ("from sumexp import expectations", {"sumexp.expectations"}),
        ("from sumexp.expectations import quadrature, no_module", QUADRATURE),
        ("import sumexp.datasets as d", {"sumexp.datasets"}),
        ("import sumexp\nsumexp.expectations.product()", {"sumexp", "sumexp.expectations"}),
        ("import sumexp as s\ns.datasets.brown()", {"sumexp", "sumexp.datasets"}),
        ("def f():\n    from sumexp import datasets", {"sumexp.datasets"}),
        ("%time\n!ls\nimport sumexp.datasets", {"sumexp.datasets"}),
        ("import numpy as np\nnp.sumexp.datasets", set()),
        ("%%bash\nfor x in y; do z; done", set()),
    ],
)
def test_imports_of_a_cell(code: str, modules: set[str]) -> None:
    assert parts.imports(code) == modules


def test_closure_follows_deferred_imports_and_parents_that_do_something(tmp_path: Path) -> None:
    package = tmp_path / "sumexp"
    files = {
        "__init__.py": "def __getattr__(name): ...\n",
        "a.py": "def f():\n    from sumexp.pack import inner\n    import sumexp.call.inner\n",
        "b.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import sumexp.a\n",
        "pack/__init__.py": "from sumexp import c\nc.x = 2\n",
        "pack/inner.py": "x = 1\n",
        **{"call/__init__.py": "id(1)\n", "call/inner.py": ""},
        "c.py": "",
        "d.py": "from sumexp.shop import inner\n",
        "e.py": "from sumexp.shop import x\n",
        "shop/__init__.py": "'Words.'\nfrom sumexp.c import y\nfrom sumexp.shop.inner import x\n__all__ = ['x', 'y']\n",
        "shop/inner.py": "x = 1\n",
    }
    for name, text in files.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text, "utf-8")
    real = Path(claimbook.__path__[0])
    shutil.copytree(real / "store", tmp_path / "claimbook/store", ignore=shutil.ignore_patterns("__pycache__"))
    for module in ("__init__", "project", "tasks"):
        shutil.copy2(real / f"{module}.py", tmp_path / "claimbook")

    code = 'from claimbook.store import parts\nfor n in "abde": print(*sorted(parts.closure(["sumexp." + n])))'
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    out = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True).splitlines()
    assert out[0] == "sumexp sumexp.a sumexp.c sumexp.call sumexp.call.inner sumexp.pack sumexp.pack.inner"
    assert set(out[1].split()) == {"sumexp", "sumexp.b"}
    assert set(out[2].split()) == {"sumexp", "sumexp.d", "sumexp.shop.inner"}
    assert set(out[3].split()) == {"sumexp", "sumexp.e", "sumexp.c", "sumexp.shop", "sumexp.shop.inner"}


def test_an_unknown_module_is_named() -> None:
    with pytest.raises(BookError, match=r"no module sumexp\.nothing in the packages claimbook, sumexp$"):
        parts.modules(["sumexp.nothing"])


def test_a_folder_that_a_package_has_left_hides_no_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git leaves the bytecode of a package that has become a module."""
    (tmp_path / "a/__pycache__").mkdir(parents=True)
    (tmp_path / "a.py").write_text("x = 1\n")
    monkeypatch.setattr(parts, "PACKAGES", {"tiny": str(tmp_path)})
    assert parts.module("tiny.a") == parts.syntax("x = 1")
