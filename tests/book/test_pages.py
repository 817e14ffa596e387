"""The rendered pages in a real browser, opened as files: what a reader sees, in the light, in the dark, on a phone."""

import io
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import Browser, ConsoleMessage, Page

from tests.book.conftest import CHROMIUM

ROOT = Path(__file__).parents[2]
THEMES = ("light", "dark")
PATIENCE = 180_000
"""Milliseconds: a page of hundreds of formulas takes long where two browsers share a slow machine."""
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium here: install Debian's package 'chromium'")


def toc_files(node: Any) -> list[str]:
    """The pages of the table of contents."""
    match node:
        case {"file": str(page), **rest}:
            return [page, *toc_files(rest)]
        case dict():
            return [page for value in node.values() for page in toc_files(value)]
        case list():
            return [page for value in node for page in toc_files(value)]
    return []


TOC = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
PAGES = [TOC["root"], *toc_files(TOC["parts"])]
CHAPTERS = [page for page in PAGES if page.startswith("notebooks/")]


@dataclass
class Visit:
    """What one page did and showed."""

    complaints: list[str] = field(default_factory=list)
    """Console errors and warnings, uncaught errors, requests that failed."""
    requests: list[str] = field(default_factory=list)
    formulas: dict[str, Any] = field(default_factory=dict)
    width: int = 0
    """The page's on a phone."""
    too_wide: list[str] = field(default_factory=list)
    """What a phone cuts off."""
    stops: int = 0
    """What the Tab key should reach, in a chapter."""
    unreached: set[str] = field(default_factory=set)
    """What of it does not."""
    figures: dict[str, dict[str, NDArray[np.float64]]] = field(default_factory=dict)
    """For each theme the pixels of each figure."""
    paper: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    """For each theme the colour of the page beside its text."""


FORMULAS = r"""() => {
    const written = document.createTreeWalker(document.querySelector('article'), NodeFilter.SHOW_TEXT, node =>
        node.parentElement.closest('pre, code, script, style, svg, mjx-container') ? NodeFilter.FILTER_REJECT
                                                                                   : NodeFilter.FILTER_ACCEPT);
    const raw = [];
    while (written.nextNode()) {
        const text = written.currentNode.data;
        if (/\\[([a-zA-Z]|\$\S|\{(glue|ref|numref|cite|prf)/.test(text)) raw.push(text.trim().slice(0, 80));
    }
    const places = [...document.querySelectorAll('article .math')];
    return {
        raw,
        places: places.length,
        untypeset: places.filter(p => !p.querySelector('mjx-container')).map(p => p.textContent.slice(0, 80)),
        faulty: [...document.querySelectorAll('[data-mjx-error], mjx-merror, [data-mml-node="merror"]')]
            .map(e => e.getAttribute('data-mjx-error') || e.textContent),
        unknown: [...document.querySelectorAll('mjx-container [fill="red"], mjx-container [mathcolor="red"]')]
            .map(e => e.textContent),
    };
}"""


# What is wider than the screen and cannot be scrolled to, be it cut off or not.
TOO_WIDE = """() => {
    const scrolls = e => e && (['auto', 'scroll'].includes(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
    const seen = document.querySelectorAll('article :not(svg *, mjx-assistive-mml, mjx-assistive-mml *)');
    return [...seen].filter(e => e.checkVisibility() && e.getBoundingClientRect().right > innerWidth + 1)
        .filter(e => !scrolls(e))
        .map(e => e.outerHTML.slice(0, 80));
}"""


@pytest.fixture(scope="module")
def visit(browser: Browser, html: Path) -> Callable[[str], Visit]:
    """Visit a page once and keep what was seen."""

    @cache
    def visit(name: str) -> Visit:
        seen = Visit()
        page = browser.new_page(viewport=DESKTOP, color_scheme="light")
        page.set_default_timeout(PATIENCE)
        listen(page, seen)
        open_page(page, html / f"{name}.html")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")  # what is folded is typeset then, or when it opens
        seen.formulas = page.evaluate(FORMULAS)
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            page.wait_for_function("theme => document.documentElement.dataset.theme === theme", arg=theme)
            seen.paper[theme] = pixels(page.screenshot(clip={"x": 900, "y": 2, "width": 2, "height": 2}))[0, 0]
            for figure in page.locator("article figure").all():
                shot = pixels(figure.locator("svg").first.screenshot(animations="disabled"))
                seen.figures.setdefault(str(figure.get_attribute("id")), {})[theme] = shot
        if name in CHAPTERS:
            seen.stops, seen.unreached = press_tab(page)
        page.set_viewport_size(PHONE)
        for _ in range(20):  # a page fits its formulas in once the window's size has settled
            seen.width = page.evaluate("document.documentElement.scrollWidth")
            seen.too_wide = page.evaluate(TOO_WIDE)
            if not seen.too_wide:
                break
            page.wait_for_timeout(250)
        page.close()
        return seen

    return visit


