"""The pages as one document, and that document on paper: on pages written by hand, as the theme writes them."""

import re
import runpy
import shutil
import sys
from pathlib import Path

import pytest
from bs4 import BeautifulSoup, Tag

from sumexp.companion import CompanionError
from sumexp.companion.pipeline import pdf, print_html

ROOT = Path(__file__).parents[3]
CHROMIUM = any(map(shutil.which, pdf.BROWSERS))
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="no Chromium here: install Debian's package 'chromium'")

CONFIG = "title: Two and two\nauthor: A. Writer\ncopyright: '2026'\n"
TOC = """root: book/intro
parts:
  - caption: Chapters
    chapters: [{file: notebooks/one}, {file: notebooks/two}]
  - caption: Reference
    chapters:
      - {file: book/errata, sections: [{file: book/errata/one}]}
      - {file: book/api, sections: [{file: book/api/one}]}
"""


def page(name: str, title: str, body: str) -> str:
    return (
        f'<html><body><nav><a href="#">Menu</a></nav><article class="bd-article"><section id="{name}">'
        f'<h1>{title}<a class="headerlink" href="#{name}">#</a></h1>{body}</section></article><footer>Foot</footer>'
        "</body></html>"
    )


TO_TWO = '<p><a href="../notebooks/two.html#sum">Two</a> and <a href="api.html">x</a></p>'
TO_ONE = '<a href="one.html">1</a>'
WORDS = "in a title of so many words that it takes two lines"
SECTION = '<section id="sum"><h2>{}.1. Sum</h2>{}</section>'
LONG = "<p>Words that fill a sheet of paper, line by line.</p>" * 60
DRAWN = '<svg version="1.1"><defs><path id="m"/></defs><use href="#m" clip-path="url(#m)"/></svg>'
PAGES = {
    "book/intro": page("intro", "Intro", TO_TWO),
    "notebooks/one": page("one", "1. One", DRAWN + LONG + SECTION.format(1, '<p id="p">1</p>')),
    "notebooks/two": page("two", f"2. Two “é” {WORDS}", DRAWN + SECTION.format(2, TO_ONE)),
    "book/errata": page("errata", "Errata", '<p><a href="https://example.org/#x">there</a></p>'),
    "book/errata/one": page("one", "Errata: one", '<p><a href="../../notebooks/one.html#p">1</a></p>'),
    "book/api": page("api", "The package", ""),
    "book/api/one": page("one", "one", ""),
}  # fmt: skip


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose pages are rendered."""
    monkeypatch.chdir(tmp_path)
    for name, text in PAGES.items():
        file = tmp_path / "build/html" / f"{name}.html"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    (tmp_path / "build/html/index.html").write_text("", "utf-8")
    (tmp_path / "build/html/_static").mkdir()
    shutil.copy2(ROOT / "book/_static/print.css", tmp_path / "build/html/_static")
    (tmp_path / "_config.yml").write_text(CONFIG, "utf-8")
    (tmp_path / "_toc.yml").write_text(TOC, "utf-8")
    return tmp_path


def text_of(html: str) -> Tag:
    return print_html.article(f'<article class="bd-article">{html}</article>', "page", [])


def outline(made: bytes) -> dict[str, int]:
    """The bookmarks of a PDF with the object of the page that each leads to."""
    found = re.findall(rb"/Title (\((?:[^()\\]|\\.)*\)|<[0-9A-F]+>)\n/Dest \[(\d+) 0 R", made, re.DOTALL)
    return {bookmark(title): int(number) for title, number in found}


def bookmark(title: bytes) -> str:
    if title.startswith(b"<"):
        return bytes.fromhex(title[1:-1].decode()).decode("utf-16")
    return re.sub(r"\\(.)", r"\1", title[1:-1].decode("latin-1"))


def test_what_describes_the_package_is_no_part_of_the_printed_book() -> None:
    contents = {
        "root": "book/intro",
        "parts": [
            {"caption": "A", "chapters": [{"file": "a", "sections": [{"file": "a/b"}]}]},
            {"caption": "B", "chapters": [{"file": "book/api", "sections": [{"file": "book/api/x"}]}, {"file": "c"}]},
        ],
    }
    assert print_html.parts(contents) == [
        print_html.Part("", ("book/intro",)),
        print_html.Part("A", ("a", "a/b")),
        print_html.Part("B", ("c",)),
    ]
    assert print_html.parts({"root": "i", "chapters": [{"file": "a"}]}) == [
        print_html.Part("", ("i",)),
        print_html.Part("", ("a",)),
    ]


@pytest.mark.parametrize(
    "href, target",
    [
        ("#x", "#notebooks/one:x"),
        ("two.html", "#notebooks/two"),
        ("two.html#x", "#notebooks/two:x"),
        ("../book/intro.html#x", "#book/intro:x"),
        ("https://example.org/two.html#x", "https://example.org/two.html#x"),
        ("../_modules/sumexp/bias.html#f", None),
        ("../two.html", None),
    ],
)
def test_links_lead_within_the_document(href: str, target: str | None) -> None:
    assert print_html.resolved(href, "notebooks/one", ["notebooks/one", "notebooks/two", "book/intro"]) == target


def test_ids_of_two_pages_do_not_meet_and_what_refers_to_them_follows() -> None:
    text = print_html.anchored(
        text_of(
            '<svg aria-labelledby="t u" viewBox="0 0 1 1"><title id="t">A</title><clippath id="c"></clippath>'
            '<path clip-path="url(#c)" style="fill: url(#c)"></path><use href="#t"></use><use href="#mark-holds"></use>'
            '<image href="data:image/png;base64,AA#"></image></svg><a href="#t">in</a> <a href="gone.html">out</a>'
        ),
        "p/q",
        ["p/q"],
    )
    assert str(text) == (
        '<article class="bd-article" id="p/q"><svg aria-labelledby="p/q:t p/q:u" viewbox="0 0 1 1">'
        '<title id="p/q:t">A</title><clippath id="p/q:c"></clippath>'
        '<path clip-path="url(#p/q:c)" style="fill: url(#p/q:c)"></path><use href="#p/q:t"></use>'
        '<use href="#mark-holds"></use><image href="data:image/png;base64,AA#"/></svg>'
        '<a href="#p/q:t">in</a> out</article>'
    )
    assert print_html.dangling([text]) == []
    other = print_html.anchored(text_of('<a href="q.html#t">1</a><a href="q.html#gone">2</a>'), "p/r", ["p/q", "p/r"])
    assert print_html.dangling([text, other]) == ["#p/q:gone"]


def test_what_pictures_are_drawn_of_stays_as_it_was_but_for_its_ids(book: Path) -> None:
    """Not even read: two pages' drawings, which have the same ids."""
    made = pdf.document()
    for name in ("notebooks/one", "notebooks/two"):
        drawn = f'<defs><path id="{name}:m"/></defs><use href="#{name}:m" clip-path="url(#{name}:m)"/>'
        assert made.count(f'<svg version="1.1">{drawn}</svg>') == 1
    assert "\ue000" not in made


