"""What pages load: little enough, and all that they show."""

import json
import re
import runpy
from base64 import b64decode
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from fontTools.ttLib import TTFont
from playwright.sync_api import Browser, Page, Request

from tests.builds.book.browsing import CHAPTERS, DESKTOP, PHONE
from tests.builds.book.conftest import CHROMIUM

EXTENSIONS = Path(__file__).parents[3] / "book" / "_ext"
LIGHT = 3e6
"""Bytes, uncompressed, that a chapter and all that it loads may have."""

needs_browser = pytest.mark.skipif(not CHROMIUM, reason="no Chromium here: install Debian's package 'chromium'")


@pytest.fixture(scope="module")
def assets() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as path:
        path.syspath_prepend(str(EXTENSIONS))
        return runpy.run_path(str(EXTENSIONS / "sumexp_files.py"))


def test_a_font_keeps_the_letters_in_use(assets: dict[str, Any]) -> None:
    font = '(0,H.AddPaths)(V.normal,{33:"a",119886:"b",120172:"c"},{1:"\\"}),(0,H.AddPaths)(V.fraktur,{33:"a"},{})'
    assert assets["trimmed"](font) == '(0,H.AddPaths)(V.normal,{33:"a",119886:"b",},{1:"\\"}),0'


def test_every_icon_of_a_page_is_in_the_font(html: Path) -> None:
    css = (html / "_static" / "icons.css").read_text()
    font = TTFont(BytesIO(b64decode(re.findall(r"base64,([^)]+)", css)[0])))
    theme = (html / "_static" / "styles" / "pydata-sphinx-theme.css").read_text("utf-8")
    names = {
        name
        for page in html.rglob("*.html")
        for icon in re.findall(r'class="[^"]*\bfas? ?[^"]*|class="[^"]*\bfa-solid[^"]*', page.read_text("utf-8"))
        for name in re.findall(r"fa-([a-z-]+)", icon)
    } - {"solid", "lg"}
    assert names
    for name in names:
        (code,) = set(re.findall(rf'\.fa-{name}:{{1,2}}before[^{{]*{{[^}}]*content:"\\(\w+)"', theme))
        assert int(code, 16) in font.getBestCmap(), name


LOADED = """() => {
    const shapeless = '[data-mml-node]:not([data-mml-node="mtext"]) > text';
    return {
        shift: window.shift,
        hidden: window.hiddenUntilSet,
        fallback: [...document.querySelectorAll(`mjx-container ${shapeless}`)].map(e => e.textContent),
    };
}"""
# A page waits for its formulas, but not for ever; a machine under load may need longer than that.
WATCHED = """
    const patience = 4000, later = window.setTimeout;
    window.setTimeout = (then, wait, ...rest) => wait === patience ? 0 : later(then, wait, ...rest);
    window.shift = 0;
    new PerformanceObserver(list => list.getEntries().forEach(e => { window.shift += e.value; }))
        .observe({type: 'layout-shift', buffered: true});
    new MutationObserver((_, watch) => {
        const root = document.documentElement;
        if (!root || !document.querySelector('article')) return;
        if (root.classList.contains('maths-awaited')) return;
        const seen = [...document.querySelectorAll('article .math')].filter(e => e.checkVisibility())
            .filter(e => e.getBoundingClientRect().top < innerHeight);
        window.hiddenUntilSet = seen.every(e => e.querySelector('mjx-container'));
        watch.disconnect();
    }).observe(document, {subtree: true, attributes: true, childList: true});
"""


@needs_browser
@pytest.mark.parametrize("screen", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_heaviest_chapter_is_light_and_nothing_in_it_moves(browser: Browser, html: Path, screen: Any) -> None:
    page: Page = browser.new_page(viewport=screen)
    weights: dict[str, int] = {}

    def weigh(request: Request) -> None:
        file = Path(re.sub(r"[?#].*", "", request.url.removeprefix("file://")))
        weights[str(file)] = file.stat().st_size if file.is_file() else 0

    page.on("request", weigh)
    page.add_init_script(WATCHED)
    page.goto(max((html / f"{name}.html" for name in CHAPTERS), key=lambda file: file.stat().st_size).as_uri())
    page.wait_for_function("window.MathJax?.startup?.promise")
    page.evaluate("MathJax.startup.promise")
    seen = page.evaluate(LOADED)
    page.close()
    assert sum(weights.values()) < LIGHT, sorted(weights.items(), key=lambda item: -item[1])[:8]
    assert seen["shift"] < 0.01
    assert seen["hidden"] is True  # no formula was typeset before the reader's eyes
    assert seen["fallback"] == []


def test_a_chapter_says_once_at_its_foot_what_it_was_executed_with(html: Path) -> None:
    executed = json.loads((html.parent / "executions.json").read_text("utf-8"))["tables"]["origin"]
    page = (html / "notebooks" / "bias.html").read_text("utf-8")
    (key,) = re.findall(r"Executed with key (\w{12}) · profile smoke · device cpu · seed 0", page)
    assert key in {row["key"][:12] for row in executed}
