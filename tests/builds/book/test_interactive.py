"""Figures with sliders, in a real browser: they draw what the package computes; without scripts, the static one."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from claimbook.authoring import interactive
from sumexp.chapters.sliders import failures, nce, negatives
from tests.builds.book.browsing import CHAPTERS, DESKTOP, PHONE, pixels
from tests.builds.book.conftest import CHROMIUM

STATIC = Path(__file__).parents[3] / "book" / "_static"
needs_browser = pytest.mark.skipif(not CHROMIUM, reason="no Chromium here: install Debian's package 'chromium'")

FIGURES = {
    "consistent-at-any-m": "negatives",
    "where-sampled-losses-fail": "ranking",
    "nce-bounds": "nce",
    "sampled-softmax-by-draws": "expectations",
}
LIBRARY = {
    "LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}
"""The files of uPlot 1.6.32 as npm has them: `npm pack uplot@1.6.32`, package/LICENSE and package/dist."""

PICTURES = "figure => [...figure.querySelectorAll('canvas')].map(canvas => canvas.toDataURL())"


def test_the_library_is_as_published() -> None:
    digests = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in (STATIC / "uplot").iterdir()}
    assert digests == LIBRARY


def opened(browser: Browser, html: Path, name: str, lacking: str = "", **options: Any) -> tuple[Page, Locator]:
    """The page of a figure, whose formulas are not typeset: most of what a page takes, and no part of the figure."""
    page = browser.new_context(**{"viewport": DESKTOP} | options).new_page()
    for unwanted in filter(None, ("**/mathjax/*", lacking)):
        page.route(unwanted, lambda route: route.abort())
    page.goto((html / f"notebooks/{FIGURES[name]}.html").as_uri())
    return page, page.locator(f"#by-hand-{name}")


@pytest.fixture(scope="module", params=FIGURES)
def name(request: pytest.FixtureRequest) -> str:
    """One figure after another: the tests of one share what is opened for it."""
    return str(request.param)


@pytest.fixture(scope="module")
def on_a_desk(browser: Browser, html: Path, name: str) -> Iterator[tuple[Page, Locator]]:
    page, figure = opened(browser, html, name)
    yield page, figure
    page.context.close()


@pytest.fixture(scope="module")
def before_it_comes(browser: Browser, html: Path, name: str) -> Iterator[tuple[Page, Locator]]:
    """The page while the script of such figures has not arrived: its layout is that of styles alone."""
    page, figure = opened(browser, html, name, "**/interactive.js*", has_touch=True)
    yield page, figure
    page.context.close()


def shown(figure: Locator) -> tuple[list[str], str]:
    """The charts as pictures, and what stands under the controls."""
    return figure.evaluate(PICTURES), figure.locator(".by-hand-lines").inner_text()


@needs_browser
def test_a_key_changes_the_curves_and_what_is_said_of_them(on_a_desk: tuple[Page, Locator]) -> None:
    complaints: list[str] = []
    page, figure = on_a_desk
    page.on("console", lambda entry: complaints.append(entry.text) if entry.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    expect(figure).to_be_visible()
    pictures, text = shown(figure)
    for number, field in enumerate(figure.locator("input, select").all()):
        expect(field).to_have_accessible_name(field.locator("xpath=../label").inner_text().strip())
        field.focus()
        before = field.evaluate("field => field.value"), field.get_attribute("aria-valuetext")
        page.keyboard.press("ArrowRight" if number == 0 else "ArrowDown")
        if field.evaluate("field => field.value") == before[0]:
            page.keyboard.press("ArrowUp")  # it stood at its end
        assert field.evaluate("field => field.value") != before[0]
        if field.get_attribute("type") == "range":
            expect(field.locator("xpath=../output")).to_have_text(str(field.get_attribute("aria-valuetext")))
            assert field.get_attribute("aria-valuetext") != before[1]
        now_pictures, now_text = shown(figure)
        assert now_pictures != pictures, field
        assert now_text != text or number > 0, field  # a list may be of what is drawn only
        pictures, text = now_pictures, now_text
    assert figure.locator("[aria-live=polite]").count() == 1
    assert complaints == []


@needs_browser
@pytest.mark.parametrize("screen", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_it_fits_and_nothing_moves_when_it_comes(
    browser: Browser, html: Path, name: str, before_it_comes: tuple[Page, Locator], screen: Any
) -> None:
    page, figure = opened(browser, html, name, viewport=screen, has_touch=True)
    expect(figure.locator("canvas").first).to_be_visible()
    drawn = figure.bounding_box()
    for canvas in figure.locator("canvas").all():
        box, place = canvas.bounding_box(), canvas.locator("xpath=../../..").bounding_box()
        assert box
        assert place
        assert box["width"] <= place["width"] + 1
        assert box["height"] <= place["height"] + 1
        assert box["width"] > 200
    page.context.close()
    page, figure = before_it_comes
    page.set_viewport_size(screen)
    expect(figure.locator("canvas")).to_have_count(0)
    before = figure.bounding_box()
    assert before
    assert drawn
    assert (before["width"], before["height"]) == (drawn["width"], drawn["height"])


@needs_browser
def test_on_paper_and_without_scripts_there_is_the_static_figure(
    browser: Browser, html: Path, name: str, on_a_desk: tuple[Page, Locator]
) -> None:
    page, figure = on_a_desk
    expect(figure).to_be_visible()
    page.emulate_media(media="print")
    expect(figure).to_be_hidden()
    expect(page.locator(f"#fig-{name} svg").first).to_be_visible()
    page.emulate_media(media="screen")
    page, figure = opened(browser, html, name, java_script_enabled=False)
    expect(figure).to_be_hidden()
    expect(page.locator(f"#fig-{name} svg").first).to_be_visible()
    page.context.close()


@needs_browser
def test_the_colours_follow_the_theme(browser: Browser, html: Path) -> None:
    page, figure = opened(browser, html, "nce-bounds", color_scheme="light")
    expect(figure.locator("canvas").first).to_be_visible()
    figure.scroll_into_view_if_needed()
    light = pixels(figure.locator("canvas").first.screenshot())
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("document.documentElement.dataset.theme === 'dark'")
    dark = pixels(figure.locator("canvas").first.screenshot())
    assert light.max() > 0.9
    assert light.mean() > 0.7
    assert dark.mean() < 0.2
    assert dark.max() > 0.5  # letters
    page.context.close()


def test_only_pages_with_such_a_figure_load_the_library(html: Path) -> None:
    loading = {name for name in CHAPTERS if "uPlot" in (html / f"{name}.html").read_text("utf-8")}
    assert loading == {f"notebooks/{chapter}" for chapter in FIGURES.values()}
    for page in (html / "book").rglob("*.html"):
        assert 'src="../_static/uplot' not in page.read_text("utf-8")


def data(html: Path, name: str) -> dict[str, Any]:
    """The table of a figure as its page has it."""
    page = (html / f"notebooks/{FIGURES[name]}.html").read_text("utf-8")
    page = page[page.index(f'<div id="by-hand-{name}"') :]
    start = page.index('<script type="application/json">') + len('<script type="application/json">')
    table: dict[str, Any] = json.loads(page[start : page.index("</script>", start)])
    return table


@pytest.mark.parametrize(
    ("name", "figure"),
    [
        ("consistent-at-any-m", negatives.consistency),
        ("where-sampled-losses-fail", failures.failures),
        ("nce-bounds", nce.bounds),
    ],
)
def test_the_page_has_the_numbers_of_the_package(html: Path, name: str, figure: Callable[[Any], Any]) -> None:
    assert data(html, name) == json.loads(json.dumps(interactive.table(figure(interactive))))
