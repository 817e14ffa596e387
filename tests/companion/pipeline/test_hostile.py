"""Entries that another has written: nothing of them becomes a script, markup or a file of its own choice."""

import json
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from docutils import nodes
from docutils.frontend import get_default_settings
from docutils.utils import new_document
from myst_parser.parsers.docutils_ import Parser

from sumexp.companion import CompanionError
from sumexp.companion.pipeline import book, measured, outputs, staging, view
from sumexp.companion.pipeline.plan import BUILD
from sumexp.companion.register import outcomes
from sumexp.companion.store import Computation, Entry, Store

from .tiny import HEADER

SCRIPTS = {
    "a script": "<script>alert(1)</script>",
    "a script with the type of our tables": '<script type="application/json">0</script><script>alert(1)</script>',
    "a script in a table": '<script type="application/json">{"a": "</SCRIPT ><script>alert(1)</script>"}</script>',
    "an event": '<img src="x" onerror="alert(1)">',
    "an event of a picture": '<svg onload="alert(1)"><g onclick="alert(1)"/></svg>',
    "an address": '<a href="javascript:alert(1)">x</a>',
    "an address in disguise": '<a href="&#106;ava&#10;script:alert(1)">x</a>',
    "what is used": '<svg><use href="data:image/svg+xml,<svg onload=alert(1)>"/></svg>',
    "another namespace": '<svg><use xlink:href="data:image/svg+xml;base64,PHN2Zz4="/></svg>',
    "foreign HTML": '<svg><foreignObject><iframe srcdoc="<script>alert(1)</script>"></iframe></foreignObject></svg>',
    "a style sheet": "<style>@import 'https://evil.example/x'</style>",
    "another host's picture": '<svg><image href="https://evil.example/x"/><g style="fill: url(https://evil.example)"/></svg>',
    "an animation": '<svg><a href="#"><animate attributeName="href" values="javascript:alert(1)"/></a></svg>',
    "a form": '<form action="https://evil.example"><button formaction="javascript:alert(1)">x</button></form>',
    "a comment": "<!--><img src=x onerror=alert(1)>-->",
    "mutation": "<svg></p><style><a title='</style><img src=x onerror=alert(1)>'>",
}
HARMFUL = re.compile(
    r"<(?:script(?! type=.application/json)|iframe|style|form|img|animate)|\son\w+=|javascript:|evil|=.data:", re.I
)


@pytest.mark.parametrize("html", SCRIPTS.values(), ids=SCRIPTS)
@pytest.mark.parametrize("kind", ["text/html", "image/svg+xml"])
def test_html_of_an_output_has_no_script_and_asks_no_host(html: str, kind: str) -> None:
    try:
        shown = staged_output({"output_type": "display_data", "metadata": {}, "data": {kind: [html]}})
    except CompanionError:  # it is no JSON
        return
    assert not HARMFUL.search("".join(shown["data"][kind]))


def entry(tmp_path: Path, *cells: Mapping[str, Any]) -> Entry:
    """An execution that says that it is of the chapter ``one``."""
    (tmp_path / "entry").mkdir(exist_ok=True)
    (tmp_path / "entry/executed.ipynb").write_text(json.dumps({"cells": cells}), "utf-8")
    provenance = SimpleNamespace(more={"parameters": {"profile": "<script>alert(1)</script>"}})
    computation = Computation("notebook", "one", {})
    return cast(Entry, SimpleNamespace(path=tmp_path / "entry", computation=computation, provenance=provenance))


def code(source: str, *outputs: Mapping[str, Any]) -> dict[str, Any]:
    return {"cell_type": "code", "source": [source], "metadata": {}, "outputs": outputs}