def test_what_is_for_a_screen_is_taken_away_and_what_is_folded_is_opened() -> None:
    text = print_html.for_paper(
        text_of(
            '<h1>T<a class="headerlink" href="#t">#</a></h1><script>1</script>'
            '<div class="cell" id="cell-f"><details class="admonition hide above-input"><pre>code</pre></details></div>'
            '<div class="cell"><details class="hide"><pre>code</pre></details><div class="cell_output">42</div></div>'
            '<details class="solution" id="s"><summary>Solution</summary><p tabindex="0">Because.</p></details>'
            '<p class="figure-source">Drawn in <a href="#cell-f">this cell</a> from <code>f</code>.'
            '<a href="f.csv" download>Data</a></p>'
            '<a aria-describedby="card-x">claim</a><div class="claim-cards"><div id="card-x">card</div></div>'
        )
    )
    assert str(text) == (
        '<article class="bd-article"><h1>T</h1><div class="cell"><div class="cell_output">42</div></div>'
        '<div class="solution" id="s"><p class="summary">Solution</p><p>Because.</p></div>'
        '<p class="figure-source">Drawn from <code>f</code>.</p><a>claim</a></article>'
    )


def test_an_entry_of_the_register_keeps_its_statement_and_verdict() -> None:
    text = print_html.for_paper(
        text_of(
            '<section><h2>Graph</h2><details class="register-chapter"><svg></svg></details></section>'
            '<details class="register-claim"><summary><code>a-b</code> holds</summary><div id="claim-a-b">'
            '<p class="paper-says">One.</p><p class="corrected">Two.</p><p class="note">Why.</p>'
            '<p class="about">Tests</p></div></details>'
        )
    )
    assert text.get_text("|", strip=True) == "a-b|holds|One.|Two."


def test_headings_stand_below_their_part() -> None:
    text = text_of('<section id="a"><h1>A</h1><section id="b"><h2>B <em>b</em></h2><h3>C</h3></section></section>')
    text = print_html.anchored(print_html.lowered(text), "p", ["p"])
    assert [tag.name for tag in text.select("h2, h3, h4")] == ["h2", "h3", "h4"]
    assert print_html.headings(text) == [print_html.Heading(2, "p", "A"), print_html.Heading(3, "p:b", "B <em>b</em>")]