def listen(page: Page, seen: Visit) -> None:
    def console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            seen.complaints.append(message.text)

    page.on("console", console)
    page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    page.on("request", lambda request: seen.requests.append(request.url))
    page.on("requestfailed", lambda request: seen.complaints.append(f"{request.url}: {request.failure}"))


def open_page(page: Page, file: Path) -> None:
    page.goto(file.as_uri())
    page.wait_for_function("!document.querySelector('script[src*=mathjax]') || window.MathJax?.startup?.promise")
    page.evaluate("window.MathJax?.startup?.promise")


def press_tab(page: Page) -> tuple[int, set[str]]:
    """How many places of the article the Tab key should reach, and those that it does not."""
    wanted = page.evaluate(
        """() => [...document.querySelectorAll("article :is(a[href], button, summary, input, select, [tabindex='0'])")]
            .filter(e => e.checkVisibility({visibilityProperty: true}))
            .map((e, i) => (e.dataset.tried = String(i)) + ' ' + e.outerHTML.slice(0, 80))"""
    )
    page.evaluate("window.reached = []; addEventListener('focusin', e => reached.push(e.target.dataset.tried))")
    missed = dict(text.split(" ", 1) for text in wanted)
    for _ in range(0, len(wanted) + 200, 50):
        for _ in range(50):
            page.keyboard.press("Tab")
        for number in page.evaluate("reached.splice(0)"):
            missed.pop(number, None)
        if not missed:
            break
    return len(wanted), set(missed.values())


def pixels(png: bytes) -> NDArray[np.float64]:
    """A screenshot as linear light, (height, width, 3), as the web's accessibility guidelines define it."""
    colours = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"), dtype=float) / 255
    return np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)


def luminance(light: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(light @ np.array([0.2126, 0.7152, 0.0722]))


def contrasts(picture: NDArray[np.float64], paper: NDArray[np.float64]) -> NDArray[np.float64]:
    """The contrast of every pixel with the paper: 1 for the same brightness, 21 for black on white."""
    ink, ground = luminance(picture), luminance(paper)
    return np.asarray((np.maximum(ink, ground) + 0.05) / (np.minimum(ink, ground) + 0.05))


@pytest.mark.parametrize("name", PAGES)
def test_every_formula_is_typeset(visit: Callable[[str], Visit], name: str) -> None:
    found = visit(name).formulas
    assert {what: found[what] for what in ("raw", "untypeset", "faulty", "unknown")} == {
        "raw": [],
        "untypeset": [],
        "faulty": [],
        "unknown": [],
    }


@pytest.mark.parametrize("name", PAGES)
def test_a_page_asks_no_other_host_and_nothing_goes_wrong(visit: Callable[[str], Visit], name: str) -> None:
    seen = visit(name)
    assert Counter(url.split(":")[0] for url in seen.requests).keys() <= {"file", "data", "blob"}
    assert seen.complaints == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_phone(visit: Callable[[str], Visit], name: str) -> None:
    seen = visit(name)
    assert seen.too_wide == []
    assert seen.width <= PHONE["width"]


@pytest.mark.parametrize("name", CHAPTERS)
def test_figures_are_visible_in_light_and_dark(visit: Callable[[str], Visit], name: str) -> None:
    seen = visit(name)
    assert luminance(seen.paper["light"]) > 0.9
    assert luminance(seen.paper["dark"]) < 0.05
    for figure, shots in seen.figures.items():
        for theme, shot in shots.items():
            # Its ground is the page's own: the corner, and what most of it shows.
            assert contrasts(shot[0, 0], seen.paper[theme]) < 1.02, (figure, theme, "a box behind it")
            contrast = contrasts(shot, seen.paper[theme])
            assert contrast.max() >= 7, (figure, theme, "letters too faint")
            assert (contrast >= 3).mean() >= 0.005, (figure, theme, "hardly anything drawn")


def test_what_nobody_can_see_would_be_found() -> None:
    white, black = np.ones((4, 4, 3)), np.zeros((4, 4, 3))
    assert contrasts(white, np.ones(3)).max() == 1
    assert contrasts(black, np.ones(3)).min() == 21


@pytest.mark.parametrize("name", CHAPTERS)
def test_everything_can_be_reached_by_keyboard(visit: Callable[[str], Visit], name: str) -> None:
    seen = visit(name)
    assert seen.stops
    assert seen.unreached == set()


def test_the_search_finds_a_word(browser: Browser, html: Path) -> None:
    page = browser.new_page(viewport=DESKTOP)
    page.set_default_timeout(PATIENCE)
    page.goto((html / "search.html").as_uri() + "?q=softmax")
    page.wait_for_selector("#search-results li a")
    page.close()


def test_the_first_page_is_the_introduction(browser: Browser, html: Path) -> None:
    page = browser.new_page(viewport=DESKTOP)
    page.set_default_timeout(PATIENCE)
    page.goto((html / "index.html").as_uri())
    page.wait_for_url(f"**/{TOC['root']}.html")
    page.close()
