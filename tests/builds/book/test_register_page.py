"""The script of the register page in a real browser: the filters."""

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import expect

from claimbook import register
from claimbook.register import page as drawn
from tests.builds.book.conftest import CHROMIUM

ROOT = Path(__file__).parents[3]
CLAIMS = register.load(ROOT / "claims")
ENTRIES = len(CLAIMS)

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium here: install Debian's package 'chromium'")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The page's own HTML, in sections as Sphinx makes them, without the theme."""
    site = tmp_path_factory.mktemp("site")
    entries = register.decide(register.load(ROOT / "claims"), (), ROOT / "tests")
    explained = {}
    for file in (ROOT / "book" / "errata").glob("*.md"):
        explained |= drawn.read_errata(file.read_text("utf-8"), f"errata/{file.stem}.html")
    lists = drawn.claims(entries, explained, {})
    blocks = [drawn.marks(), drawn.counts(entries), '<div id="register-filters"></div>']
    blocks += [f'<h3 id="claims-{chapter}">{chapter}</h3>{entries}' for chapter, entries in lists.items()]
    (site / "book").mkdir()
    (site / "book" / "register.html").write_text(
        "<!doctype html><meta charset='utf-8'>" + "".join(f"<section>{block}</section>" for block in blocks)
    )
    shutil.copytree(ROOT / "book" / "_static", site / "_static")
    return site / "book" / "register.html"


@pytest.fixture
def page(browser, site):
    page = browser.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(site.as_uri())
    yield page
    page.close()
    assert errors == []


def shown(page):
    return page.locator(".register-claim:visible").count()


def test_filters_narrow_and_widen_the_table(page):
    assert shown(page) == ENTRIES
    page.get_by_role("combobox", name="Chapter").select_option("ranking")
    ranking = [claim for claim in CLAIMS.values() if claim.chapter == "ranking"]
    assert shown(page) == len(ranking)
    expect(page.locator("output")).to_have_text(f"{len(ranking)} of {ENTRIES} claims")
    page.get_by_role("combobox", name="Kind").select_option("theorem")
    assert page.url.endswith("#/?chapter=ranking&kind=theorem")
    shown_ids = page.locator(".register-claim:visible summary code").all_text_contents()
    assert sorted(shown_ids) == sorted(claim.id for claim in ranking if claim.kind == "theorem")
    page.get_by_role("searchbox", name="Search").fill("ndcg CONVEXITY")
    assert shown(page) == 1
    assert page.locator(".register-claims:visible").count() == 1  # chapters without a match are gone, headings and all
    page.get_by_role("button", name="Show all").click()
    assert shown(page) == ENTRIES


def test_a_count_shows_the_claims_it_counts(page):
    link = page.locator('.register-counts a[data-chapter="nce"][data-verdict="convention"]')
    link.click()
    page.wait_for_url("**#/?chapter=nce&verdict=convention")
    expect(page.locator(".register-claim:visible")).to_have_count(int(link.text_content()))


@pytest.mark.parametrize(
    "query, fields",
    [
        ("paper=bias&weight=misprint", {"paper": "bias", "weight": "misprint"}),
        ("evidence=none&kind=figure", {"evidence": "none", "kind": "figure"}),
        ("verdict=never", {}),
    ],
)
def test_filters_are_in_the_address(browser, site, query, fields):
    page = browser.new_page()
    page.goto(f"{site.as_uri()}#/?{query}")
    fit = "".join(f'[data-{name}="{value}"]' for name, value in fields.items())
    wanted = page.locator(f".register-claim{fit}").count()
    assert wanted
    assert shown(page) == wanted
    assert (wanted == ENTRIES) == (not fields)
    page.close()


def test_entries_are_folded_until_a_link_a_search_or_the_printer_opens_them(browser, site, page):
    page.goto(f"{site.as_uri()}#claim-bias-eq-41")
    opened = page.locator(".register-claim[open] > div")
    expect(opened).to_have_attribute("id", "claim-bias-eq-41")
    page.goto("about:blank")
    page.goto(site.as_uri())
    assert opened.count() == 0
    page.get_by_role("searchbox", name="Search").fill("ndcg convexity")
    assert opened.count() == shown(page) == 1
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert opened.count() == ENTRIES


def test_a_link_to_a_claim_is_never_hidden(page):
    page.get_by_role("combobox", name="Chapter").select_option("ranking")
    page.evaluate("location.hash = '#claim-bias-eq-41'")
    expect(page.locator("#claim-bias-eq-41")).to_be_visible()
    page.evaluate("location.hash = '#nowhere'")
    expect(page.locator("#claim-bias-eq-41")).to_be_visible()


def test_page_is_whole_without_javascript(browser, site):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(site.as_uri())
    assert shown(page) == ENTRIES
    page.goto(f"{site.as_uri()}#claim-perturb-fig-4")
    expect(page.locator("#claim-perturb-fig-4")).to_be_visible()
    context.close()


def test_script_does_nothing_on_other_pages(browser, site, tmp_path):
    other = tmp_path / "other.html"
    script = (site.parent.parent / "_static" / "register.js").as_uri()
    other.write_text(f"<!doctype html><title>x</title><p>One</p><script src='{script}'></script>")
    page = browser.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(other.as_uri())
    assert page.locator("body > *:not(script)").count() == 1
    assert errors == []
