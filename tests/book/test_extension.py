"""The book's Sphinx extensions: lines that break where they may, solutions and proofs that unfold."""

import re
from inspect import Signature
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from bs4 import BeautifulSoup
from docutils import nodes
from docutils.utils import new_document
from numpy.typing import ArrayLike, NDArray
from sphinx import addnodes
from sphinx.errors import ExtensionError
from sphinx.ext.napoleon import GoogleDocstring
from sphinx.util.inspect import stringify_signature
from sphinx.util.typing import stringify_annotation

from claimbook import BookError
from claimbook.pipeline.plan import parse
from claimbook.store import parts
from tests.book.pages import CODE, EXTENSIONS, displayed, extension, markdown, render, write_notebook


def paragraph(text: str) -> nodes.paragraph:
    return nodes.paragraph("", text)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("The loss. | a | It is small. | f | Source.", "The loss. | a | f | Notes | It is small. | Source."),
        ("The loss. | a | f | Source.", "The loss. | a | f | Source."),
        ("The loss. | It is small. | f", "The loss. | f | Notes | It is small."),
        ("The loss. | It is small.", "The loss. | It is small."),
    ],
)
def test_parameters_stand_after_the_first_sentence_and_its_formula(written: str, shown: str) -> None:
    made = {"a": nodes.math_block("", "a"), "f": nodes.field_list("", nodes.field("", nodes.field_name("", "f")))}
    content = addnodes.desc_content("", *(made.get(text) or paragraph(text) for text in written.split(" | ")))
    extension("pages")["fields_first"](None, nodes.section("", content))
    assert [part.astext().strip() for part in content] == shown.split(" | ")


API = {file.stem: file.read_text("utf-8") for file in (EXTENSIONS.parent / "api").glob("*.md")}


def test_a_page_opens_with_a_table_of_its_names_in_the_order_of_the_page() -> None:
    document = new_document("page")
    document += nodes.section("", nodes.title("", "Losses"))
    for name, text in (("b", "First."), ("a", "It is"), ("A.method", "Left out.")):
        signature = addnodes.desc_signature("", "", fullname=name, ids=[f"sumexp.{name}"])
        paragraph = nodes.paragraph("", "", nodes.Text(text), nodes.literal("", "x"))
        document[0] += addnodes.desc("", signature, addnodes.desc_content("", paragraph), domain="py")
    extension("pages")["summarise"](SimpleNamespace(env=SimpleNamespace(docname="book/api/functional")), document)
    rows = [[entry.astext() for entry in row] for row in document[0][1].findall(nodes.row)]
    assert rows == [["b", "First.x"], ["a", "It isx"]]
    assert [link["refid"] for link in document[0][1].findall(nodes.reference)] == ["sumexp.b", "sumexp.a"]


def test_a_page_describes_each_module_that_a_chapter_names() -> None:
    described = {name for text in API.values() for name in re.findall(r"automodule:: (\S+)", text)}
    code = [cell for path in (EXTENSIONS.parents[1] / "notebooks").glob("*.md") for cell in parse(path).code]
    named = {name for name in parts.imports(*code) if name.startswith("sumexp.")}
    assert named - described == {"sumexp.expectations.quadrature"}  # whose names stand on the package's page


@pytest.mark.parametrize("page", API)
def test_no_page_describes_a_private_module(page: str) -> None:
    assert "._" not in API[page]


def test_a_signature_has_numpy_s_names_of_types() -> None:
    def signed(x: ArrayLike | None, y: NDArray[np.float64]) -> NDArray[np.int64]:
        raise NotImplementedError(x, y)

    told = Signature.from_callable(signed)
    shown = stringify_signature(told, show_return_annotation=False), stringify_annotation(told.return_annotation)
    assert extension("pages")["name_types"](None, "function", "signed", signed, {}, *shown) == (
        "(x: numpy.typing.ArrayLike | None, y: numpy.typing.NDArray[numpy.float64])",
        "numpy.typing.NDArray[numpy.int64]",
    )


def test_a_colon_in_the_text_on_a_value_makes_no_type_of_what_stands_before_it() -> None:
    text = "What a negative weighs: see `log_weights`."
    assert GoogleDocstring(text, what="data").lines() == [text]
    fields = [":ivar q: the law", ":vartype q: numpy.ndarray[tuple[Any, ...], numpy.dtype[numpy.float64]]"]
    extension("pages")["name_fields"](None, "class", "Setup", None, {}, fields)
    # NumPy 2.5:
    assert extension("pages")["array_types"]("x: NDArray[numpy.int64]") == "x: numpy.typing.NDArray[numpy.int64]"
    assert fields == [":ivar q: the law", ":vartype q: numpy.typing.NDArray[numpy.float64]"]


def test_fields_of_a_named_tuple_have_no_entry_of_their_own() -> None:
    class Pair(NamedTuple):
        """Two numbers."""

        first: int
        second: int

        def both(self) -> int:
            """Their sum."""
            return self.first + self.second

    actual = {
        name: extension("pages")["leave_out_fields"](None, "class", name, member, False, {})
        for name, member in {"first": Pair.first, "second": Pair.second, "both": Pair.both}.items()
    }
    assert actual == {"first": True, "second": True, "both": None}


def test_pages_are_read_in_one_process() -> None:
    """Of several, Sphinx does not see that two pages declare the same label."""
    app = SimpleNamespace(**dict.fromkeys(("add_role", "add_directive", "add_transform", "connect"), lambda *_: None))
    extension("book")["setup"](app)
    assert not app.is_parallel_allowed("read")
    assert app.is_parallel_allowed("write")


