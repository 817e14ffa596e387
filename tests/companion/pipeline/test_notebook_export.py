"""A chapter to take away: what the book's markup becomes, by hand, and that nothing of it is left."""

# ruff: noqa: E501 - a case a line

from typing import Any, get_args

import nbformat
import pytest

from sumexp.companion import CompanionError
from sumexp.companion.pipeline.notebook_export import MARKS, Names, Place, Text, glued, install, leftovers, notebook
from sumexp.companion.register.verdict import Verdict

NAMES = Names(
    places={
        "tiny-thm": Place("Theorem 3.1", "notebooks/tiny", "tiny-thm"),
        "tiny-ex-two": Place("Exercise 3.2", "notebooks/tiny", "tiny-ex-two"),
        "fig-bar": Place("Figure 1", "notebooks/tiny", "fig-bar"),
        "tiny-eq": Place("3.4", "notebooks/tiny", "equation-tiny-eq"),
    },
    pages={"notebooks/other": "Another chapter", "book/notation": "Notation"},
    cited={
        "a-2020": ("Ash and Birch", "2020", Place("", "book/bibliography", "id1")),
        "c-2021": ("Cole et al.", "2021", Place("", "book/bibliography", "id2")),
    },
    verdicts={"tiny-one": "holds", "tiny-two": "holds with correction"},
    macros={"E": r"\operatorname{\mathbb{E}}", "R": r"\mathbb{R}"},
)
AT = "../notebooks/tiny.html#"
LIST = "../book/bibliography.html#"
ONE, TWO = (f"../book/register.html#claim-tiny-{name}" for name in ("one", "two"))
text = Text("tiny", {"error": "3 × 10⁻¹³", "order": "It is $\\E x$ ({claim}`tiny-one`)."}, NAMES)


@pytest.mark.parametrize(
    "source, expected",
    [
        ("By {prf:ref}`tiny-thm`.", f"By [Theorem 3.1]({AT}tiny-thm)."),
        ("{ref}`fig-bar`, {ref}`the bar <fig-bar>`", f"[Figure 1]({AT}fig-bar), [the bar]({AT}fig-bar)"),
        ("By {eq}`tiny-eq`", f"By [(3.4)]({AT}equation-tiny-eq)"),
        ("{doc}`other` {doc}`../book/notation`", "[Another chapter](../notebooks/other.html) [Notation](../book/notation.html)"),
        ("{doc}`words <other>`", "[words](../notebooks/other.html)"),
        ("[words](../book/intro.md#here)", "[words](../book/intro.html#here)"),
        ("[x](https://x.org/a.md)", "[x](https://x.org/a.md)"),
        ("an error of {glue:text}`error`", "an error of 3 × 10⁻¹³"),
        ("{glue:md}`order:myst`", rf"It is $\operatorname{{\mathbb{{E}}}} x$ ([● holds]({ONE}))."),
        ("{cite:t}`a-2020` and {cite:p}`a-2020,c-2021`", f"[Ash and Birch (2020)]({LIST}id1) and ([Ash and Birch, 2020]({LIST}id1); [Cole et al., 2021]({LIST}id2))"),
        ("It holds ({claim}`tiny-one`,\n{claim}`tiny-two`).", f"It holds ([● holds]({ONE}),\n[◆ holds with correction]({TWO}))."),
        ("As {claim}`tiny-two` says", f"As [◆ tiny-two (holds with correction)]({TWO}) says"),
        ("{func}`sumexp.f` of {mod}`sumexp.g`", "`sumexp.f` of `sumexp.g`"),
        ("`` {ref}`x` `` and `a` and `{doc}`", "`` {ref}`x` `` and `a` and `{doc}`"),
        (r"$\E x\in\R^n$, $\Ex$", r"$\operatorname{\mathbb{E}} x\in\mathbb{R}^n$, $\Ex$"),
        ("(a-label)=\n## Title", "## Title"),
        ("$$\nx\n$$ (tiny-eq)", "$$\nx\n\\tag{3.4}\n$$"),
        (":::{admonition} In practice\n:class: practice\nDo it.\n\n- {eq}`tiny-eq`\n:::", f"> **In practice**\n>\n> Do it.\n>\n> - [(3.4)]({AT}equation-tiny-eq)"),
        ("```{warning}\nOld.\n```", "> **Warning**\n>\n> Old."),
        (":::{prf:theorem} of Ash\n:label: tiny-thm\n$x$\n\n$$\ny\n$$\n:::", "> **Theorem 3.1 (of Ash)**\n>\n> $x$\n>\n> $$\n> y\n> $$"),
        (":::{table} Of Ash.\n:class: paper-table\n\n| a | b |\n|---|---|\n| $x$ | [3 ({claim}`tiny-one`)]{.denied} |\n:::", f"*Of Ash.*\n\n\n| a | b |\n|---|---|\n| $x$ | ✗ 3 ([● holds]({ONE})) |"),
        (":::{exercise}\nShow it.\n:::", "> **Exercise**\n>\n> Show it."),
        (":::{prf:lemma} of Ash\nIt holds.\n:::", "> **Lemma (of Ash)**\n>\n> It holds."),
        (":::{prf:proof}\nClear.\n:::", "*Proof.*\nClear."),
        (":::{exercise}\n:label: tiny-ex-two\nShow it.\n:::", "> **Exercise 3.2**\n>\n> Show it."),
        (":::{solution-start} tiny-ex-two\n:::\n\nSo.\n\n:::{solution-end}\n:::", "**Solution of Exercise 3.2**\n\n\nSo."),
        ("::::{admonition} Out\n:::{prf:proof}\nIn.\n:::\n::::\nAfter.", "> **Out**\n>\n> *Proof.*\n> In.\nAfter."),
        ("- a\n  :::{note}\n  b\n  :::", "- a\n  > **Note**\n  >\n  >   b"),
        ("```python\n{ref}`x`\n:::\n```\nSo.", "```python\n{ref}`x`\n:::\n```\nSo."),
    ],
)  # fmt: skip
def test_what_markup_becomes(source: str, expected: str) -> None:
    assert text(source) == expected