def test_running_heads_quote_what_titles_hold() -> None:
    style = print_html.running_heads({"a": 'Say "two" \\ “é”', "b": "Book"}, "Book")
    assert '@top-left { content: "Book"; } @top-right { content: "Say \\"two\\" \\\\ “é”"; }' in style
    assert '@top-right { content: ""; } }\narticle[id="b"]' in style  # not the same words twice


def test_a_document_holds_all_pages_in_their_order(book: Path) -> None:
    document = BeautifulSoup(pdf.document(), "html.parser")
    assert [text["id"] for text in document.select("article")] == list(PAGES)[:5]
    assert [tag.get_text() for tag in document.select("h1, h2, h3")] == [
        "Intro", "Chapters", "1. One", "1.1. Sum", f"2. Two “é” {WORDS}", "2.1. Sum", "Reference", "Errata",
        "Errata: one",
    ]  # fmt: skip
    assert [place["data-target"] for place in document.select(".contents .number")] == [
        "book/intro", "part-1", "notebooks/one", "notebooks/one:sum", "notebooks/two", "notebooks/two:sum", "part-2",
        "book/errata", "book/errata/one",
    ]  # fmt: skip
    assert document.select_one("#book\\/intro p a + a") is None  # the package's page is not printed
    assert "Menu" not in document.get_text()


def test_a_link_that_is_lost_stops_the_printing(book: Path) -> None:
    file = book / "build/html/notebooks/two.html"
    file.write_text(file.read_text("utf-8").replace('"one.html"', '"one.html#gone"'), "utf-8")
    with pytest.raises(CompanionError, match=r"lead nowhere once its pages are joined: #notebooks/one:gone$"):
        pdf.document()


def test_the_title_page_names_the_book_and_what_is_left_out() -> None:
    text = BeautifulSoup(pdf.front("A < B: five papers", "C & D", "2026", "1.2.3"), "html.parser").get_text("\n")
    assert text.split("\n")[:4] == ["A < B", "Five papers", "C & D", "Version 1.2.3, 2026"]
    assert "holds with correction" in text
    assert "Not printed are" in text


def test_dates_leave_blanks() -> None:
    made = b"<</Title (x)\n/CreationDate (D:20260101000000+00'00')\n/ModDate (D:20260101000000+00'00')>>"
    assert len(pdf.undated(made)) == len(made)
    assert pdf.undated(made).split() == [b"<</Title", b"(x)", b">>"]


@needs_chromium
def test_a_book_on_paper(book: Path) -> None:
    assert pdf.make() == Path("build/sumexp.pdf")
    made = (book / "build/sumexp.pdf").read_bytes()
    assert [file.name for file in (book / "build").iterdir() if "pdf" in file.name] == ["sumexp.pdf"]
    # Title, contents, introduction; the first chapter goes on for a second sheet or more.
    numbers = pdf.page_numbers(made)
    assert (numbers["book/intro"], numbers["notebooks/one"]) == (3, 4)
    assert numbers["part-1"] == 4 < numbers["notebooks/one:sum"] < numbers["notebooks/two"]
    assert numbers["notebooks/two"] == numbers["notebooks/two:sum"] == numbers["book/errata"] - 1
    # Every link has its place, and the bookmarks are the headings.
    links = {name.replace(b"#2F", b"/").decode() for name in re.findall(rb"/Dest /(\S+)", made)}
    assert {"notebooks/two:sum", "notebooks/one:p", "notebooks/one"} <= links <= numbers.keys()
    assert outline(made).keys() == {
        "Intro", "Chapters", "1. One", "1.1. Sum", f"2. Two “é” {WORDS}", "2.1. Sum", "Reference", "Errata",
        "Errata: one",
    }  # fmt: skip
    assert b"/URI (https://example.org/#x)" in made
    # A second printing is the same, byte by byte.
    pdf.make()
    assert (book / "build/sumexp.pdf").read_bytes() == made


DRAWN = "[...document.querySelectorAll('svg')].map(one => one.outerHTML)"


@needs_chromium
def test_the_contents_have_the_numbers_of_their_sheets(book: Path) -> None:
    from playwright.sync_api import sync_playwright

    file = book / "book.html"
    file.write_text(pdf.document(), "utf-8")
    with sync_playwright() as playwright, pdf.launch(playwright) as browser:
        sheet = pdf.lay_out(browser, file)
        sheet.evaluate("""document.querySelector('article').insertAdjacentHTML('beforeend', '<svg><g></g></svg>')""")
        drawn = sheet.evaluate(DRAWN)
        numbers = pdf.page_numbers(pdf.printed(sheet))
        assert sheet.evaluate(DRAWN) == drawn  # pictures are taken out while sheets are counted
        shown = sheet.evaluate(
            "[...document.querySelectorAll('.number')].map(one => [one.dataset.target, one.innerText])"
        )
    assert len(shown) == 9
    assert shown == [[target, str(numbers[target])] for target, _ in shown]


