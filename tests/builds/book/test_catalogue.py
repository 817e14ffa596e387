"""The first page's figure that a reader sets: its minima are the package's, its controls work everywhere."""

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
import torch
from numpy.testing import assert_allclose
from playwright.sync_api import Browser, Page, expect

from sumexp.negatives import consistency
from sumexp.negatives.schemes import Weights
from sumexp.samplers import Hits
from tests.builds.book.browsing import DESKTOP, PATIENCE, PHONE
from tests.builds.book.conftest import CHROMIUM

ROOT = Path(__file__).parents[3]
PAGE = "book/intro.html"
SETTINGS = [
    ([0.5, 0.3, 0.2], [0.6, 0.3, 0.1]),
    ([0.2, 0.3, 0.5], [0.2, 0.3, 0.5]),
    ([0.98, 0.01, 0.01], [1 / 201, 100 / 201, 100 / 201]),
]
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium here: install Debian's package 'chromium'")


@pytest.fixture(scope="module")
def script(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    page.add_script_tag(path=ROOT / "book/_static/catalogue.js")
    yield page
    page.close()


@pytest.mark.parametrize(("wanted", "drawn"), SETTINGS)
@pytest.mark.parametrize(("correction", "hits"), list(product(("none", "importance", "relative"), ("keep", "mask"))))
def test_the_minimum_is_that_of_the_package(
    script: Page, wanted: list[float], drawn: list[float], correction: str, hits: Hits
) -> None:
    """The page sums over all draws; the package integrates. Uncorrected logits are those of weights 1."""
    P, log_q = torch.tensor(wanted).double(), torch.tensor(drawn).double().log()
    P, log_q = P / P.sum(), log_q.log_softmax(0)
    for m in (1, 4, 128):
        zero = torch.zeros_like(log_q)
        weights: Weights = "importance" if correction == "importance" else "relative"
        parts = (zero, zero) if correction == "none" else consistency.factors(weights, log_q, m, hits=hits)
        minimum = consistency.minimiser(consistency.multiset_losses(log_q, m, parts, hits), P)
        setting = [P.tolist(), log_q.exp().tolist(), m, correction, hits]
        served = script.evaluate("setting => sumexpCatalogue.served(...setting)", setting)
        assert_allclose(served, minimum.softmax(0), atol=1e-8)
        if (correction, hits) == ("relative", "keep"):
            assert_allclose(served, P, atol=1e-9)


def test_every_control_works_by_keys_and_says_what_it_does(browser: Browser, html: Path) -> None:
    page = browser.new_page(viewport=DESKTOP)  # type: ignore[arg-type]
    page.set_default_timeout(PATIENCE)
    page.goto((html / PAGE).as_uri())
    figure = page.locator("#catalogue")
    status = figure.locator("[aria-live=polite]")
    expect(status).to_contain_text("milk 22 %, tea 26 %, saffron 52 %")
    expect(page.locator(".sumexp-figure").first).to_be_hidden()
    figure.get_by_label("subtracted from").select_option("importance")  # else the number of draws changes nothing
    for field in figure.locator("input, select").all():
        expect(field).to_have_accessible_name(re.compile(r"[A-Za-z]"))
        field.focus()
        before, reading = status.inner_text(), field.get_attribute("aria-valuetext")
        for key in ["ArrowUp"] * 5 if field.get_attribute("type") == "range" else ["ArrowDown"]:
            page.keyboard.press(key)
        if field.get_attribute("type") == "range":
            assert field.get_attribute("aria-valuetext") != reading
            expect(field.locator("xpath=../output")).to_have_text(str(field.get_attribute("aria-valuetext")))
        assert status.inner_text() != before, field
    figure.get_by_label("subtracted from").select_option("relative")
    figure.get_by_label("accidental hits").select_option("keep")
    expect(status).to_contain_text("exactly what the query wants")
    page.close()


def test_it_fits_a_phone_and_paper_has_the_static_figure(browser: Browser, html: Path) -> None:
    page = browser.new_page(viewport=PHONE)  # type: ignore[arg-type]
    page.goto((html / PAGE).as_uri())
    figure, static = page.locator("#catalogue"), page.locator(".sumexp-figure").first
    assert figure.evaluate("e => e.scrollWidth <= e.clientWidth && e.offsetHeight <= innerHeight")
    page.emulate_media(media="print")
    expect(figure).to_be_hidden()
    expect(static).to_be_visible()
    page.close()
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((html / PAGE).as_uri())
    expect(page.locator("#catalogue")).to_be_hidden()
    expect(page.locator(".sumexp-figure").first).to_be_visible()
    context.close()
