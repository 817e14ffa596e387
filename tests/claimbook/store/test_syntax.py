"""The digest of code changes with what code does, and not with comments, docstrings or the names of local variables."""

import ast
import dis
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import pytest

import sumexp
from claimbook.store.syntax import number, syntax

ORIGINAL = '''
def f(x, /, y, *rest, z=1, **options):
    """Words."""
    total = x + y + z  # a comment
    import numpy as np
    for item in rest:
        total += scale * item
    def inner(t):
        nonzero = [part for part in t if part and (last := part)]
        return lambda u: total + np.sum(nonzero, dtype=float) + last + u
    match options:
        case {"a": [first, *_], **others}:
            total = first
    with suppress(ValueError) as held:
        try:
            del held
        except OSError as error:
            print(error, sep="")
    return inner
'''
SAME = [
    *(("total", "sum_"), ("rest", "others_"), ("options", "settings"), ("x", "start"), ("item", "i")),
    *(("nonzero", "kept"), ("part", "p"), ("last", "previous"), ("first", "head"), ("others", "tail")),
    *(("held", "context"), ("error", "problem")),
    *(("Words", "Other words"), ("  # a comment", "\n"), ("item in", "(item) in")),
]
OTHER = [
    *(("y", "width"), ("z", "depth"), ("f", "g"), ("t", "series"), ("u", "v"), ("inner", "closure")),
    *(("np", "numpy_"), ("scale", "factor"), ("sum", "mean"), ("dtype", "out"), ("sep", "end")),
    *(("OSError", "IOError_"), ("z=1", "z=2"), ('"a"', '"b"'), ("total +=", "total -="), ("/, ", "")),
]


def renamed(before: str, after: str) -> str:
    """The original with a word replaced everywhere, or another text."""
    if not before.isidentifier():
        return ORIGINAL.replace(before, after)
    return re.sub(rf"\b{before}\b", after, ORIGINAL)


@pytest.mark.parametrize("before, after", SAME)
def test_names_of_local_variables_and_comments_do_not_count(before: str, after: str) -> None:
    assert renamed(before, after) != ORIGINAL
    assert syntax(renamed(before, after)) == syntax(ORIGINAL)


@pytest.mark.parametrize("before, after", OTHER)
def test_constants_parameters_globals_and_attributes_count(before: str, after: str) -> None:
    assert syntax(renamed(before, after)) != syntax(ORIGINAL)


@pytest.mark.parametrize(
    "before, after",
    [
        ("def f():\n a = 1\n b = 2\n return a", "def f():\n a = 1\n b = 2\n return b"),  # which variable it is
        ("def f():\n a = 1\n def g(): return a", "def f():\n a = 1\n def g(): return b"),  # a global instead
        ("def f():\n a = 1\n def g():\n  b = 2\n  return a", "def f():\n a = 1\n def g():\n  b = 2\n  return b"),
        ("def f():\n return [a for b in c]", "def f():\n return [b for b in c]"),
        ("def f(c):\n return [a for a in c]", "def f(c):\n return [c for a in c]"),
        ("def f(c):\n [a for a in c]\n return a", "def f(c):\n [b for b in c]\n return b"),  # a global
        ("def f():\n a = 1\n return [a for b in c]", "def f():\n a = 1\n return [b for b in c]"),
        ("def f():\n a = 1\n return locals()", "def f():\n b = 1\n return locals()"),
        ("def f():\n a = 1\n return eval('a')", "def f():\n b = 1\n return eval('a')"),
        ("def f():\n global a\n a = 1", "def f():\n global b\n b = 1"),
        ("def f():\n a = 1\n def g():\n  nonlocal a", "def f():\n b = 1\n def g():\n  nonlocal b"),
        ("def f():\n a = 1\n class A:\n  b = a", "def f():\n a = 1\n class A:\n  c = a"),
        ("class A:\n a = 1", "class A:\n b = 1"),
        ("a = 1", "b = 1"),
        ("[(a := b) for b in c]", "[(d := b) for b in c]"),  # of a module: others can import it
        ("def f():\n a = 1\n return f'{a=}'", "def f():\n b = 1\n return f'{b=}'"),
        ("def f(*, a): pass", "def f(*, b): pass"),
        ("def f():\n import a.b", "def f():\n import c.b"),
        ("def f(a,/):\n def g():\n  import b.c\n  return a", "def f(b,/):\n def g():\n  import b.c\n  return b"),
        ("def f(a,/):\n def g():\n  import c as b\n  return a", "def f(b,/):\n def g():\n  import c as b\n  return b"),
    ],
)
def test_another_meaning_is_another_digest(before: str, after: str) -> None:
    assert syntax(before) != syntax(after)


def test_another_version_of_python_finds_the_same_digest() -> None:
    """Runs that come with the book are otherwise stale there: since 3.12 trees have fields that are empty before."""
    code = ORIGINAL + "@f\nclass A(B, c=1): x: int = 2\nprint(f'{A!r:>{3}} {{}}' 'b', *rest)\n"
    assert syntax(code) == "bfb72c5e761aa4e9bc8d4068fa22f09cb199f48d3850d0a9620df38d69573b1e"


def test_names_of_nested_scopes_may_coincide() -> None:
    code = "def f():\n a = 1\n return [(a, b) for b in [{0} for {0} in (lambda *d: d)(a)]]"
    assert syntax(code.format("c")) == syntax(code.format("b")) == syntax(code.format("a"))


def codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def constants(code: CodeType) -> list[object]:
    """Without texts, among which are the names of annotated parameters."""
    return [constant for constant in code.co_consts if not isinstance(constant, CodeType | tuple | str)]


def operations(code: CodeType) -> list[str]:
    """Calls of methods aside: how Python compiles them depends on whether a module of the object's name is imported."""
    names = " ".join(instruction.opname for instruction in dis.get_instructions(code))
    names = re.sub("_(?=(LOAD|STORE)_FAST)", " ", names)  # Python 3.13 joins two of them where numbers are below 16
    return re.sub(r"METHOD|_CHECK|_ATTR\b|\bPUSH_NULL\b|\bPRECALL\b", "", names).split()


def test_numbers_are_of_local_names_for_pythons_compiler_too() -> None:
    """On every third module of the package: the same operations on the same globals, attributes and constants."""
    changed = 0
    for path in sorted(Path(sumexp.__path__[0]).rglob("*.py"))[::3]:
        text = path.read_text("utf-8")
        trees = (ast.parse(text), ast.parse(text))
        number(trees[1], {}, 0)
        before, after = (codes(compile(tree, str(path), "exec")) for tree in trees)
        for old, new in zip(before, after, strict=True):
            assert old.co_names == new.co_names
            if sys.version_info < (3, 12):  # since then a comprehension shares the locals of its function
                assert old.co_nlocals == new.co_nlocals
            assert operations(old) == operations(new)
            assert constants(old) == constants(new)
            changed += old.co_varnames != new.co_varnames
    assert changed > 300
