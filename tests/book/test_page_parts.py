"""What the extensions make of a page's parts: links to claims, landmarks, what a page says of itself."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from bs4 import BeautifulSoup

from claimbook.register import page as drawn
from tests.book.pages import EXTENSIONS, extension

LINK = '<a class="claim-link" href="#claim-{0}"><svg></svg><code>{0}</code></a>'
A, B = LINK.format("a"), LINK.format("b")


@pytest.mark.parametrize(
    "written, shown",
    [
        (f"It holds ({A}).", f"It holds\u2060{A}."),
        (f"It holds\n({A}, {B}).", f"It holds\u2060{A}\u2060{B}."),
        (f"<em>It holds</em>\n({A},\n{B}).", f"<em>It holds</em>\u2060{A}\u2060{B}."),
        (f"The difference of {A} vanishes.", None),
        (f"It holds ({A}, see {B}).", None),
        (f"It holds (as {A}).", None),
    ],
)
def test_links_alone_in_brackets_become_marks(written: str, shown: str | None) -> None:
    context = {"body": written}
    extension("book")["mark_words"](None, "page", "page.html", context, None)
    marked = shown and shown.replace('"claim-link"', '"claim-link claim-mark"')
    assert context["body"] == (marked or written)


def test_what_axe_misses_is_added() -> None:
    theme = (
        '<div id="pst-primary-sidebar" class="x"><a href="e.html">Errata, <i>all</i></a><details><summary>'
        '<i></i></summary></details></div><dl><dt class="sig sig-object py" id="f">f(<dl>\n<dd>a</dd>\n</dl>)</dt></dl>'
        '<div role="list" class="citation-list"><div class="citation" id="x" role="doc-biblioentry"></div></div>'
    )
    assert extension("pages")["accessible"](theme) == (
        '<div id="pst-primary-sidebar" role="navigation" aria-label="Book" class="x"><a href="e.html">Errata, '
        '<i>all</i></a><details><summary aria-label="Pages of Errata, all"><i></i></summary></details></div>'
        '<dl><dt class="sig sig-object py" id="f">f(<span class="sig-lines">\n<span>a</span>\n</span>)</dt></dl>'
        '<div class="citation-list"><div class="citation" id="x"></div></div>'
    )


def test_permalinks_have_a_name() -> None:
    page = '<h2>Title<a class="headerlink" href="#title" title="Link to this heading">#</a></h2>'
    [link] = BeautifulSoup(extension("pages")["accessible"](page), "html.parser").select("a.headerlink")
    assert link["aria-label"] == link["title"] == "Link to this heading"


def test_a_formula_keeps_its_comma_in_its_line() -> None:
    math = r'<span class="math notranslate nohighlight">\(a &lt; b\)</span>'
    assert extension("pages")["accessible"](f"{math}, {math} c") == f'<span class="keep">{math},</span> {math} c'


ERRATUM = "(erratum-b1)=\n## B1. Two signs\n\n**Weight:** {}.\n\n"


def test_errata_have_a_weight_of_the_list() -> None:
    def read(weight: str) -> drawn.Erratum:
        return drawn.read_errata(ERRATUM.format(weight), "bias.html")["B1"]

    b1, lighter = read("misprint"), read("lost in our text")
    assert (b1.label, b1.title, b1.weight, b1.address) == ("B1", "Two signs", "misprint", "bias.html#erratum-b1")
    assert drawn.heaviest(["B1", "B2", "B3"], {"B1": lighter, "B2": b1}) == "misprint"
    assert drawn.heaviest(["B3"], {"B1": b1}) == ""
    for other in ("slip", "misprint, or a fault of our text"):
        message = f"the weight of erratum B1 is '{other}'; expected .* with one of fault that"
        with pytest.raises(ValueError, match=message):
            read(other)
    with pytest.raises(ValueError, match="the weight of erratum B1 is ''; expected a heading, and a line"):
        drawn.read_errata("(erratum-b1)=\n## B1. Two signs\n\n", "bias.html")


def test_errata_are_listed_by_weight_then_by_letter_and_number(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"E10": "misprint", "C1": "misprint", "E9": "misprint", "G2": "gap that can be filled"}
    errata = {label: drawn.Erratum(label, "Title", weight, "") for label, weight in given.items()}
    run = extension("book")["ErrataTable"].run
    monkeypatch.setitem(run.__globals__, "explained", lambda env: errata)
    listed = run(SimpleNamespace(env=None, parse_text_to_nodes=str))
    assert re.findall(r"\*\*(.*?)\*\*|`(.*?) <", listed) == [
        *(("Gap that can be filled", ""), ("", "G2")),
        *(("Misprint", ""), ("", "C1"), ("", "E9"), ("", "E10")),
    ]


def test_proofs_and_exercises_of_a_page_share_no_id() -> None:
    kinds = "proof", "exercise", "solution"
    contents = "".join(f'<section class="{kind}-content" id="{kind}-content">x</section>' for kind in kinds)
    proof = f'<div class="proof admonition" id="proof"><p>Proof.</p>{contents}</div>'
    labelled = '<section id="proof-of-it"><div class="proof theorem admonition" id="it">'
    assert "id=" not in extension("pages")["accessible"](proof + proof)
    assert 'id="proof-of-it"' in extension("pages")["accessible"](labelled)


@pytest.mark.parametrize("file", sorted((EXTENSIONS.parent / "errata").glob("*.md")), ids=lambda file: file.stem)
def test_every_erratum_has_its_weight_and_its_three_lines(file: Path) -> None:
    text = file.read_text("utf-8")
    labels = list(drawn.read_errata(text, ""))
    assert labels == re.findall(r"(?m)^## ([A-Z]\d+)\. ", text)
    lines = ["Printed", "Lost in our text", "Reading"]
    assert re.findall(rf"(?m)^\*\*({'|'.join(lines)})\.\*\*\n(?=\S)", text) == lines * len(labels)


def test_sources_that_are_not_staged_say_what_to_type(tmp_path: Path) -> None:
    """As by ``jupyter-book build .`` in the project's root."""
    with pytest.raises(SystemExit, match="build it by: make book"):
        extension("pages")["refuse_unstaged"](SimpleNamespace(srcdir=tmp_path), None)
    (tmp_path / "book/_data").mkdir(parents=True)
    extension("pages")["refuse_unstaged"](SimpleNamespace(srcdir=tmp_path), None)
