"""The search box: what readers type, and the page that they are led to first."""

import runpy
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page

from tests.builds.book.browsing import COLOURS_ALONE, ROOT, faults

with pytest.MonkeyPatch.context() as path:
    path.syspath_prepend(str(ROOT / "book" / "_ext"))
    EXTENSION = runpy.run_path(str(ROOT / "book" / "_ext" / "sumexp_files.py"))
KNOWN = EXTENSION["words"]((ROOT / "book" / "words.md").read_text("utf-8"))

NEGATIVES = ("logQ correction", "how many negatives do I need", "popularity bias", "negative sampling LLM")
EXPECTED = {
    "long tail": "notebooks/longtail", "two-tower": "notebooks/towers", "ELBO": "notebooks/vae",
    "sampled softmax bias": "notebooks/bias", "cite": "book/intro", "install": "book/install",
    "GISTEmbedLoss": "book/libraries", "in_batch": "book/api/functional", "GPU": "book/api/devices",
    "torch.compile": "book/api/torch", **dict.fromkeys(NEGATIVES, "notebooks/negatives"),
    **dict.fromkeys(("NDCG", "recall@k bound"), "notebooks/ranking"),
    **dict.fromkeys(("temperature", "Gumbel-Softmax"), "notebooks/perturb"),
    **dict.fromkeys(("SigLIP", "cosine temperature", "CLIP loss"), "notebooks/since"),
    **dict.fromkeys(("mutual information lower bound", "MoCo queue", "word2vec PMI"), "notebooks/nce"),
}  # fmt: skip
"""What a reader types, and the page that explains it."""


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


def addresses(page: Page, *words: str) -> list[list[str]]:
    """For each word the addresses that the search lists, the first one first."""
    listed: list[list[str]] = page.evaluate(SEARCH, list(words))
    return listed


def test_what_readers_type_leads_to_the_page_that_explains_it(page: Page) -> None:
    firsts = (listed[0].partition(".html")[0] for listed in addresses(page, *EXPECTED))
    assert dict(zip(EXPECTED, firsts, strict=True)) == EXPECTED


@pytest.mark.parametrize("query", ["long tail", "how many negatives do I need"])
def test_the_list_that_a_reader_sees(browser: Browser, html: Path, page: Page, query: str) -> None:
    """Words that tell nothing are neither looked for nor marked in what is listed."""
    seen = browser.new_page()
    seen.goto(f"{(html / 'search.html').as_uri()}?q={quote(query)}")
    first = seen.locator("#search-results li > a").first.get_attribute("href")
    marked = {text.lower() for text in seen.locator("#search-results .highlighted").all_inner_texts()}
    assert faults(seen, "search", COLOURS_ALONE) == []
    seen.close()
    [listed] = addresses(page, query)
    assert first == listed[0]
    assert first.startswith(f"{EXPECTED[query]}.html")
    assert marked <= {"long", "tail", "negatives"}


def test_the_words_of_the_table_lead_to_the_first_page_of_their_row(page: Page) -> None:
    wanted = {word: f"{chapter}.html" for chapter, words in KNOWN.items() for word in words}
    wanted["ListNet"] = "book/api/nn.html#sumexp.nn.ListNet"  # a name of code, too
    assert len(wanted) > 30
    assert {word: listed[0] for word, listed in zip(wanted, addresses(page, *wanted), strict=True)} == wanted


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
