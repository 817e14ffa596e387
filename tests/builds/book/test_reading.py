"""What the pages do under a reader's hands: entries of the register open, links to claims show what they lead to."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.builds.book.browsing import DESKTOP, PHONE
from tests.builds.book.conftest import CHROMIUM

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium here: install Debian's package 'chromium'")
CLAIM = "bias-thm-3-1"
READY = "window.sumexpMaths && !document.documentElement.classList.contains('maths-awaited')"


def opened(browser: Browser, html: Path, name: str, **options: object) -> Page:
    page = browser.new_context(**{"viewport": DESKTOP} | options).new_page()  # type: ignore[arg-type]
    page.goto(f"{html.as_uri()}/{name}")
    if options.get("java_script_enabled", True):
        page.wait_for_function(READY)
    return page


def test_an_entry_is_typeset_when_it_opens(browser: Browser, html: Path) -> None:
    page = opened(browser, html, "book/register.html")
    entry = page.locator(".register-claim", has=page.locator(f"#claim-{CLAIM}"))
    page.evaluate("MathJax.startup.promise")
    assert page.locator(".register-claim[open]").count() == 0
    assert page.locator(".register-claim > div mjx-container").count() == 0
    entry.locator("summary").click()
    expect(entry.locator("mjx-container").first).to_be_visible()
    expect(entry.locator(".math:not(:has(mjx-container))")).to_have_count(0)
    page.get_by_role("combobox", name="Paper").select_option("nce")
    assert page.url.endswith("register.html#/?paper=nce")
    expect(entry).to_be_hidden()
    page.reload()
    expect(entry).to_be_hidden()
    page.context.close()


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_a_link_to_a_claim_opens_its_entry(browser: Browser, html: Path, script: bool) -> None:
    page = opened(browser, html, f"book/register.html#claim-{CLAIM}", java_script_enabled=script)
    expect(page.locator(f"#claim-{CLAIM} .paper-says")).to_be_visible()
    expect(page.locator(f"#claim-{CLAIM}")).to_be_in_viewport()
    page.context.close()


def test_theorems_and_exercises_can_be_linked_to(browser: Browser, html: Path) -> None:
    page = opened(browser, html, "notebooks/bias.html")
    link = page.get_by_role("link", name="Link to this theorem").first
    expect(link).to_have_attribute("href", "#mixed-difference")
    assert page.get_by_role("link", name="Link to this exercise").count() == page.locator(".exercise").count() > 0
    page.context.close()


def test_a_link_to_a_claim_shows_its_card(browser: Browser, html: Path) -> None:
    page = opened(browser, html, "notebooks/bias.html")
    link = page.locator(f"a.claim-link[aria-describedby='card-{CLAIM}']").first
    card = page.locator(f"#card-{CLAIM}")
    expect(card).to_be_hidden()
    page.evaluate("MathJax.startup.promise")
    link.scroll_into_view_if_needed()
    before = page.locator("article").bounding_box()
    link.hover()
    expect(card).to_be_visible()
    expect(card).to_be_in_viewport(ratio=1)
    expect(card).to_contain_text("negatives without replacement")
    expect(card.locator(".math:not(:has(mjx-container))")).to_have_count(0)
    assert page.locator("article").bounding_box() == before  # nothing has moved
    card.hover()  # on the way to its link it stays
    page.wait_for_timeout(400)
    expect(card.get_by_role("link")).to_be_visible()
    page.mouse.move(2, 2)
    expect(card).to_be_hidden()
    page.keyboard.press("Tab")  # the browser shows where the keyboard is
    link.focus()
    expect(card).to_be_visible()
    expect(card.locator(".register-verdict")).to_be_visible()
    assert CLAIM in str(link.get_attribute("aria-label") or link.text_content())
    page.keyboard.press("Escape")
    expect(card).to_be_hidden()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/register.html#claim-{CLAIM}")
    page.context.close()


def test_the_first_touch_shows_the_card_and_the_second_follows_the_link(browser: Browser, html: Path) -> None:
    page = opened(browser, html, "notebooks/bias.html", viewport=PHONE, has_touch=True, color_scheme="dark")
    link = page.locator(f"a.claim-link[aria-describedby='card-{CLAIM}']").first
    link.scroll_into_view_if_needed()
    link.tap()
    expect(page.locator(f"#card-{CLAIM}")).to_be_visible()
    expect(page.locator(f"#card-{CLAIM}")).to_be_in_viewport(ratio=1)
    link.tap()
    page.wait_for_url(f"**/register.html#claim-{CLAIM}")
    page.context.close()


@pytest.mark.parametrize("screen", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_of_a_figure_the_picture_is_shown_that_fits_the_screen(
    browser: Browser, html: Path, screen: dict[str, int]
) -> None:
    page = opened(browser, html, "notebooks/bias.html", viewport=screen)
    place = page.locator(".sumexp-figure .figure-picture").first
    wide, narrow = (place.locator(which) for which in ("svg:not(.narrow)", "svg.narrow"))
    expect(narrow if screen == PHONE else wide).to_be_visible()
    expect(wide if screen == PHONE else narrow).to_be_hidden()
    assert place.evaluate("e => e.scrollWidth <= e.clientWidth")
    page.context.close()


def test_of_speed_tables_with_narrow_columns_alone_need_no_scrolling(browser: Browser, html: Path) -> None:
    page = browser.new_page(viewport=PHONE)
    page.goto((html / "book" / "speed.html").as_uri())
    tables = page.locator("article table").filter(has_not_text="fastest other")
    beyond = tables.evaluate_all("all => all.map(table => table.scrollWidth - table.clientWidth)")
    page.close()
    assert len(beyond) > 8
    assert max(beyond) <= 0


def test_the_code_of_a_figure_is_shown_on_demand(browser: Browser, html: Path) -> None:
    page = opened(browser, html, "notebooks/bias.html")
    folded = page.locator("div.cell > details.hide")
    assert folded.count() > 3
    assert not any(cell.is_visible() for cell in folded.all())
    page.locator(".figure-source a", has_text="this cell").first.click()
    assert [cell.is_visible() for cell in folded.all()].count(True) == 1
    page.get_by_label("Show the code").check()
    assert all(cell.is_visible() for cell in folded.all())
    page.context.close()
