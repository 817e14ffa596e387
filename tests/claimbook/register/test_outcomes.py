"""What the outcomes of a test module depend on."""

from pathlib import Path

import pytest

from claimbook.register import outcomes
from claimbook.store import default, parts
from claimbook.store.computation import Computation
from claimbook.store.provenance import Meter
from sumexp import datasets
from tests.claimbook import bundles
from tests.claimbook.pipeline.tiny import write


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


CLAIM = """import pytest


@pytest.mark.claim("a", shows="statement", evidence="exact")
def test_it():
    assert {}
"""


def test_evidence_is_of_the_tests_their_helpers_and_the_code_they_reach() -> None:
    path = write("tests/bias/test_paper.py", f"from tests.bias.test_a import x\n{CLAIM.format('True')}")
    write("tests/test_other.py", "def test_it(): ...")
    write("tests/bias/test_a.py", "from tests.bias import test_b")
    write("tests/conftest.py", "from tests.far.helper import x")
    for helper in ("tests/far/helper.py", "tests/bias/helper.py", "tests/bias/test_b.py"):
        write(helper, "x = 1")
    before = outcomes.computation(path)
    assert (before.kind, before.name) == ("evidence", "bias.test_paper")
    files = ("bias/test_paper", "bias/test_a", "bias/test_b", "bias/helper", "conftest", "far/helper")
    assert {name for name in before.parts if name.startswith("file")} == {f"file tests/{name}.py" for name in files}
    write("tests/bias/test_paper.py", f"# A comment.\nfrom tests.bias.test_a import x\n{CLAIM.format('(True)')}")
    assert outcomes.computation(path).key == before.key
    for helper in ("tests/bias/helper.py", "tests/bias/test_b.py", "tests/far/helper.py"):
        before = outcomes.computation(path)
        write(helper, "x = 2")
        [difference] = outcomes.computation(path).differences(before)
        assert difference.startswith(f"file {helper}:")
    assert list(outcomes.computations()) == [before.name]


def test_evidence_of_proofs_counts_what_is_proved() -> None:
    write("proofs/a.v", "Qed.")
    proved, other = (write(f"tests/{folder}/test_a.py", CLAIM.format("True")) for folder in ("proofs", "bias"))
    before = outcomes.computation(proved)
    assert "proofs/a.v" in " ".join(before.parts)
    assert "proofs/a.v" not in " ".join(outcomes.computation(other).parts)
    write("proofs/a.v", "Admitted.")
    assert outcomes.computation(proved).key != before.key


def test_evidence_counts_data_where_the_code_can_read_them() -> None:
    path = write("tests/test_a.py", CLAIM.format("True"))
    assert not any(name.startswith("data") for name in outcomes.computation(path).parts)
    write("tests/test_a.py", "import sumexp.datasets\n" + CLAIM.format("True"))
    assert {f"data {name}" for name in datasets.DATASETS} <= outcomes.computation(path).parts.keys()
    assert parts.data(datasets.DATASETS).items() <= outcomes.computation(path).parts.items()


def test_evidence_that_reads_runs_counts_which_grids_are_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SUMEXP_STORE", str(tmp_path / "store"))
    bundles.in_folder(tmp_path / "runs", monkeypatch)
    path = write("tests/vae/test_a.py", CLAIM.format("True"))
    others = outcomes.computation(path)
    write("tests/fits/test_a.py", CLAIM.format("True"))
    forms = ("fits/helper", "from tests.complete import largest"), ("test_a", "from tests import complete")
    for grid, (name, line) in zip(("vae", "fits"), forms, strict=True):
        reading = write(f"tests/{name}.py", f"{line}\n{CLAIM.format('True')}").with_name("test_a.py")
        before = outcomes.computation(reading)
        whole = Computation("grid", f"{grid}-mnist", {"profile": "cpu"})
        with default().locked(whole), default().writing(whole) as (_, seal):
            seal(Meter().read())
        now = outcomes.computation(reading)
        assert [difference.partition(":")[0] for difference in now.differences(before)] == ["grids in the store"]
    lines = parts.file_digest(write("runs/vae.json", "{}"))
    assert outcomes.computation(reading).parts == now.parts | {"file runs vae": lines}
    assert outcomes.computation(path) == others
