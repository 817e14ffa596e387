"""The code on the errata pages runs as printed."""

import re
from pathlib import Path

import pytest
import yaml

from claimbook import register

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "book" / "errata"
NOTHING_TO_RUN = {"b11", "e15"}  # misprints of indices; a reading of the paper


def sections(page: Path) -> tuple[str, dict[str, str]]:
    """The head of a page and its sections by label."""
    head, *rest = re.split(r"^\(erratum-([a-z]\d+)\)=$", page.read_text("utf-8"), flags=re.MULTILINE)
    return head, dict(zip(rest[::2], rest[1::2], strict=True))


def code(text: str) -> str:
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL))


PAGES = sorted(FOLDER.glob("*.md"))
CASES = [(page.stem, label) for page in PAGES for label in sections(page)[1]]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_errata_stand_in_order(page: Path) -> None:
    labels = list(sections(page)[1])
    assert labels
    assert labels == sorted(labels, key=lambda label: (label[0], int(label[1:])))


@pytest.mark.parametrize("name, label", CASES)
def test_code_of_a_section_runs(name: str, label: str) -> None:
    head, by_label = sections(FOLDER / f"{name}.md")
    text = code(by_label[label])
    assert "assert" in text or label in NOTHING_TO_RUN
    exec(compile(code(head) + "\n" + text, f"{name}.md#{label}", "exec"), {})


def test_every_entry_that_names_an_erratum_is_named_there() -> None:
    texts = {label: sections(FOLDER / f"{page}.md")[1][label] for page, label in CASES}
    named = {label: set(re.findall(r"{claim}`([^`]+)`", text)) for label, text in texts.items()}
    for claim in register.load(ROOT / "claims").values():
        for label in claim.erratum:
            assert claim.id in named[label.lower()], label


def test_every_entry_stands_in_a_chapter_or_an_erratum() -> None:
    pages = [*(ROOT / "notebooks").glob("*.md"), *PAGES]
    shown = {claim for page in pages for claim in re.findall(r"{claim}`([^`]+)`", page.read_text("utf-8"))}
    assert shown == set(register.load(ROOT / "claims"))


def test_our_theorems_name_their_section() -> None:
    for claim in register.load(ROOT / "claims").values():
        if claim.id.startswith("sumexp-"):
            page = (ROOT / "notebooks" / f"{claim.chapter}.md").read_text("utf-8")
            assert re.search(rf"^#+ {re.escape(claim.where)}$", page, re.MULTILINE), (claim.id, claim.where)


@pytest.mark.parametrize("file", sorted((ROOT / "claims").glob("*.yml")), ids=lambda file: file.stem)
def test_entries_have_each_field_once_and_close_their_formulas(file: Path) -> None:
    """YAML would take the last of two, and a page would show the dollar."""
    for entry in yaml.compose(file.read_text("utf-8")).value:
        fields = [key.value for key, _ in entry.value]
        assert len(set(fields)) == len(fields), fields
        for text in (str(value.value) for _, value in entry.value if isinstance(value, yaml.ScalarNode)):
            formulas = re.sub(r"\\[{}]", "", text).split("$")
            assert len(formulas) % 2, text
            assert all(formula.strip() and formula.count("{") == formula.count("}") for formula in formulas[1::2]), text


def test_what_is_corrected_weighs_more_than_a_remark() -> None:
    weighs = {
        label.upper(): re.search(r"\*\*Weight:\*\* ([a-z]+)", sections(FOLDER / f"{page}.md")[1][label])
        for page, label in CASES
    }
    faults = {label for label, match in weighs.items() if match and match[1] in ("fault", "gap", "misprint")}
    for claim in register.load(ROOT / "claims").values():
        assert claim.corrected is None or claim.lost or set(claim.erratum) & faults, claim.id
