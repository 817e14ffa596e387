"""The register: what its entries may say, how verdicts follow, what the page and the command line show."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from claimbook import BookError, register
from claimbook.cli.commands import app
from claimbook.pipeline.plan import chapters_of
from claimbook.register import page as drawn
from claimbook.register.model import Finding, Test
from claimbook.register.verdict import _shortfall

ROOT = Path(__file__).parents[3]

ENTRY = {"id": "bias-x", "chapter": "bias", "where": "eq. (1)", "kind": "equation"}
ENTRY |= {"paper_says": "$a=b$ in our words.", "unjudged": "no chapter yet"}


def entry(**changes):
    """One entry; a field changed to None is left out."""
    return {field: value for field, value in (ENTRY | changes).items() if value is not None}


def write_claims(folder: Path, *entries, name="bias.yml") -> Path:
    """Write entries as YAML (JSON is YAML), one a line."""
    claims = folder / "claims"
    claims.mkdir(exist_ok=True)
    (claims / name).write_text("".join(f"- {json.dumps(each)}\n" for each in entries))
    return claims


def shown(shows, evidence="exact", outcome="passed", claim="bias-x", findings=(), name="test_it"):
    """One record of evidence."""
    record = {"test": f"tests/test_bias.py::{name}", "claim": claim, "shows": shows, "evidence": evidence}
    return record | {"outcome": outcome, "findings": list(findings)}


def decide(folder: Path, entries, records=(), tests="") -> register.Register:
    """Decide a small register whose tests ended as the records say."""
    (folder / "tests").mkdir(exist_ok=True)
    (folder / "tests" / "test_bias.py").write_text(tests)
    ended = [Test.model_validate(each) for each in records]
    return register.decide(register.load(write_claims(folder, *entries)), ended, folder / "tests")


TESTED = entry(unjudged=None)
CORRECTED = entry(unjudged=None, corrected="$a=-b$", erratum=["B1"])
MISSED = {"estimate": 1.2, "low": 1.1, "high": 1.3, "published": [1.0, 1.0]}
MET = {"estimate": 1.2, "low": 0.9, "high": 1.5, "published": [0.5, 2.0]}
WIDE = {"estimate": 1.2, "low": 0.9, "high": 1.5, "published": [1.0, 1.1]}
SLIGHT = {"estimate": -0.3, "low": -0.45, "high": -0.12, "published": [None, 0.0], "margin": 1.0}

FAILED, SKIPPED = shown("statement", outcome="failed"), shown("statement", outcome="skipped")
MISS = shown("statement", "experiment", findings=[MISSED])
MEET = shown("statement", "experiment", findings=[MET])
MEETS_OR_MISSES = shown("statement", "experiment", findings=[MET, WIDE], name="test_both")
NO_DIFFERENCE = shown("statement", "experiment", findings=[SLIGHT], name="test_slight")
UNDECIDED = shown("statement", "experiment", outcome="skipped", name="test_tail")
NO_KERNEL = shown("statement", "kernel", outcome="skipped", name="test_kernel")
BOTH = COUNTER, SAMPLED = [shown("counterexample"), shown("correction", "sampled", name="test_right")]
LOST = entry(unjudged=None, lost="its temperature")
DEFINITION, NOTATION = (entry(kind=kind, unjudged=None) for kind in ("definition", "notation"))
MISPRINT = entry(kind="definition", corrected="$b$", erratum=["B1"])

ROWS = {
    "a failing test outweighs all others": (TESTED, [shown("statement"), FAILED], "failing"),
    "an experiment away from the paper": (TESTED, [MISS], "not reproduced"),
    "an experiment that meets the paper": (TESTED, [MEET], "holds"),
    "an experiment in two parts, one of which decided nothing": (TESTED, [MEET, UNDECIDED], "open"),
    "an experiment that meets the paper and might as well not": (TESTED, [MEETS_OR_MISSES], "open"),
    "an experiment that shows no difference that counts": (TESTED, [NO_DIFFERENCE], "open"),
    "an experiment, of whose parts one shows no difference": (TESTED, [MEET, NO_DIFFERENCE], "open"),
    "one part away from the paper": (TESTED, [MISS, UNDECIDED], "not reproduced"),
    "one case away from the paper, another skipped": (TESTED, [MISS | {"outcome": "skipped"}], "not reproduced"),
    "a proof beside an experiment that decided nothing": (TESTED, [shown("statement", "proof"), UNDECIDED], "open"),
    "a proof, and the kernel is not here": (TESTED, [shown("statement", "proof"), NO_KERNEL], "holds"),
    "a correction of which a part decided nothing": (CORRECTED, [*BOTH, UNDECIDED | {"shows": "correction"}], "open"),
    "what our text lost": (LOST, [MISS], "not judged"),
    "what our text lost, by a test that fails": (LOST, [FAILED], "failing"),
    "both": (CORRECTED, BOTH, "holds with correction"),
    "counterexample": (TESTED, [shown("counterexample")], "refuted"),
    "counterexample, and a test of the statement is skipped": (TESTED, [SKIPPED, COUNTER], "open"),
    "counterexample, its correction not shown yet": (CORRECTED, [shown("counterexample")], "refuted"),
    "statement": (TESTED, [shown("statement")], "holds"),
    "convention": (DEFINITION, [], "convention"),
    "notation": (NOTATION, [], "convention"),
    "a definition that has a test": (DEFINITION, [shown("statement")], "holds"),
    "a definition whose test is skipped": (DEFINITION, [SKIPPED], "open"),
    "a definition with a misprint": (MISPRINT, [], "not judged"),
    "nothing": (entry(), [], "not judged"),
    "a skipped test": (TESTED, [SKIPPED], "open"),
}


@pytest.mark.parametrize(("claim", "records", "verdict"), ROWS.values(), ids=ROWS)
def test_truth_table(tmp_path, claim, records, verdict):
    (decided,) = decide(tmp_path, [claim], records)
    assert decided.verdict == verdict


def test_every_row_of_the_table_is_tried_and_the_last_catches_all():
    given = {verdict for _, verdict, _ in register.TRUTH_TABLE}
    assert given == {verdict for *_, verdict in ROWS.values()} == set(register.VERDICTS)
    assert not register.TRUTH_TABLE[-1][2]


def test_the_strongest_evidence_is_named(tmp_path):
    kinds = ["experiment", "sampled", "quadrature", "proof", "exact"]
    records = [shown("statement", kind, name=f"test_{kind}", findings=[MET] * (kind == "experiment")) for kind in kinds]
    (decided,) = decide(tmp_path, [TESTED], records)
    assert decided.evidence == "proof"
    assert [test.evidence for test in decided.tests] == ["proof", "exact", "quadrature", "sampled", "experiment"]


def test_evidence_that_does_not_carry_the_verdict_is_not_named(tmp_path):
    for claim, *records in ((TESTED, NO_KERNEL, shown("statement", "sampled")), (CORRECTED, COUNTER, SAMPLED)):
        (decided,) = decide(tmp_path, [claim], records)
        assert (decided.verdict.partition(" ")[0], decided.evidence) == ("holds", "sampled")


@pytest.mark.parametrize(
    ("published", "missed"),
    [
        ((1.0, 1.0), ""),
        ((3.5, 3.5), "0.5 away from the paper's 3.5"),
        ((None, 0.5), "0.5 away from the paper's … to 0.5"),  # "at most 1/2", the interval begins at 1
        ((None, 1.0), ""),
        ((4.0, None), "1 away from the paper's 4 to …"),
        ((3.0, None), ""),
        ((0.0, 0.75), "0.25 away from the paper's 0 to 0.75"),
        (None, ""),
    ],
)
def test_gap_between_an_interval_and_what_is_published(published, missed):
    finding = {"estimate": 2, "low": 1, "high": 3, "published": published}
    shortfall = _shortfall(Test.model_validate(shown("statement", "experiment", findings=[finding])))
    assert shortfall == (f"measured 2, interval 1 to 3: {missed}" if missed else "")


@pytest.mark.parametrize("high", [float("inf"), float("nan")])
def test_the_ends_of_an_interval_are_numbers(high):
    with pytest.raises(ValueError, match="should be a finite number"):
        Finding(estimate=2, low=1, high=high)


OF_MNIST = entry(unjudged=None, kind="finding", data=["mnist", "omniglot"])


def measured(data, name, finding=MET, **more):
    """One experiment on a data set."""
    return shown("statement", "experiment", findings=[finding | {"data": data} | more], name=name)


def waiting(*tests):
    """The source of tests that have not run, by what they show and their evidence."""
    marker = "@pytest.mark.claim('bias-x', shows={!r}, evidence={!r})\ndef test_{}(): ...\n"
    return "".join(marker.format(shows, evidence, number) for number, (shows, evidence) in enumerate(tests))


NO_ROOM = UNDECIDED | {"reason": "no room: 0.004 are left"}
SEEN = SLIGHT | {"confidence": 0.99}
WAITING, PART_WAITS = waiting(("statement", "experiment")), "shown in part: a test of it has not run in this build"
ELSEWHERE = [
    *(measured("digits", "test_a"), measured("digits", "test_b", MISSED), measured(None, "test_c")),
    shown("statement", "experiment", outcome="skipped", name="test_d"),
]
HEAD_DECIDED = [measured("mnist", "test_head"), UNDECIDED, measured("digits", "test_beside")]
TAIL_DECIDED_NOTHING = "shown in part: test_tail decided nothing in this build"
ON_OTHER_DATA = "measured on digits, no data set only, and it speaks of mnist, omniglot"
FAILS_ELSEWHERE = [measured("digits", "test_a") | {"outcome": "failed"}, measured("mnist", "test_b")]
SAYS = {
    "how far": (TESTED, [MISS], "", "not reproduced", "measured 1.2, interval 1.1 to 1.3: 0.1 away from the paper's 1"),
    "which part": (TESTED, [MEET, UNDECIDED], "", "open", TAIL_DECIDED_NOTHING),
    "which part, of a claim of data": (OF_MNIST, HEAD_DECIDED, "", "open", TAIL_DECIDED_NOTHING),
    "what was measured": (
        *(TESTED, [shown("statement", "experiment", findings=[SEEN])], "", "open"),
        "nothing is decided: test_it (no difference: -0.3, interval -0.45 to -0.12 (99 %, no difference within 1))",
    ),
    "what was measured without room for a difference": (
        *(TESTED, [shown("statement", "experiment", findings=[SEEN | {"room": 4.9}])], "", "open"),
        "nothing is decided: test_it (-0.3, interval -0.45 to -0.12 (99 %, no difference within 1))",
    ),
    "a part waits": (TESTED, [MEET], WAITING, "open", PART_WAITS),
    "a part waits beside a proof": (TESTED, [shown("statement", "proof")], WAITING, "open", PART_WAITS),
    "what is lost": (LOST, [MISS], "", "not judged", "lost in our text: its temperature"),
    "why skipped": (TESTED, [NO_ROOM], "", "open", "its tests were skipped in this build: no room: 0.004 are left"),
    "why a part was skipped": (
        *(TESTED, [MEET, NO_ROOM], "", "open"),
        "shown in part: test_tail (no room: 0.004 are left) decided nothing in this build",
    ),
    "every part was skipped": (TESTED, [SKIPPED, UNDECIDED], "", "open", "its tests were skipped in this build"),
    "other data": (OF_MNIST, ELSEWHERE, "", "open", ON_OTHER_DATA),
    "other data, and no test was skipped": (OF_MNIST, ELSEWHERE[:3], "", "open", ON_OTHER_DATA),
    "a failure on other data": (OF_MNIST, FAILS_ELSEWHERE, "", "failing", "fails: tests/test_bias.py::test_a"),
    "why not judged": (entry(), [], "", "not judged", "no chapter yet"),
    "a proof of a claim of data": (OF_MNIST, [shown("statement")], "", "holds", ""),
    "no test has run": (TESTED, [], WAITING, "open", "its tests have not run in this build"),
    "nor of a definition": (DEFINITION, [], WAITING, "open", "its tests have not run in this build"),
    "the counterexample has not run": (
        *(CORRECTED, [shown("correction", name="test_0")]),
        *(waiting(("correction", "exact"), ("counterexample", "exact")), "open", PART_WAITS),
    ),
}


@pytest.mark.parametrize(("claim", "records", "source", "verdict", "says"), SAYS.values(), ids=SAYS)
def test_an_entry_says_why(tmp_path, claim, records, source, verdict, says):
    (decided,) = decide(tmp_path, [claim], records, source)
    assert (decided.verdict, decided.says) == (verdict, says)
    assert (decided.evidence is None) == (verdict in ("open", "not judged"))


@pytest.mark.parametrize(("finding", "verdict"), [(MET, "holds"), (MISSED, "not reproduced")])
def test_a_claim_of_data_is_decided_by_runs_on_them(tmp_path, finding, verdict):
    rests_on = {"profile": "cpu", "seeds": 4, "keys": ["482566d1" * 8, "331ed300" * 8]}
    records = [measured("mnist", "test_a", finding, **rests_on), measured("digits", "test_b", MISSED)]
    records.append(measured("digits", "test_c", WIDE))
    (decided,) = decide(tmp_path, [OF_MNIST], records)
    assert (decided.verdict, decided.evidence) == (verdict, "experiment")
    ran = "mnist, profile cpu, 4 seeds, runs 482566d1 331ed300, run here"
    if verdict == "holds":
        assert decided.says == f"measured on {ran}; not on omniglot"
    else:
        assert decided.says.endswith(f"away from the paper's 1 ({ran})")
    (kept,) = json.loads(register.to_json((decided,)))
    assert kept["tests"][0]["findings"][0]["keys"] == rests_on["keys"]


def test_markers_are_found_on_functions_classes_and_parameters(tmp_path):
    source = """
