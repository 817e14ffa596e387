"""One meaning for each keyword: the page's table against the signatures of all public functions and layers."""

import inspect
import re
from collections import defaultdict
from pathlib import Path
from typing import get_args

import pytest
import torch

from sumexp import functional, nn, samplers
from sumexp.functional._arguments import Correct

PAGE = Path(__file__).parents[1] / "book/api/keywords.md"
PACKAGES = (functional, nn, samplers)
Uses = dict[tuple[str, str], set[str]]
"""By keyword and default: the functions."""


def signatures() -> Uses:
    """Arguments of functions, of layers and of the calls of layers; records and protocols are not called."""
    uses: Uses = defaultdict(set)
    for package in PACKAGES:
        for name in package.__all__:
            public = getattr(package, name)
            if inspect.isclass(public) and not issubclass(public, torch.nn.Module):
                continue
            if not callable(public) or not (inspect.isclass(public) or inspect.isfunction(public)):
                continue
            calls = [public] + ([public.forward] if inspect.isclass(public) else [])
            for call in calls:
                for parameter in inspect.signature(call).parameters.values():
                    required = parameter.default is parameter.empty
                    default = "" if required else _default(parameter.default)
                    if parameter.name != "self":
                        uses[parameter.name, default].add(name)
    return uses


def _default(value: object) -> str:
    if isinstance(value, functional.Margins):
        return "LOGISTIC" if value is functional.LOGISTIC else repr(value)
    return str(value) if not isinstance(value, str) else repr(value)


def written() -> str:
    """The page with the defaults and functions of its rows as the signatures have them; its words are kept."""
    uses, lines = signatures(), []
    for line in PAGE.read_text("utf-8").splitlines():
        if line.startswith("| `"):
            keyword, shape, default, meaning, _ = re.split(r"(?<!\\) \| ", line.strip("| "))
            users = uses.pop((keyword.strip("`"), default.strip("`")), set())
            names = ", ".join(f"`{name}`" for name in sorted(sorted(users), key=str.lower))
            line = f"| {keyword} | {shape} | {default} | {meaning} | {names} |"
            if not users:
                continue
        lines.append(line)
    for (keyword, default), users in sorted(uses.items()):
        names = ", ".join(f"`{name}`" for name in sorted(sorted(users), key=str.lower))
        lines.append(f"| `{keyword}` | SHAPE | {f'`{default}`' if default else ''} | MEANING | {names} |")
    return "\n".join(lines) + "\n"


def test_the_page_has_every_keyword_of_every_function_with_its_default() -> None:
    page = PAGE.read_text("utf-8")
    assert "MEANING" not in page, "say in book/api/keywords.md what the new keyword means, in the table it belongs to"
    assert page == written(), "python -m tests.accelerator writes book/api/keywords.md anew"


def test_no_keyword_has_two_defaults() -> None:
    defaults: dict[str, set[str]] = defaultdict(set)
    for keyword, default in signatures():
        if default:
            defaults[keyword].add(default)
    twice = {keyword: values for keyword, values in defaults.items() if len(values) > 1}
    # The rule where classes are seen, the marks where they are not; either way all hits are kept.
    assert twice == {"hits": {"'keep'", "None"}}


def test_the_two_lines_of_the_page_are_one_loss() -> None:
    scores, size = torch.randn(4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64), 4
    ids, log_q = [2, 0, 1, 0], torch.tensor([0.2, 0.5, 0.3, 0.5], dtype=torch.float64).log()
    imports, block = PAGE.read_text().split("```")[1].removeprefix("python\n").split("\n\n")
    given = {"scores": scores, "ids": ids, "log_q": log_q, "B": size}
    exec(imports, given)
    for correct in get_args(Correct):
        lines = [line.removesuffix(")") + f", correct={correct!r})" for line in block.strip().splitlines()]
        first, second = (eval(line, given).item() for line in lines)  # noqa: S307
        assert first == pytest.approx(second, rel=1e-13)