EXERCISES = """# Chapter

:::{prf:theorem} Ours
:label: tiny-ours
It holds.
:::

:::{prf:proof}
*If*: by {prf:ref}`tiny-ours`.
:::

## Exercises

:::{exercise} two classes
:label: tiny-ex-two
What is $p_1$?
:::

:::{solution} tiny-ex-two
One half.
:::

:::{exercise}
:label: tiny-ex-three
And of three?
:::

:::{solution-start} tiny-ex-three
:::

A third, as in {ref}`tiny-ex-two`:
"""


@pytest.fixture(scope="module")
def exercises(tmp_path_factory: pytest.TempPathFactory) -> BeautifulSoup:
    """A page with two exercises; the second's solution has a code cell."""
    place = tmp_path_factory.mktemp("exercises")
    end = markdown(":::{solution-end}\n:::\n\nOutside.")
    write_notebook(place / "index.ipynb", markdown(EXERCISES), CODE | {"source": "1 / 3"}, end)
    (place / "book" / "_data").mkdir(parents=True)
    extensions = "sphinx_exercise", "sphinx_proof", "sumexp_pages"
    page, warnings = render(place, "index", *extensions, exercise_style="solution_follow_exercise")
    assert warnings == ""
    return page


def test_an_exercise_has_a_number_and_its_solution_unfolds_code_and_all(exercises: BeautifulSoup) -> None:
    titles = [title.get_text(" ", strip=True) for title in exercises.select(".exercise > .admonition-title")]
    assert titles == ["Exercise 1 (two classes)", "Exercise 2"]
    first, second = exercises.select("details.solution")
    assert [child.name for child in first.find_all(recursive=False)] == ["summary", "section"]
    assert first.get_text(" ", strip=True) == "Solution One half."
    assert second.get_text(" ", strip=True) == "Solution A third, as in Exercise 1 : 1 / 3"
    assert "Outside." in exercises.get_text()
    assert not exercises.select("details .exercise")


def test_theorems_have_letters_and_proofs_unfold(exercises: BeautifulSoup) -> None:
    assert exercises.select(".theorem > .admonition-title")[0].get_text() == "Theorem A  (Ours)"
    [proof] = exercises.select("details.folded-proof")
    assert proof.get_text(" ", strip=True) == "Proof If : by Theorem A ."


QUOTING = """# Introduction

It takes {result}`chapter/reads` of {result}`chapter/absent`.

{result}`chapter/order`

:::{quoted-figure} chapter bar
The *bar*.
:::

:::{quoted-figure} chapter absent
No picture yet.
:::
"""


def built(place: Path, source: str) -> BeautifulSoup:
    """The first page of a book of two, which quotes the other, a chapter with one result and one figure."""
    about = {"figure": "bar", "alt": "A bar.", "caption": "Own.", "source": "sumexp.a:f", "provenance": "key 12"}
    picture = {"image/svg+xml": ["<svg>", "<g/></svg>"]}
    record = "application/papermill.record/text/"
    outputs = [
        displayed(picture, **about),
        displayed({f"{record}plain": "'1,024'"}, result="reads", value=1024, rtol=0.0),
        displayed({f"{record}markdown": ["So it *is*."]}, sentence="order", text="So it *is*."),
    ]
    drawn, kept = CODE | {"outputs": outputs[:1]}, CODE | {"source": "", "outputs": outputs[1:]}  # the last is skipped
    write_notebook(place / "notebooks" / "chapter.ipynb", markdown("# Chapter"), drawn, kept)
    (place / "index.md").write_text(f"{source}\n```{{toctree}}\nnotebooks/chapter\n```\n")
    page, warnings = render(place, "index", "sumexp_book")
    assert warnings == ""
    return page


def test_a_page_quotes_numbers_and_pictures_of_chapters(tmp_path: Path) -> None:
    page = built(tmp_path, QUOTING)
    assert "It takes 1,024 of …." in page.get_text()
    assert page.select_one("p > em").parent.get_text() == "So it is."
    (figure,) = page.find_all("figure")
    assert figure.find("svg").find("g")
    assert "".join(figure.find("figcaption").get_text().split()) == "Thebar."
    assert "Own." not in page.get_text()
    assert "No picture yet." in page.get_text()


def test_a_chapter_that_is_quoted_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ExtensionError, match="index quotes the chapter 'chapters', which is not in the book"):
        built(tmp_path, "# Introduction\n\n{result}`chapters/reads`\n")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("```{register-table} score\n```", "'score' is none of counts, claims, glance, marks, truth, rules, kinds"),
        ("```{measured} speed\n:table: size\n```", "no table 'size'; there are cost, origin"),
    ],
)
def test_what_no_table_or_number_has_is_named(tmp_path: Path, source: str, message: str) -> None:
    (tmp_path / "book/_data").mkdir(parents=True)
    (tmp_path / "book/_data/register.json").write_text("[]")
    (tmp_path / "book/_data/speed.json").write_text('{"tables": {"cost": [], "origin": []}}')
    (tmp_path / "index.md").write_text(f"# Introduction\n\n{source}\n")
    _, warnings = render(tmp_path, "index", "sumexp_book")
    assert f"index.md:3: ERROR: {message}" in warnings
    (tmp_path / "index.md").write_text("# Introduction\n\n{register-number}`opne`\n")
    with pytest.raises(BookError, match=r"register-number. in index is 'opne'; expected one of holds, "):
        render(tmp_path, "index", "sumexp_book")