@needs_chromium
def test_who_listens_hears_a_formula_as_it_was_written(tmp_path: Path) -> None:
    """MathJax says that it is ready by a promise, and here it draws at the last moment."""
    from playwright.sync_api import sync_playwright

    file = tmp_path / "book.html"
    file.write_text(
        """<html><body><p id="place"></p><script>
        const math = [{ math: 'x^2', typesetRoot: document.getElementById('place') }];
        const drawn = new Promise(resolve => setTimeout(() => {
            math[0].typesetRoot.innerHTML = '<svg aria-hidden="true"></svg>';
            resolve();
        }, 100));
        window.MathJax = { startup: { promise: drawn, document: { math } } };
        </script></body></html>""",
        "utf-8",
    )
    with sync_playwright() as playwright, pdf.launch(playwright) as browser:
        drawn = pdf.lay_out(browser, file).evaluate("document.querySelector('svg')?.outerHTML")
    assert drawn == '<svg aria-label="x^2"></svg>'


@needs_chromium
def test_what_is_too_wide_is_drawn_smaller(tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    style = (ROOT / "book/_static/print.css").as_uri()
    file = tmp_path / "book.html"
    row = "".join(f"<td><code>{'name' * 8}</code></td>" for _ in range(5))
    file.write_text(
        f'<html><head><link rel="stylesheet" href="{style}"></head><body><article class="bd-article"><div>'
        f'<table><tr>{row}</tr></table></div><pre id="near">{"x" * 115}</pre><pre id="far">{"x" * 400}</pre>'
        "</article></body></html>",
        "utf-8",
    )
    with sync_playwright() as playwright, pdf.launch(playwright) as browser:
        sheet = pdf.lay_out(browser, file)
        right, *lines = sheet.evaluate("""() => [
            Math.max(...[...document.querySelectorAll('article *')].map(one => one.getBoundingClientRect().right)),
            ...['near', 'far'].map(id => document.getElementById(id).getBoundingClientRect().height)]""")
    assert right <= pdf.WIDTH + 1
    assert lines[0] < 30 < lines[1]  # one line drawn smaller, and one that is broken, as nobody could read it


@needs_chromium
def test_a_figure_that_no_longer_fits_lets_the_text_after_it_go_first(tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    def block(name: str, height: int, tag: str = "p", style: str = "") -> str:
        return f'<{tag} id="{name}" class="{style}" style="margin: 0; height: {height}px">.</{tag}>'

    first = block("before", 700) + block("picture", 400, "div", "sumexp-figure")
    rest = block("short", 100) + block("tall", 300) + block("last", 50) + block("heading", 20, "h3")
    fits = block("small", 500) + block("other", 400, "div", "sumexp-figure") + block("after", 20)
    file = tmp_path / "book.html"
    file.write_text(f"<!doctype html><article>{first}{rest}</article><article>{fits}</article>", "utf-8")
    with sync_playwright() as playwright, pdf.launch(playwright) as browser:
        sheet = pdf.lay_out(browser, file)
        order = sheet.evaluate("[...document.querySelectorAll('[id]')].map(one => one.id)")
    # 933 - 700 leave room for the short paragraph and not for the tall one, behind which nothing overtakes the figure.
    assert order == ["before", "short", "picture", "tall", "last", "heading", "small", "other", "after"]


def test_only_who_prints_needs_playwright(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("playwright", "playwright.sync_api"):
        monkeypatch.setitem(sys.modules, name, None)
    assert runpy.run_path(pdf.__file__)["FONTS"] == pdf.FONTS


def test_without_pages_it_says_how_to_make_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CompanionError, match=r"no pages in build/html to print; build the book first: make book"):
        pdf.make()


def test_a_page_that_is_not_rendered_yet_is_named(book: Path) -> None:
    (book / "build/html/notebooks/two.html").unlink()
    with pytest.raises(CompanionError, match=r"^build/html lacks notebooks/two; build the book anew: make book"):
        pdf.document()


def test_without_a_browser_it_says_what_to_install(book: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf, "BROWSERS", ())
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(book / "none"))
    with pytest.raises(CompanionError, match=r"^no Chromium here .*: apt-get install chromium \(Debian"):
        pdf.make()
    assert not (book / "build/sumexp.pdf").exists()
