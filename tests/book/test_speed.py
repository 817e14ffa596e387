"""The tables of speeds on a phone."""

from pathlib import Path

from playwright.sync_api import Browser


def test_tables_with_narrow_columns_alone_need_no_scrolling(browser: Browser, html: Path) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto((html / "book" / "speed.html").as_uri())
    tables = page.locator("article table").filter(has_not_text="fastest other")
    beyond = tables.evaluate_all("all => all.map(table => table.scrollWidth - table.clientWidth)")
    page.close()
    assert len(beyond) > 8
    assert max(beyond) <= 0