import pytest
@pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.claim("bias-a", shows="statement", evidence="exact"))])
def test_one(n): ...
@pytest.mark.claim("bias-b", shows="statement", evidence="exact")
class TestTwo:
    @pytest.mark.claim("bias-c", shows="statement", evidence="exact")
    def test_three(self): ...
"""
    entries = [entry(id=f"bias-{letter}", unjudged=None) for letter in "abc"]
    decided = decide(tmp_path, entries, tests=source)
    assert [each.says for each in decided] == ["its tests have not run in this build"] * 3
    whole_class = shown("statement", claim="bias-b", name="TestTwo::test_three")
    elsewhere = shown("statement", claim="bias-a") | {"test": "tests/test_nce.py::test_one"}  # a test of the same name
    decided = decide(tmp_path, entries, [elsewhere, whole_class], source)
    assert [each.verdict for each in decided] == ["open", "holds", "open"]


FAULTS = {
    "unknown field": (entry(verdict="true"), "verdict: Extra inputs are not permitted"),
    "missing statement": (entry(paper_says=None), "must stand under `paper_says` or under `we_say`"),
    "two statements": (entry(we_say="$a=b$"), "must stand under `paper_says` or under `we_say`"),
    "empty statement": (entry(paper_says=" "), "paper_says: String should have at least 1 character"),
    "kind": (entry(kind="thought"), "kind: Input should be 'definition'"),
    "erratum": (entry(erratum=["1"]), "erratum.0: String should match pattern"),
    "correction without erratum": (entry(corrected="$b$"), "`corrected` needs an `erratum`"),
    "id of another paper": (entry(id="nce-x"), "the id must begin with 'bias'"),
    "id with a space": (entry(id="bias x"), "id: String should match pattern"),
    "unjudged convention": (entry(kind="definition"), "has nothing to judge: remove `unjudged`"),
    "unknown dependency": (entry(depends_on=["bias-y"]), "depends_on names 'bias-y', which is no entry"),
    "itself": (entry(depends_on=["bias-x"]), "depends_on is cyclic: bias-x -> bias-x"),
    "an id that appears twice": (entry(id="bias-before"), "the id appears twice"),
}


@pytest.mark.parametrize(("claim", "message"), FAULTS.values(), ids=FAULTS)
def test_faulty_entry_is_named_with_its_file(tmp_path, claim, message):
    with pytest.raises(BookError) as error:
        register.load(write_claims(tmp_path, entry(id="bias-before"), claim))
    (fault,) = str(error.value).splitlines()
    assert fault.startswith(f"claims/bias.yml: entry {claim['id']}: ")
    assert message in fault


OWN = {field: value for field, value in ENTRY.items() if field != "paper_says"} | {"id": "sumexp-x", "we_say": "$a=b$"}


@pytest.mark.parametrize("change", [{"corrected": "$b$", "erratum": ["B1"]}, {"erratum": ["B1"]}])
def test_statements_of_ours_have_no_errata(tmp_path, change):
    assert register.load(write_claims(tmp_path, OWN, name="sumexp.yml"))["sumexp-x"].statement == "$a=b$"
    with pytest.raises(BookError, match="corrected where it stands: remove `corrected` and `erratum`"):
        register.load(write_claims(tmp_path, OWN | change, name="sumexp.yml"))


def test_cycle_is_spelled_out_in_the_direction_of_depends_on(tmp_path):
    chain = [entry(id=f"bias-{a}", depends_on=[f"bias-{b}"]) for a, b in ("ab", "bc", "ca")]
    with pytest.raises(BookError) as error:
        register.load(write_claims(tmp_path, *chain))
    cycle = str(error.value).splitlines()[0].rsplit(": ", 1)[1].split(" -> ")
    assert set(pairwise(cycle)) == {("bias-a", "bias-b"), ("bias-b", "bias-c"), ("bias-c", "bias-a")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- [", "claims/bias.yml: not YAML: "),
        ("id: bias-x", "claims/bias.yml: entry bias-x: chapter: Field required"),
        ("- bias-x", "claims/bias.yml: entry 1: entry: Input should be a valid dictionary"),
        ("- kind: lemma", "claims/bias.yml: entry 1: id: Field required"),
    ],
)
def test_file_that_is_no_list_of_entries(tmp_path, text, message):
    claims = write_claims(tmp_path)
    (claims / "bias.yml").write_text(text)
    with pytest.raises(BookError, match=re.escape(message)):
        register.load(claims)


def test_all_faults_are_told_at_once(tmp_path):
    with pytest.raises(BookError) as error:
        register.load(write_claims(tmp_path, entry(kind="thought"), entry(id="bias-y", erratum=["b"])))
    assert len(str(error.value).splitlines()) == 2


def test_no_file_at_all(tmp_path):
    with pytest.raises(BookError, match=r"no claims/\*.yml there"):
        register.load(tmp_path)


DECISIONS = {
    "contradiction": (TESTED, [shown("statement"), shown("counterexample", name="test_no")], "one of the two markers"),
    "stale reason": (entry(), [shown("statement")], "test_it bears its id, so `unjudged` is out of date: remove it"),
    "no test, no reason": (TESTED, [], "it has no test: mark one with its id, or give the reason under `unjudged`"),
    "correction of nothing": (TESTED, [shown("counterexample"), shown("correction")], "the entry has no `corrected`"),
    "statement beside a correction": (CORRECTED, [shown("statement")], "but the entry has `corrected`"),
    "correction alone": (CORRECTED, [shown("correction")], "no test shows the printed statement false: add one"),
}


@pytest.mark.parametrize(("claim", "records", "message"), DECISIONS.values(), ids=DECISIONS)
def test_tests_that_do_not_fit_their_entry(tmp_path, claim, records, message):
    with pytest.raises(BookError) as error:
        decide(tmp_path, [claim], records)
    (fault,) = str(error.value).splitlines()
    assert fault.startswith("claims/bias.yml: entry bias-x: ")
    assert message in fault


def test_orphans_in_evidence_and_in_the_source_of_a_test(tmp_path):
    source = "".join(f"@pytest.mark.claim({name!r})\ndef test_old(): ...\n" for name in ("bias-gone", "bias-x"))
    with pytest.raises(BookError) as error:
        decide(tmp_path, [entry()], [shown("statement", claim="bias-lost")], source)
    assert str(error.value).splitlines() == [
        "tests/test_bias.py::test_it: its marker names 'bias-lost', which is no entry of claims/",
        "tests/test_bias.py::test_old: its marker names 'bias-gone', which is no entry of claims/",
        "claims/bias.yml: entry bias-x: a test bears its id, so `unjudged` is out of date: remove it",
    ]


def test_test_file_that_is_not_python_is_named(tmp_path):
    with pytest.raises(BookError, match=r"test_bias\.py:1: not Python: "):
        decide(tmp_path, [entry()], tests="def test_it(: ...")


@pytest.fixture(scope="module")
def papers():
    return register.load(ROOT / "claims")


def test_nothing_is_ascribed_to_a_paper_that_is_not_in_it(papers):
    assert [claim.id for claim in papers.values() if not claim.is_ours and "not in the paper" in claim.where] == []
    assert all((claim.paper == "sumexp") == claim.is_ours for claim in papers.values())


def test_the_chapters_of_claims_are_in_the_book_and_a_papers_errata_share_a_letter(papers):
    assert {claim.chapter for claim in papers.values()} <= set(chapters_of(ROOT / "_toc.yml"))
    letters = {(claim.paper, label[0]) for claim in papers.values() for label in claim.erratum}
    assert len(letters) == len({paper for paper, _ in letters}) == len({letter for _, letter in letters})


@pytest.fixture(scope="module")
def undecided(papers):
    """The register before any test has run: each claim has a test, is a convention or says why not, else it raises."""
    return register.decide(papers, (), ROOT / "tests")


def test_every_claim_has_a_test_or_says_why_not_and_none_is_decided_without_one(undecided, papers):
    assert {each.verdict for each in undecided} <= {"open", "not judged", "convention"}
    assert [each.id for each in undecided] == list(papers)


def test_json_is_read_as_it_was_written(tmp_path):
    records = [shown("counterexample"), shown("correction", "experiment", findings=[MET])]
    decided = decide(tmp_path, [CORRECTED], records)
    (tmp_path / "register.json").write_text(register.to_json(decided), "utf-8")
    assert register.read_json(tmp_path / "register.json") == decided


def whole(entries, explained=()):
    """All that the page shows of the register."""
    parts = [drawn.marks(), drawn.truth(), drawn.kinds(), drawn.counts(entries)]
    return "\n".join([*parts, *drawn.claims(entries, dict(explained), "https://x.org").values()])


@pytest.fixture(scope="module")
def page(undecided):
    return whole(undecided)


def test_page_has_one_row_for_every_claim_and_no_link_into_nothing(page, undecided, papers):
    sections = [f"claims-{chapter}" for chapter in drawn.claims(undecided, {})]  # the directive gives these ids
    ids = re.findall(r' id="([^"]+)"', page) + sections
    assert len(ids) == len(set(ids))
    assert {f"claim-{claim}" for claim in papers} <= set(ids)
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)


def test_page_prints_the_truth_table_and_typesets_every_formula(page, papers):
    assert all(when in page for when, *_ in register.TRUTH_TABLE)
    formulas = sum(claim.statement.count("$") // 2 for claim in papers.values())
    assert formulas > 300
    assert page.count(r'<span class="math notranslate nohighlight">\(') >= formulas
    assert "$" not in page
    written = (ROOT / "book" / "register.md").read_text()
    assert written.count("$") == 2  # the one formula that Sphinx itself sets, so that the page gets its MathJax


def test_page_escapes_what_html_would_read(tmp_path):
    text = whole(decide(tmp_path, [entry(paper_says="$a<b$ & `<c>` <script>")]))
    assert r"\(a&lt;b\)</span> &amp; <code>&lt;c&gt;</code> &lt;script&gt;" in text


def test_page_tells_a_statement_of_ours_from_a_papers(tmp_path):
    assert "We state" not in whole(decide(tmp_path, [entry()]))
    claims = register.load(write_claims(tmp_path, entry(), OWN | {"id": "bias-y", "we_say": None, "paper_says": "b"}))
    statement = register.load(write_claims(tmp_path, OWN, name="sumexp.yml"))["sumexp-x"]
    both = register.decide({**claims, "sumexp-x": statement}, (), tmp_path / "tests")
    assert whole(both).count('<p class="paper-says"><b>We state:</b> ') == 1


ERRATUM = "(erratum-b1)=\n## B1. A sign\n\n**Weight:** misprint.\n"


def test_page_shows_what_decided_a_claim_and_links_an_erratum_that_exists(tmp_path):
    decided = decide(tmp_path, [CORRECTED], [shown("counterexample"), shown("correction", name="test_right")])
    assert "erratum-b1" not in whole(decided)
    text = whole(decided, drawn.read_errata(ERRATUM, "errata/bias.html"))
    for part in (
        '<a href="errata/bias.html#erratum-b1">B1</a> (misprint)',
        'data-evidence="exact" data-weight="misprint"',
        '<a href="https://x.org/blob/main/tests/test_bias.py"><code>tests/test_bias.py::test_it</code></a> (counterex',
        "<b>Corrected:</b>",
    ):
        assert part in text


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with a decided, an open and a failing claim."""
    claims = (TESTED, entry(id="bias-y"), entry(id="bias-z", chapter="synthesis", unjudged=None))
    records = [shown("statement"), shown("statement", claim="bias-z", outcome="failed")]
    marks = (f"@pytest.mark.claim({name!r}, shows='statement', evidence='exact')\n" for name in ("bias-x", "bias-z"))
    monkeypatch.chdir(tmp_path)
    decided = decide(tmp_path, claims, records, f"{''.join(marks)}def test_it(): ...\n")
    Path("build").mkdir()
    Path("build/register.json").write_text(register.to_json(decided))
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, ["register", *arguments])


