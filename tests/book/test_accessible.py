"""No page has a fault that axe-core finds, in light and dark, on a desk and on a phone."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.book.test_pages import CHROMIUM, DESKTOP, OPTIONS, PAGES, PHONE, THEMES

axe = pytest.importorskip("axe_playwright_python.base", reason="no axe-core here: install axe-playwright-python")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium here: install Debian's package 'chromium'")

# Formulas and figures are pictures with a name of their own; with their many parts axe takes minutes.
RUN = """async part => {
    const where = {include: [[part]], exclude: [['mjx-container'], ['figure svg > *'], ['.register-graph > *']]};
    const found = await axe.run(where, {resultTypes: ['violations']});
    return found.violations.flatMap(v => v.nodes.map(n => `${v.id}: ${n.target} ${n.html.slice(0, 100)}`));
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield browser
        browser.close()


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing(browser: Browser, html: Path, name: str) -> None:
    page = browser.new_page(viewport=DESKTOP)
    page.goto((html / f"{name}.html").as_uri())
    page.wait_for_function("!document.documentElement.classList.contains('maths-awaited')")
    page.evaluate(axe.AXE_SCRIPT)
    faults: dict[str, list[str]] = {}
    for screen, theme in ((DESKTOP, THEMES[0]), (PHONE, THEMES[1])):
        page.set_viewport_size(screen)  # type: ignore[arg-type]
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        page.wait_for_function("theme => document.documentElement.dataset.theme === theme", arg=theme)
        page.wait_for_timeout(300)  # what scrolls is looked for once the size of the window has settled
        faults[f"{screen['width']}, {theme}"] = page.evaluate(RUN, "html")
    page.close()
    assert not any(faults.values()), faults


def test_a_fault_would_be_found(browser: Browser) -> None:
    page = browser.new_page()
    page.set_content("<html lang=en><title>x</title><main><h1>x</h1><button></button></main></html>")
    page.evaluate(axe.AXE_SCRIPT)
    assert [fault.split(":")[0] for fault in page.evaluate(RUN, "html")] == ["button-name"]
    page.close()
