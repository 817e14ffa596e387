"""The search box: what readers type, and the page that they are led to first."""

import runpy
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page

from sumexp.companion.pipeline.inputs import chapters_of

ROOT = Path(__file__).parents[3]
EXTENSION = runpy.run_path(str(ROOT / "book" / "_ext" / "sumexp_search.py"))
KNOWN = EXTENSION["words"]((ROOT / "book" / "intro.md").read_text("utf-8"))
CHAPTERS = chapters_of(ROOT / "_toc.yml")

EXPECTED = {
    "long tail": "longtail",
    "NDCG": "ranking",
    "temperature": "perturb",
    "logQ correction": "negatives",
    "in-batch negatives": "negatives",
    "two-tower": "towers",
    "hard negatives": "negatives",
    "ELBO": "vae",
    "InfoNCE": "nce",
    "Gumbel-Softmax": "perturb",
    "SigLIP": "since",
}
"""What a reader types, and the chapter that explains it."""


SEARCH = """words => words.map(word => {
  document.querySelectorAll('input[name="q"]').forEach(box => { box.value = word; });
  const best = Search._performSearch(...Search._parseQuery(word)).reverse();
  return best.map(([page, , anchor]) => `${page}.html${anchor}`);
})"""
"""What the page for searching does with what is asked for, for each word; its list takes longer to show."""


@pytest.fixture(scope="module")
def page(browser: Browser, html: Path) -> Iterator[Page]:
    page = browser.new_page()
    page.goto((html / "search.html").as_uri())
    page.wait_for_function("Search.hasIndex()")
    yield page
    page.close()


def found(page: Page, *words: str) -> list[list[str]]:
    """For each word the addresses that the search lists, the first one first."""
    listed: list[list[str]] = page.evaluate(SEARCH, list(words))
    return listed


@pytest.mark.parametrize("query", ["long tail", "NDCG", "temperature"])
def test_the_list_that_a_reader_sees(browser: Browser, html: Path, page: Page, query: str) -> None:
    seen = browser.new_page()
    seen.goto(f"{(html / 'search.html').as_uri()}?q={quote(query)}")
    first = seen.locator("#search-results li > a").first.get_attribute("href")
    seen.close()
    [listed] = found(page, query)
    assert first == listed[0] == f"notebooks/{EXPECTED[query]}.html"


def test_a_word_leads_to_the_chapter_that_explains_it(page: Page) -> None:
    first = {word: listed[0] for word, listed in zip(EXPECTED, found(page, *EXPECTED), strict=True)}
    assert first == {word: f"notebooks/{chapter}.html" for word, chapter in EXPECTED.items()}


def test_the_words_of_the_introduction_lead_to_the_first_page_of_their_row(page: Page) -> None:
    wanted = {word: f"{chapter}.html" for chapter, words in KNOWN.items() for word in words}
    wanted["ListNet"] = "book/api/nn.html#sumexp.nn.ListNet"  # a name of code, too
    assert len(wanted) > 30
    assert {word: listed[0] for word, listed in zip(wanted, found(page, *wanted), strict=True)} == wanted


@pytest.mark.parametrize("query", ["long tail", "NDCG", "softmax", "mutual information", "recall"])
def test_pages_come_before_what_is_merely_called_so(page: Page, query: str) -> None:
    [listed] = found(page, query)
    kinds = [address.startswith("book/api/") for address in listed]
    assert any(kinds)
    assert kinds == sorted(kinds)


@pytest.mark.parametrize(
    "query, place",
    [
        ("in_batch", "book/api/functional.html#sumexp.functional.in_batch"),
        ("StreamingLogQ", "book/api/nn.html#sumexp.nn.StreamingLogQ"),
        ("sumexp.ranking.ndcg", "book/api/ranking.html#sumexp.ranking.ndcg"),
    ],
)
def test_a_name_of_code_leads_to_its_description(page: Page, query: str, place: str) -> None:
    assert found(page, query)[0][0] == place


@pytest.mark.parametrize("query, place", [("errata", "errata"), ("register", "register"), ("speed", "speed")])
def test_a_title_leads_to_its_page(page: Page, query: str, place: str) -> None:
    assert found(page, query)[0][0] == f"book/{place}.html"


def test_chapters_that_mention_a_word_come_in_their_order_before_other_pages(page: Page) -> None:
    # A word that stands in the text of several chapters, in no title and in no row of the introduction.
    [addresses] = found(page, "derivative")
    chapters = [PurePosixPath(address).stem for address in addresses if address.startswith("notebooks/")]
    assert len(chapters) > 1
    assert chapters == sorted(chapters, key=CHAPTERS.index)
    assert [f"notebooks/{name}.html" for name in chapters] == addresses[: len(chapters)]


QUERIES = {
    "infonce bound": "notebooks/nce",
    "install": "book/install",
    "how many negatives": "notebooks/negatives",
    "tensorflow sampled_softmax_loss": "book/libraries",
    "CLIP": "notebooks/since",
    "LLM vocabulary cross entropy memory": "notebooks/negatives",
    "accidental hits": "notebooks/negatives",
    "gumbel softmax": "notebooks/perturb",
    "word2vec": "notebooks/nce",
    "check my training": "book/checking",
}


def test_ten_queries_of_readers_land_where_they_are_answered(page: Page) -> None:
    first = {query: listed[0] for query, listed in zip(QUERIES, found(page, *QUERIES), strict=True)}
    assert first == {query: f"{place}.html" for query, place in QUERIES.items()}


def test_a_page_found_names_the_section_that_has_the_words(page: Page) -> None:
    html = """<article><section id="top"><h1>Top</h1><p>Noise.</p>
      <section id="hits"><h2>Hits<a class="headerlink">#</a></h2>
      <p>A draw <span class="math">\\(q_y\\)</span> hits the label.</p></section>
    </section></article>"""
    summary = page.evaluate(
        """async html => {
          const entry = document.createElement("li");
          entry.innerHTML = '<a href="negatives.html">4</a>';
          entry.append(Search.makeSearchSummary(html, new Set(["label", "draw"]), ""));
          await Promise.resolve();
          return [entry.querySelector("p a").getAttribute("href"), entry.querySelector("p").textContent];
        }""",
        html,
    )
    assert summary == ["negatives.html#hits", "Hits A draw hits the label."]


def test_no_page_after_a_search_offers_to_hide_its_matches(browser: Browser, html: Path) -> None:
    seen = browser.new_page()
    seen.goto((html / "search.html").as_uri())
    seen.evaluate("localStorage.setItem('sphinx_highlight_terms', 'softmax')")
    seen.goto((html / "book" / "notation.html").as_uri())
    assert seen.locator(".highlight-link, .highlighted").count() == 0
    seen.close()


def test_what_is_typed_does_not_stand_under_the_icon(page: Page) -> None:
    form = page.locator("article form.bd-search, main form.bd-search").first
    icon = form.locator(".fa-magnifying-glass").first.evaluate("e => e.getBoundingClientRect().right")
    text = form.locator("input").first.evaluate(
        "e => e.getBoundingClientRect().left + parseFloat(getComputedStyle(e).paddingLeft)"
    )
    assert icon <= text


@pytest.mark.parametrize(
    "text, fault", [("# Nothing", "has no table"), ("{head}\n|---|---|\n| a, b | [c](d.md) |\n", "names no chapter")]
)
def test_a_table_without_chapters_is_named(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        EXTENSION["words"](text.replace("{head}", EXTENSION["HEAD"]))