def staged_output(output: Mapping[str, Any]) -> dict[str, Any]:
    """An output as a page has it."""
    made = entry(Path.cwd(), code("1 + 1", output))
    cells = staging.chapter("one", made.computation.key, made)["cells"]
    (shown,) = cells[1]["outputs"]
    return cast(dict[str, Any], shown)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chapter of one line of code, in the present folder."""
    monkeypatch.chdir(tmp_path)
    Path("notebooks").mkdir()
    cell = "# One\n\nIts {glue:text}`number`.\n\n```{code-cell} ipython3\n1 + 1\n```\n"
    Path("notebooks/one.md").write_text(HEADER + cell, "utf-8")


def test_text_and_code_are_of_the_sources(tmp_path: Path) -> None:
    forged = {"cell_type": "markdown", "source": ["# One\n<script>alert(1)</script>"], "metadata": {}}
    made = entry(tmp_path, forged, code("evil()", {"output_type": "stream", "name": "stdout", "text": ["evil"]}))
    page = staging.chapter("one", "another key", made)
    said = json.dumps(page)
    assert "evil" not in said
    assert "<script>" not in said
    assert "This page shows an earlier run" in page["cells"][0]["source"]
    assert "Its …." in page["cells"][0]["source"]
    assert page["cells"][1]["outputs"] == []


@pytest.mark.parametrize(
    "mark",
    [
        {"figure": "../../../evil", "caption": "", "alt": "", "source": "sumexp:f"},
        {"figure": 'x" onload="alert(1)', "caption": "", "alt": "", "source": "sumexp:f"},
        {"figure": "x", "caption": "", "alt": "", "source": 'sumexp.x:f"><script>'},
        {"result": "<script>", "value": 0, "rtol": 0},
    ],
)
def test_what_no_notebook_writes_is_one_clear_error(mark: Mapping[str, Any]) -> None:
    with pytest.raises(CompanionError, match=r"entry is not what a build writes \(.*\): remove it"):
        staged_output({"output_type": "display_data", "metadata": {"sumexp": mark}, "data": {"text/csv": "1"}})


MARKUP = {
    "HTML": "<script>alert(1)</script> <img src=x onerror=alert(1)> <!-- x --> <https://evil.example>",
    "a directive": "```{include} /etc/passwd\n```\n\n:::{raw} html\n<b>\n:::\n\n~~~{eval-rst}\n~~~",
    "a role": "{download}`/etc/passwd` {raw}`x`",
    "a substitution": "{{ env.app }}",
    "links and pictures": "[x](/etc/passwd) ![x](/etc/passwd) [x][y] ![x][y]\n\n[y]: /etc/passwd",
}


@pytest.mark.parametrize("text", MARKUP.values(), ids=MARKUP)
@pytest.mark.parametrize("place", ["caption", "sentence"])
def test_stored_prose_is_prose(text: str, place: str) -> None:
    if place == "caption":
        mark = {"figure": "x", "caption": text, "alt": text, "source": "sumexp.nce:f"}
        shown = staged_output({"output_type": "display_data", "metadata": {"sumexp": mark}, "data": {}})
        text = shown["metadata"]["sumexp"]["caption"]
    else:
        data = {"application/papermill.record/text/markdown": text}
        mark = {"sentence": "x", "text": text}
        shown = staged_output({"output_type": "display_data", "metadata": {"sumexp": mark}, "data": data})
        (text,) = shown["data"].values()
    settings = get_default_settings(Parser)
    settings.myst_enable_extensions = ["substitution", "colon_fence", "dollarmath", "attrs_inline"]
    document = new_document("x", settings)
    Parser().parse(text, document)
    unwanted = (nodes.raw, nodes.literal_block, nodes.reference, nodes.image, nodes.system_message, nodes.target)
    assert not [node for node in document.findall() if isinstance(node, unwanted)]


def test_prose_keeps_emphasis_and_formulas() -> None:
    text = "The *first* of `two`: $a<b$, $\\bar{x}$, $[0, 1)$, 3 < 4."
    assert outputs.prose(text).replace("< b", "<b") == text


def test_stored_words_of_a_table_are_shown_letter_by_letter() -> None:
    words = "<img src=x onerror=alert(1)> `a` *b* {c}`d` | [e](f) &amp; \\g"
    row = {"device": words, "parameters": {words: words}, "data sets present": [words]}
    text = measured.text([{"tables": {"a": [row]}}])
    document = new_document("x", get_default_settings(Parser))
    document.settings.myst_gfm_only = False
    Parser().parse(text, document)
    cells = [cell.astext() for cell in document.findall(nodes.entry)][-3:]
    assert cells == [words, f"{words}{measured.SPACE}={measured.SPACE}{words}", words]
    assert not list(document.findall(nodes.raw))


def test_pictures_in_the_view_have_no_script(tmp_path: Path) -> None:
    figures = tmp_path / "entry/figures"
    figures.mkdir(parents=True)
    (figures / "x.svg").write_text('<svg onload="alert(1)"><script>alert(1)</script><g/></svg>')
    view._put(figures, BUILD / "figures" / "one")
    assert (BUILD / "figures/one/x.svg").read_text() == "<svg><g></g></svg>"


def test_pages_are_never_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever wrote them could have put any script in them."""
    asked: list[str] = []

    def fetch(wanted: Computation, folder: Path) -> bool:
        asked.append(wanted.kind)
        return False

    store = Store(tmp_path / "store", fetch)
    monkeypatch.setattr(book, "default", lambda: store)
    monkeypatch.setattr(book, "_run", lambda *_, **__: 0)
    monkeypatch.setattr("sumexp.companion.pipeline.pages.chapters", lambda plan: {})
    monkeypatch.setattr("sumexp.companion.pipeline.pages.evidence", lambda plan: {})
    monkeypatch.setattr("sumexp.companion.pipeline.pages.computation", lambda *_: Computation("pages", "book", {}))
    with pytest.raises(CompanionError, match="its pages could not be rendered"):
        book._show(cast(Any, None), 1)
    assert asked == []