def test_command_prints_claims_and_counts_and_ends_with_one_if_a_listed_claim_fails(project):
    assert run().exit_code == 1
    assert run("--verdict", "not judged").exit_code == 0
    verdicts = {record["id"]: record["verdict"] for record in json.loads(run("--json").stdout)}
    assert verdicts == {"bias-x": "holds", "bias-y": "not judged", "bias-z": "failing"}
    result = run("--chapter", "bias")
    assert result.exit_code == 0
    assert "bias-x" in result.stdout
    assert "holds (exact)" in result.stdout
    assert result.stdout.endswith("2 claims: 1 holds, 1 not judged\n")


def test_a_claim_that_was_renamed_or_a_file_of_another_form_since_the_last_build(project):
    write_claims(project, TESTED, entry(id="bias-new"))
    (project / "tests" / "test_bias.py").write_text("")
    assert run().stdout.endswith("2 claims: 1 holds, 1 not judged\n")
    (project / "build" / "register.json").write_text('[{"id": "bias-x"')
    assert "register.json is damaged or of another version" in str(run().exception)


@pytest.mark.parametrize(("option", "value"), [("--verdict", "true"), ("--chapter", "baas")])
def test_command_names_what_it_does_not_know(project, option, value):
    result = run(option, value)
    assert result.exit_code != 0
    assert f"{option} is {value!r}; expected one of " in str(result.exception)
