"""No page has a fault that axe-core finds, in light and dark, on a desk and on a phone."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.book.test_pages import CHAPTERS, CHROMIUM, DESKTOP, PAGES, PHONE, THEMES, open_page

axe = pytest.importorskip("axe_playwright_python.base", reason="no axe-core here: install axe-playwright-python")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium here: install Debian's package 'chromium'")

API = [page for page in PAGES if page.startswith("book/api/")]
IN_FULL = {PAGES[0], CHAPTERS[0], API[0]}
"""Where the colours of code are looked at, and those of a page of the API: others have them from the same styles."""

# Formulas and figures are pictures with a name of their own; with their many parts axe takes minutes.
RUN = """async ([code, colours]) => {
    const exclude = [['mjx-container'], ['figure svg > *'], ['.register-graph > *'], ...(code ? [] : [['pre']])];
    const rules = {'color-contrast': {enabled: colours}};
    const found = await axe.run({include: [['html']], exclude}, {resultTypes: ['violations'], rules});
    return found.violations.flatMap(v => v.nodes.map(n => `${v.id}: ${n.target} ${n.html.slice(0, 100)}`));
}"""

# What scrolls and is no stop of the Tab key, nor holds one; axe leaves formulas out, this does not.
UNREACHED = """() => [...document.querySelectorAll('body :not(svg *, mjx-container *)')].filter(e => e.checkVisibility()
    && ['auto', 'scroll'].includes(getComputedStyle(e).overflowX) && e.clientWidth && e.scrollWidth > e.clientWidth + 1
    && e.tabIndex < 0 && !e.querySelector('a[href], button, input, select, summary, [tabindex="0"]')
).map(e => 'scrolls, not reached: ' + e.outerHTML.slice(0, 100))"""


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing(browser: Browser, html: Path, name: str) -> None:
    page = browser.new_page(viewport=DESKTOP)
    open_page(page, html / f"{name}.html")
    page.evaluate(axe.AXE_SCRIPT)
    faults: dict[str, list[str]] = {}
    colours = name in IN_FULL or name not in API
    for screen, theme in ((DESKTOP, THEMES[0]), (PHONE, THEMES[1])):
        page.set_viewport_size(screen)  # type: ignore[arg-type]
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        page.wait_for_function("theme => document.documentElement.dataset.theme === theme", arg=theme)
        for _ in range(10):  # a page looks for what scrolls once the size of the window has settled
            page.wait_for_timeout(300)
            faults[f"{screen['width']}, {theme}"] = found = [
                *page.evaluate(RUN, [name in IN_FULL, colours]),
                *page.evaluate(UNREACHED),
            ]
            if not found:
                break
    page.close()
    assert not any(faults.values()), faults


def test_a_fault_would_be_found(browser: Browser) -> None:
    page = browser.new_page()
    page.set_content("<html lang=en><title>x</title><main><h1>x</h1><button></button></main></html>")
    page.evaluate(axe.AXE_SCRIPT)
    assert [fault.split(":")[0] for fault in page.evaluate(RUN, [True, True])] == ["button-name"]
    page.close()