MARKED = '@pytest.mark.claim("bias-x", shows="statement", evidence="exact")\ndef test_it(): ...\n'
TRUE = {"test": "tests/bias/test_a.py::test_it", "claim": "bias-x", "shows": "statement", "evidence": "exact"}


@pytest.mark.parametrize(
    "change",
    [
        {"test": "tests/bias/test_a.py::test_other"},
        {"test": "tests/bias/test_b.py::test_it"},  # which is one, but of another module's outcomes
        {"claim": "bias-y"},
        {"shows": "counterexample"},
        {"evidence": "kernel"},
    ],
)
def test_a_stored_test_that_no_marker_declares_is_ignored_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, change: dict[str, str]
) -> None:
    (tmp_path / "tests/bias").mkdir(parents=True)
    for name in "ab":
        (tmp_path / f"tests/bias/test_{name}.py").write_text(MARKED)
    records = [one | {"outcome": "passed"} for one in (TRUE, TRUE | change)]
    (tmp_path / outcomes.FILE).write_text(json.dumps({"tests": records}))
    stored = SimpleNamespace(path=tmp_path, computation=Computation("evidence", "bias.test_a", {}))
    kept = outcomes.read(cast(Entry, stored)).tests
    assert [one.model_dump(include={*TRUE}) for one in kept] == [TRUE]
    (said,) = caplog.messages
    assert said.endswith(f"tests/bias/test_a.py declares are ignored: {(TRUE | change)['test']}")


class _Tokens(HTMLParser):
    """Tags with their attributes, and text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[object] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, sorted((name, value or "") for name, value in attrs)))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        self.found.append(tag)

    def handle_data(self, data: str) -> None:
        self.found.append(data)


def test_what_the_book_itself_shows_comes_out_as_it_was() -> None:
    """Figures as matplotlib draws them, with hatching, clipping and a picture; those moved by hand; a box."""
    import matplotlib.pyplot as plt
    import numpy as np

    from sumexp.companion.authoring import figures, interactive

    fig, ax = plt.subplots()
    ax.imshow([[0, 1]])
    ax.bar([0], [1], hatch="//")
    ax.fill_between([0, 1], [0, 1], alpha=0.5)
    ax.set(title="$a < b$ & c")
    drawn = figures.svg(fig, "x", "Less than: a < b & c.")
    plt.close(fig)
    controls = [interactive.Control("$m_1$", ["1", "2"], 0), interactive.Control("<x>", ["<a>", "b"], 1, "select")]
    panel = interactive.Panel([0, 1], "$x$", "</script>", [0, 1], [0, 1], (0, 1))
    line = interactive.Line("a < b", "ink", (2, 1), {0: np.zeros((2, 1, 2))}, np.array([["1 < 2"], ["é"]]))
    by_hand = interactive._page(interactive.Interactive(controls, [panel], [line]), "x", "Move $m$ <up>.")
    assert _Tokens(outputs.picture(drawn)).found == _Tokens(drawn).found
    assert _Tokens(outputs.page(by_hand)).found == _Tokens(by_hand).found
