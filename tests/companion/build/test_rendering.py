"""Pages rendered after a change are those of a book that was never rendered before, byte by byte."""

from pathlib import Path

import pytest

from sumexp.companion import CompanionError
from sumexp.companion.build.rendering import render

SETTINGS = """title: Tiny
only_build_toc_files: true
execute: {execute_notebooks: "off"}
html: {use_multitoc_numbering: false}
latex: {use_jupyterbook_latex: false}
sphinx:
  recursive_update: true
  config:
    extensions: [myst_nb, jupyter_book, sphinx_external_toc, sphinx_book_theme, sphinx_comments]
    html_theme_options: {navbar_persistent: []}
    nb_ipywidgets_js: {}
"""
PAGES = {name: f"# Page {name}\n\nIts words, and [another page](index.md).\n" for name in ("one", "two", "three")}


def files(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.fixture
def stage(tmp_path: Path) -> Path:
    stage = tmp_path / "stage"
    stage.mkdir()
    (stage / "_config.yml").write_text(SETTINGS)
    (stage / "_toc.yml").write_text(
        "format: jb-book\nroot: index\nchapters:\n- file: one\n- file: two\n- file: three\n"
    )
    (stage / "index.md").write_text("# Tiny\n\nSee {doc}`two`.\n")
    for name, text in PAGES.items():
        (stage / f"{name}.md").write_text(text)
    return stage


def test_what_is_kept_changes_no_byte_and_a_warning_is_given_each_time(stage: Path, tmp_path: Path) -> None:
    cache, pages = tmp_path / "cache", tmp_path / "pages"
    render(stage, pages, jobs=2, cache=cache)
    before = files(pages)
    # A changed word, and a changed title, which other pages show.
    (stage / "two.md").write_text(PAGES["two"].replace("words", "phrases").replace("Page two", "The second page"))
    render(stage, pages, jobs=2, cache=cache)
    after = files(pages)
    render(stage, tmp_path / "anew", jobs=1, cache=None)
    assert after == files(tmp_path / "anew")
    assert {name for name in before if before[name] != after.get(name)} >= {"two.html", "index.html", "one.html"}
    (stage / "three.md").write_text(f"{PAGES['three']}\nSee {{doc}}`nowhere`.\n")
    for _ in range(2):
        with pytest.raises(CompanionError, match=r"three\.md:5: WARNING: unknown document: 'nowhere'"):
            render(stage, pages, jobs=2, cache=cache)
    assert files(pages) == after
