"""What a reader sees of a page in a real browser, opened as a file: in the light, in the dark, on a phone."""

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import Browser, ConsoleMessage, Page

try:
    from axe_playwright_python import base as axe
except ImportError:  # axe-core finds what is not accessible; without it that is not looked for
    axe = None

ROOT = Path(__file__).parents[2]
THEMES = ("light", "dark")
PATIENCE = 180_000
"""Milliseconds: a page of hundreds of formulas takes long where two browsers share a slow machine."""
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
SETTLED = 600
"""Milliseconds after which a page and its theme have looked for what scrolls in a window of a new size."""
LOW = {"width": 1280, "height": 60}
"""A desk of which little is seen: less to draw anew at each key."""


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
API = [page for page in PAGES if page.startswith("book/api/")]
IN_FULL = {PAGES[0], CHAPTERS[0], API[0]}
"""Where the colours of code are looked at, and those of a page of the API: others have them from the same styles."""


COLOURS = np.arange(256) / 255
LIGHT = np.where(COLOURS <= 0.04045, COLOURS / 12.92, ((COLOURS + 0.055) / 1.055) ** 2.4)
"""How bright each value of a colour is, as the web's accessibility guidelines define it."""


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
    faults: dict[str, list[str]] = field(default_factory=dict)
    """What is not accessible, on a desk in the light and on a phone in the dark."""
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


# What formulas, figures and code are made of: nine elements in ten, which axe looks at at length and in vain. Formulas
# and figures are pictures with a name of their own; the colours of code are looked at on one page of each kind.
FOLD = """code => {
    const drawn = ['mjx-container > *', 'figure svg > :not(title, desc)', '.register-graph > *'];
    const names = code ? [...drawn, 'pre'] : drawn;
    window.folded = [...document.querySelectorAll(names.join())].map(e => [e, [...e.childNodes]]);
    folded.forEach(([e]) => e.replaceChildren());
}"""
UNFOLD = "() => folded.forEach(([e, parts]) => e.replaceChildren(...parts))"

# A tooltip, which what has the focus shows, lies in no landmark. Names that differ from what is written are looked for
# too, which axe leaves out unless it is asked.
RUN = """async only => {
    const exclude = ['mjx-container', '.tooltip', '.register-graph > *'];
    const where = {include: [['html']], exclude: exclude.map(one => [one])};
    const rules = {'label-content-name-mismatch': {enabled: true}, 'color-contrast': {enabled: only !== 'structure'}};
    const runOnly = only === 'colours' ? {runOnly: ['color-contrast', 'link-in-text-block']} : {rules};
    const found = await axe.run(where, {resultTypes: ['violations'], preload: false, ...runOnly});
    return found.violations.flatMap(v => v.nodes.map(n => `${v.id}: ${n.target} ${n.html.slice(0, 100)}`));
}"""

# What scrolls and is no stop of the Tab key, nor holds one; axe leaves formulas out, this does not.
UNREACHED = """() => [...document.querySelectorAll('body :not(svg *, mjx-container *)')].filter(e => e.checkVisibility()
    && ['auto', 'scroll'].includes(getComputedStyle(e).overflowX) && e.clientWidth && e.scrollWidth > e.clientWidth + 1
    && e.tabIndex < 0 && !e.querySelector('a[href], button, input, select, summary, [tabindex="0"]')
).map(e => 'scrolls, not reached: ' + e.outerHTML.slice(0, 100))"""


def visit(browser: Browser, html: Path, name: str) -> Visit:
    """Open a page once and look at all of it."""
    seen = Visit()
    page = browser.new_page(viewport=DESKTOP, color_scheme="light")  # type: ignore[arg-type]
    page.set_default_timeout(PATIENCE)
    listen(page, seen)
    open_page(page, html / f"{name}.html")
    seen.faults["on a desk, light"] = faults(page, name)
    for theme in THEMES:
        turn(page, theme)
        seen.paper[theme] = pixels(page.screenshot(clip={"x": 900, "y": 2, "width": 2, "height": 2}))[0, 0]
        for figure in page.locator("article figure").all():
            shot = pixels(figure.locator("svg").first.screenshot(animations="disabled"))
            seen.figures.setdefault(str(figure.get_attribute("id")), {})[theme] = shot
    if name in CHAPTERS:
        page.set_viewport_size(LOW)  # type: ignore[arg-type]
        page.wait_for_timeout(SETTLED)
        page.evaluate(FOLD, False)
        seen.stops, seen.unreached = press_tab(page)
        page.evaluate(UNFOLD)
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    for _ in range(20):  # a page fits its formulas in once the window's size has settled
        seen.width = page.evaluate("document.documentElement.scrollWidth")
        seen.too_wide = page.evaluate(TOO_WIDE)
        if not seen.too_wide:
            break
        page.wait_for_timeout(250)
    seen.faults["on a phone, dark"] = faults(page, name, again=True)
    # Last, as it is more for all that looks at the page: what is folded is typeset then, or when it opens.
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    seen.formulas = page.evaluate(FORMULAS)
    page.close()
    return seen


def turn(page: Page, theme: str) -> None:
    """Show a page in the light or in the dark."""
    page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    page.wait_for_function("theme => document.documentElement.dataset.theme === theme", arg=theme)


def faults(page: Page, name: str, again: bool = False) -> list[str]:
    """What axe-core finds at this size and in this theme, and what scrolls where no key reaches it.

    ``again``: it looked at the page before, in another theme and at another size; of most pages it looks at what these
    change, colours, and at the structure no more.
    """
    if axe is None:
        return []
    for _ in range(30):  # a page looks for what scrolls once the size of the window has settled
        unreached = page.evaluate(UNREACHED)
        if not unreached:
            break
        page.wait_for_timeout(100)
    only = "structure" if name in API else "colours" if again else "all"
    if name in IN_FULL:
        only = "all"
    elif again and only == "structure":
        return list(unreached)
    page.evaluate(axe.AXE_SCRIPT)
    page.evaluate(FOLD, name not in IN_FULL)
    for _ in range(5):  # while a theme changes its colours may be too faint
        found = page.evaluate(RUN, only)
        if not found:
            break
        page.wait_for_timeout(300)
    page.evaluate(UNFOLD)
    return [*unreached, *found]


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
            page.keyboard.down("Tab")
        for number in page.evaluate("reached.splice(0)"):
            missed.pop(number, None)
        if not missed:
            break
    return len(wanted), set(missed.values())


def pixels(png: bytes) -> NDArray[np.float64]:
    """A screenshot as linear light, (height, width, 3)."""
    return LIGHT[np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))]


def luminance(light: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(light @ np.array([0.2126, 0.7152, 0.0722]))


def contrasts(picture: NDArray[np.float64], paper: NDArray[np.float64]) -> NDArray[np.float64]:
    """The contrast of every pixel with the paper: 1 for the same brightness, 21 for black on white."""
    ink, ground = luminance(picture), luminance(paper)
    return np.asarray((np.maximum(ink, ground) + 0.05) / (np.minimum(ink, ground) + 0.05))
