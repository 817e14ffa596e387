"""The proofs in Coq: each file compiles, states the theorems below, and rests on the axioms of the reals alone."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

PROOFS = Path(__file__).parents[2] / "proofs"
COQC = shutil.which("coqc")

AXIOMS = {
    "ClassicalDedekindReals.sig_not_dec",
    "ClassicalDedekindReals.sig_forall_dec",
    "FunctionalExtensionality.functional_extensionality_dep",
    "Classical_Prop.classic",
}
"""Of Coq's real numbers and of classical logic."""

STATEMENTS = {
    "bias.no_unbiased_estimator": "forall (box : list (R * R)) (terms : list (list R -> R)), "
    "Forall (fun side : R * R => 0 <= fst side /\\ 0 < snd side) box -> "
    "Forall (reads_fewer (length box)) terms -> "
    "~ (forall a : list R, vertex box a -> expected terms a = softmax a)",
    "bias.two_negatives": "forall f g : R -> R, "
    "~ (forall x y : R, x = 1 \\/ x = 2 -> y = 1 \\/ y = 2 -> f x + g y = / (1 + x + y))",
    "bias.equal_box": "forall (n : nat) (low h : R), 0 <= low -> 0 < h -> mixed softmax (repeat (low, h) n) = "
    "(-1) ^ n * INR (fact n) * h ^ n / rising (1 + INR n * low) h n",
    "ranking.reciprocal_rank": "forall (target : R) (others : list R), softmax target others <= / rank target others",
    "ranking.any_rank": "forall (target : R) (others : list R) (r : R), 1 <= r <= rank target others -> "
    "softmax target others <= / r",
    "nce.info_nce_bound": "forall (n : nat) (law : list case), is_law law -> info_nce n law <= ln (INR n)",
}

with_coq = pytest.mark.skipif(COQC is None, reason="Coq is not installed: apt-get install coq libcoq-coquelicot")


def coq(file: Path) -> str:
    """What the compiler prints."""
    assert COQC is not None
    done = subprocess.run([COQC, "-q", file.name], cwd=file.parent, capture_output=True, text=True, check=False)
    if "Cannot find a physical path" in done.stderr:
        pytest.skip(f"a library of Coq is absent: apt-get install libcoq-coquelicot\n{done.stderr}")
    assert done.returncode == 0, done.stderr
    return done.stdout


def proved(names: tuple[str, ...], folder: Path) -> None:
    """Compile the file of the theorems; each must state what is written above, and assume no more than the axioms."""
    module = names[0].split(".")[0]
    text = (PROOFS / f"{module}.v").read_text("utf-8")
    assert not re.search(r"\b(Admitted|admit|Axiom|Parameter|Conjecture|Hypothesis|Variable)\b", text)
    statements = {name.split(".")[1]: STATEMENTS[name] for name in names}
    asked = "".join(f"Check {theorem}.\nPrint Assumptions {theorem}.\n" for theorem in statements)
    (folder / f"{module}.v").write_text(f"{text}\n{asked}")
    printed = coq(folder / f"{module}.v")
    for theorem, statement in statements.items():
        assert f"{theorem} : {statement} Axioms:" in " ".join(printed.split()), printed
    named = {line.split()[0] for line in printed.splitlines() if line[:1].strip()}  # types are indented
    assert named <= {"Axioms:", *statements, *AXIOMS}


@with_coq
@pytest.mark.claim("bias-thm-3-1", shows="statement", evidence="kernel")
def test_no_estimator_that_reads_fewer_negatives_is_unbiased(tmp_path: Path) -> None:
    proved(("bias.no_unbiased_estimator", "bias.two_negatives", "bias.equal_box"), tmp_path)


@with_coq
@pytest.mark.claim("ranking-softmax-le-rr", shows="statement", evidence="kernel")
def test_the_reciprocal_rank_is_at_least_the_softmax(tmp_path: Path) -> None:
    proved(("ranking.reciprocal_rank", "ranking.any_rank"), tmp_path)


@with_coq
@pytest.mark.claim("nce-logN-ceiling", shows="statement", evidence="kernel")
def test_info_nce_never_exceeds_log_n(tmp_path: Path) -> None:
    proved(("nce.info_nce_bound",), tmp_path)


@with_coq
@pytest.mark.parametrize("right,wrong,message", [
    ("<= / rank target others.", "<= / (1 + rank target others).", "Error"),
    ("Lemma rank_at_least_one", "Axioms rank_at_least_one : forall x y, 1 <= rank x y. Lemma spare", "rank_at_least"),
])  # fmt: skip
def test_what_is_false_or_assumed_is_refused(
    right: str, wrong: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ranking.v").write_text((PROOFS / "ranking.v").read_text("utf-8").replace(right, wrong))
    monkeypatch.setattr(f"{__name__}.PROOFS", tmp_path)
    with pytest.raises(AssertionError, match=message):
        proved(("ranking.reciprocal_rank",), tmp_path)
