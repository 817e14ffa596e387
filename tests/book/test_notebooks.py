"""The notebooks as a reader of their source meets them."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from mdit_py_plugins.colon_fence import colon_fence_plugin
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.front_matter import front_matter_plugin
from mdit_py_plugins.myst_blocks import myst_block_plugin

from sumexp.companion.pipeline.inputs import chapters_of, declared_runs, parse

ROOT = Path(__file__).parents[2]
CHAPTERS = chapters_of(ROOT / "_toc.yml")
LONGEST = 15
PROSE = sorted((*ROOT.glob("notebooks/*.md"), *ROOT.glob("book/**/*.md"), ROOT / "CONTRIBUTING.md"))
PARSER = MarkdownIt("commonmark").enable("table").disable("inline", True)
for plugin in (front_matter_plugin, myst_block_plugin, colon_fence_plugin, dollarmath_plugin, deflist_plugin):
    PARSER.use(plugin)
MARKUP = re.compile(r"\{[\w:]+\}`[^`]*`|`[^`]*`|\$[^$]*\$|\]\([^)]*\)")
ENDS = re.compile(r"[.!?:…][)\]\"”*_]*$|^x$")
"""How a line ends that another follows; alone in its line may be a sentence that the code has chosen."""
SECOND = re.compile(
    r"[\w)\]*][.!?][)\]\"”*]* (?=[A-Zx(\[*])"
    r"|(?:[)\]*]|(?<![\w.])(?!(?:al|cf|etc|vs)\.)[\w-]*[^\W\d])[.!?][)\]\"”*]* (?=[a-z])"
)
"""Where a second sentence begins in a line, be it with a lowercase name; no number or abbreviation ends the first."""
LABEL = re.compile(r"^\*+[^*]+\*+ ")
"""What a line of a list or of a proof may begin with: **Softmax.**, *2.*"""


def paragraphs(text: str) -> Iterator[str]:
    """What is written in sentences, in directives too; no code, no formula, no heading."""
    for before, token in pairwise(PARSER.parse(text)):
        if token.type == "inline" and before.type == "paragraph_open":
            yield "\n".join(line for line in token.content.splitlines() if not re.match(r":[\w-]+:", line))
        elif token.type == "colon_fence" or token.info.startswith("{kills-table}"):
            yield from paragraphs(token.content)


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_line_is_a_sentence(path: Path) -> None:
    broken, joined = [], []
    for paragraph in paragraphs(path.read_text("utf-8")):
        lines = [LABEL.sub("", MARKUP.sub("x", line)) for line in paragraph.splitlines()]
        broken += [line for line in lines[:-1] if not ENDS.search(line)]
        joined += [line for line in lines if SECOND.search(line)]
    assert (broken, joined) == ([], [])


def test_a_name_in_lowercase_begins_a_sentence_and_an_abbreviation_ends_none() -> None:
    assert all(map(SECOND.search, ("It is one step. trec_eval orders ties.", "(So is x.) numpy is not.", "x. it is")))
    shortened = ("Lin et al. call it so", "i.i.d. draws, e.g. two, i.e. a pair", "cf. this, vs. that", "in 2. of it")
    assert not any(map(SECOND.search, shortened))


@pytest.mark.parametrize("name", CHAPTERS)
def test_cells_are_short(name: str) -> None:
    cells = parse(ROOT / "notebooks" / f"{name}.md").code
    long = [f"{len(cell.splitlines())} lines: {cell.splitlines()[0]}" for cell in cells if cell.count("\n") >= LONGEST]
    assert long == []


@pytest.mark.parametrize("name", CHAPTERS)
def test_exercises_are_numbered_by_their_directive(name: str) -> None:
    text = (ROOT / "notebooks" / f"{name}.md").read_text("utf-8")
    assert ":class: exercise" not in text
    assert text.count("{exercise}") == text.count("{solution}") + text.count("{solution-start}") > 0


@pytest.mark.parametrize("name", CHAPTERS)
def test_the_runs_that_a_chapter_looks_for_are_part_of_its_key(name: str) -> None:
    """What ``trained(GRID, NAMES, ...)`` asks for is what the front matter declares, and nothing else."""
    source = parse(ROOT / "notebooks" / f"{name}.md")
    nodes = [node for cell in source.code for node in ast.walk(ast.parse(cell))]
    values = {
        node.targets[0].id: node.value
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    asked = {
        ast.literal_eval(node.args[0]): ast.literal_eval(values[ast.unparse(node.args[1])])
        for node in nodes
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "trained"
    }
    assert asked == declared_runs(source)