@pytest.mark.parametrize(
    "source, message",
    [
        ("{refs}`x`", "the role {refs} has no meaning outside the book"),
        (":::{tabs}\n:::", "the directive {tabs} has no meaning outside the book"),
        ("{ref}`nowhere`", "notebooks/tiny.md: the reference to 'nowhere' has no target"),
        ("{doc}`nowhere`", "the link to the page 'notebooks/nowhere' has no target"),
        ("{cite:p}`nobody`", "the citation 'nobody' has no entry"),
        ("{claim}`tiny-three`", "the claim 'tiny-three' has no entry"),
    ],
)
def test_what_means_nothing_is_named(source: str, message: str) -> None:
    with pytest.raises(CompanionError, match=message):
        text(source)


def test_every_verdict_has_a_mark_of_its_own() -> None:
    assert set(MARKS) == set(get_args(Verdict))
    assert len(set(MARKS.values())) == len(MARKS)


def markdown(source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def code(source: str, *outputs: dict[str, Any], tags: tuple[str, ...] = ()) -> dict[str, Any]:
    parts = {"cell_type": "code", "metadata": {"tags": list(tags)}, "source": source, "execution_count": None}
    return {**parts, "outputs": list(outputs)}


def shown(data: dict[str, str], **mark: Any) -> dict[str, Any]:
    return {"output_type": "display_data", "data": data, "metadata": {"sumexp": mark}}


FIGURE = (
    '<figure id="fig-bar"><div class="figure-picture"><svg role="img"><g/></svg></div>\n'
    '<figcaption><p>For <span class="math notranslate nohighlight">\\(x&lt;1\\)</span> &amp; more. '
    '<a class="headerlink" href="#fig-bar" title="Link to this figure">#</a></p>\n'
    '<p class="figure-source">Drawn in <a href="#cell-bar">this cell</a> from '
    '<a href="../_modules/sumexp/a.html#f"><code>sumexp.a.f</code></a>.'
    ' <a href="../_figures/bar.csv" download>Data (CSV).</a>'
    ' <span class="figure-provenance">key 12 · profile cpu</span></p></figcaption></figure>'
)
CHAPTER: dict[str, Any] = {
    "cells": [
        markdown("# Tiny\n\nIt is {glue:text}`error`, see {ref}`fig-bar`."),
        code('profile = "cpu"\ndevice = "auto"\nseed = 0', tags=("parameters", "hide-input")),
        code("draw()", shown({"text/html": FIGURE}, figure="bar", alt="A bar.")),
        code(
            "record()",
            shown({"application/papermill.record/text/plain": "'1,024'"}, result="error", value=1024),
            shown({"text/html": '<div class="by-hand" hidden></div>'}, interactive="bar"),
        ),
        code("print(1)", {"output_type": "stream", "name": "stdout", "text": "1\n"}),
    ],
    "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}


def test_a_notebook_stands_alone_and_is_a_notebook() -> None:
    page = notebook("tiny", CHAPTER, NAMES)
    nbformat.validate(nbformat.from_dict(page))
    assert leftovers(page) == []
    title, origin, package, parameters, figure, record, printed = page["cells"]
    assert title["source"] == f"# Tiny\n\nIt is 1,024, see [Figure 1]({AT}fig-bar)."
    assert "[The Sum of Exponentials](../notebooks/tiny.html)" in origin["source"]
    assert package["source"] == install("")
    device = 'import torch\n\ndevice = "cuda" if torch.cuda.is_available() else "cpu"'
    assert parameters["source"] == f'profile = "cpu"\n{device}\nseed = 0'
    assert parameters["metadata"]["jupyter"] == {"source_hidden": True}
    assert [output["data"] for output in figure["outputs"]] == [
        {"image/svg+xml": '<svg style="color: #000; background: #fff" role="img"><g/></svg>', "text/plain": "A bar."},
        dict.fromkeys(
            ("text/markdown", "text/plain"),
            "**Figure 1.** For $x<1$ & more.\n\n"
            "Drawn from [`sumexp.a.f`](../_modules/sumexp/a.html#f) · key 12 · profile cpu",
        ),
    ]
    assert record["outputs"] == []
    assert printed["outputs"] == CHAPTER["cells"][4]["outputs"]
    assert CHAPTER["cells"][3]["outputs"]  # what was given is as it was


def test_a_figure_drawn_before_figures_had_permalinks_keeps_its_caption() -> None:
    earlier = FIGURE.replace(' <a class="headerlink" href="#fig-bar" title="Link to this figure">#</a>', "")
    assert earlier != FIGURE
    cells = [code("draw()", shown({"text/html": page}, figure="bar", alt="A bar.")) for page in (FIGURE, earlier)]
    _, _, now, before = notebook("tiny", {**CHAPTER, "cells": cells}, NAMES)["cells"]
    assert now["outputs"] == before["outputs"]


def test_links_lead_to_the_published_pages() -> None:
    page = notebook("tiny", CHAPTER, Names(places=NAMES.places, root="https://x.org/book/"))
    assert "(https://x.org/book/notebooks/tiny.html#fig-bar)" in page["cells"][0]["source"]


def test_glued_are_numbers_and_sentences() -> None:
    sentence = shown({"application/papermill.record/text/markdown": "So."}, sentence="order", text="So.")
    assert glued({"cells": [*CHAPTER["cells"], code("", sentence)]}) == {"error": "1,024", "order": "So."}


@pytest.mark.parametrize("source", ["By {ref}`x`.", "a\n:::{note}\nb\n", "{prf:ref}`a`", "{glue:md}`a:myst`"])
def test_markup_that_is_left_would_be_found(source: str) -> None:
    assert leftovers({"cells": [markdown(source)]}) != []


def test_code_is_no_markup() -> None:
    assert leftovers({"cells": [markdown("`` {ref}`x` ``\n```\n:::{note}\n```"), code("{ref}`x`")]}) == []


def test_the_first_cell_installs_the_package_where_it_is_not_installed() -> None:
    source = install("git+https://github.com/x/y")
    assert '%pip install -q "sumexp[chapters] @ git+https://github.com/x/y"' in source
    assert "pip install" in install("")
