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

ROOT = Path(__file__).parents[3]
THEMES = ("light", "dark")
PATIENCE = 180_000
"""Milliseconds: a page of hundreds of formulas takes long where two browsers share a slow machine."""
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


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
ERRATA = [page for page in PAGES if page.startswith("book/errata/")]
JOINED = {pages[0]: pages[1:] for pages in (API[1:], ERRATA)}
"""Pages that are looked at as one: they differ in their text alone, and most of a visit is spent on the rest."""


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
    faults: dict[str, list[str]] = field(default_factory=dict)
    """What is not accessible, on a desk in the light and on a phone in the dark."""


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


# Puts the text of pages of the same folder below that of this one.
JOIN = """pages => {
    const article = document.querySelector('article');
    for (const page of pages) {
        const other = new DOMParser().parseFromString(page, 'text/html').querySelector('article');
        article.append(...document.adoptNode(other).childNodes);
    }
    return pages.length && sumexpMaths.typeset(article).then(() => pages.length);
}"""


# What is wider than the screen and cannot be scrolled to, be it cut off or not.
TOO_WIDE = """() => {
    const scrolls = e => e && (['auto', 'scroll'].includes(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
    const seen = document.querySelectorAll('article :not(svg *, mjx-assistive-mml, mjx-assistive-mml *)');
    return [...seen].filter(e => e.checkVisibility() && e.getBoundingClientRect().right > innerWidth + 1)
        .filter(e => !scrolls(e))
        .map(e => e.outerHTML.slice(0, 80));
}"""


# Figures without a picture of their own for a phone, or wider than it, and what a hand moves that is higher.
FIGURES = """() => [
    ...[...document.querySelectorAll('.sumexp-figure .figure-picture')]
        .filter(e => !e.querySelector('svg.narrow') || e.scrollWidth > e.clientWidth),
    ...[...document.querySelectorAll('.by-hand')].filter(e => e.offsetHeight > innerHeight),
].map(e => e.outerHTML.slice(0, 80))"""


# What formulas, figures and code are made of: nine elements in ten, which axe looks at at length and in vain. Formulas
# and figures are pictures with a name of their own; code and signatures are looked at on
# one page of each kind. Of what is hidden axe asks for roles and names alone. To have it exclude elements is no help:
# of every other one it asks whether that lies in one of them.
FOLD = """code => {
    const drawn = ['mjx-container', 'figure svg > :not(title, desc)'];
    const hidden = ['.register-claim:not([open]) > :not(summary)', '.claim-card[hidden]'];
    const names = [...drawn, ...hidden, ...(code ? ['pre', 'dt.sig'] : [])];
    const told = '[id], [role], [aria-hidden], [accesskey]';
    const stays = (e, part) => e.matches(hidden.join()) && (part.matches?.(told) || part.querySelector?.(told));
    window.folded = [...document.querySelectorAll(names.join())].map(e => [e, [...e.childNodes]]);
    folded.forEach(([e, parts]) => e.replaceChildren(...parts.filter(part => stays(e, part))));
}"""
UNFOLD = "() => folded.forEach(([e, parts]) => e.replaceChildren(...parts))"

# Of texts of the same colour, size and weight on the same grounds one is looked at: a contrast depends on no more.
ALIKE = """() => {
    const grounds = new Map([[null, '']]), seen = new Set();
    const ground = e => {
        if (!grounds.has(e)) {
            const {backgroundColor, backgroundImage, opacity, position} = getComputedStyle(e);
            const own = [backgroundColor, backgroundImage, opacity, position].join();
            grounds.set(e, ground(e.parentElement) + (own === 'rgba(0, 0, 0, 0),none,1,static' ? '' : ' ' + own));
        }
        return grounds.get(e);
    };
    for (const e of document.querySelectorAll('body :not(svg *, mjx-container *)')) {
        e.removeAttribute('data-first-of-its-colours');
        const written = [...e.childNodes].some(n => n.nodeType === Node.TEXT_NODE && n.data.trim());
        if (!written || !e.checkVisibility()) continue;
        const {color, fontSize, fontWeight, textShadow} = getComputedStyle(e);
        const key = [color, fontSize, fontWeight, textShadow, ground(e)].join();
        e.toggleAttribute('data-first-of-its-colours', !seen.has(key));
        seen.add(key);
    }
    axe.configure({rules: [{id: 'color-contrast', selector: '[data-first-of-its-colours]'}]});
}"""

# A tooltip, which what has the focus shows, lies in no landmark. Names that differ from what is written are looked for
# too, which axe leaves out unless it is asked.
RUN = """async only => {
    const where = {include: [['html']], exclude: [['.tooltip']]};
    const rules = {'label-content-name-mismatch': {enabled: true}};
    const options = {resultTypes: ['violations'], preload: false, ...(only ? {runOnly: only} : {rules})};
    const found = await axe.run(where, options);
    return found.violations.flatMap(v => v.nodes.map(n => `${v.id}: ${n.target} ${n.html.slice(0, 100)}`));
}"""
COLOURS_ALONE = ["color-contrast", "link-in-text-block"]

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
    seen.faults["on a desk, light"] = faults(page, name)  # of others no more than the text differs
    page.evaluate(JOIN, [(html / f"{other}.html").read_text("utf-8") for other in JOINED.get(name, ())])
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    seen.too_wide = awaited(page, TOO_WIDE)  # a page fits its formulas in once the window's size has settled
    if name in CHAPTERS:
        seen.too_wide += awaited(page, FIGURES)
    seen.width = page.evaluate("document.documentElement.scrollWidth")
    if name in IN_FULL or name not in (*API, *CHAPTERS):  # others' colours are of the same styles
        turn(page, "dark")
        seen.faults["on a phone, dark"] = faults(page, name, None if name in IN_FULL else COLOURS_ALONE)
    # Last, as it is more for all that looks at the page: what is folded is typeset then, or when it opens.
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    seen.formulas = page.evaluate(FORMULAS)
    page.close()
    return seen


def turn(page: Page, theme: str) -> None:
    """Show a page in the light or in the dark."""
    page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    page.wait_for_function("theme => document.documentElement.dataset.theme === theme", arg=theme)


def faults(page: Page, name: str, only: list[str] | None = None) -> list[str]:
    """What axe-core finds by all of its rules or by these, and what scrolls where no key reaches it."""
    unreached = awaited(page, UNREACHED)
    if axe is None:
        return unreached
    if not page.evaluate("Boolean(window.axe)"):
        page.evaluate(axe.AXE_SCRIPT)
    page.evaluate(FOLD, name not in IN_FULL)
    page.evaluate(ALIKE)
    violations = awaited(page, RUN, only, times=5)
    page.evaluate(UNFOLD)
    return [*unreached, *violations]


def awaited(page: Page, script: str, argument: object = None, times: int = 30) -> list[str]:
    """What a script finds wrong, so many times, for as long as a page or its theme may still be changing."""
    for time in range(times):
        violations = list(page.evaluate(script, argument))
        if not violations:
            break
        page.wait_for_timeout(3000 / times if time else 0)
    return violations


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


def pixels(png: bytes) -> NDArray[np.float64]:
    """A screenshot as linear light, (height, width, 3)."""
    return np.asarray(LIGHT[np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))])
