"""A digest of Python code that changes when a result could change.

Comments, docstrings, layout and the names of local variables do not count. Local are the variables of functions and
comprehensions, positional-only parameters, ``*args`` and ``**kwargs``. Names that code elsewhere can use count: other
parameters, imports, functions and classes. So do all names in a function that can look them up at run time
(``locals()``, ``eval``), contains a class, or declares a name ``global`` or ``nonlocal``.
"""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TypeAlias

from claimbook.store.computation import digest

_LOOKUPS = {"locals", "vars", "dir", "eval", "exec"}
_FIELDS: Mapping[type, str] = {
    **{ast.Name: "id", ast.ExceptHandler: "name", ast.MatchAs: "name", ast.MatchStar: "name"},
    ast.MatchMapping: "rest",
}
"""Where a node has the name of a variable."""
_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Comprehension: TypeAlias = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@cache
def syntax(code: str) -> str:
    """The digest of the syntax tree, without docstrings and line numbers, with numbers for local names."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = node.body[ast.get_docstring(node, clean=False) is not None :]
        elif isinstance(node, ast.JoinedStr):  # Python 3.12 ends nested formats by an empty text
            node.values = [part for part in node.values if getattr(part, "value", None) != ""]
    number(tree, {}, 0)
    return digest(_text(tree))


def _text(node: object) -> str:
    """A tree as text, the same for every version of Python: fields that are empty are left out, such as new ones."""
    if isinstance(node, ast.AST):
        fields = (f"{name}={_text(value)}" for name, value in ast.iter_fields(node) if value not in (None, []))
        return f"{type(node).__name__}({', '.join(fields)})"
    return f"[{', '.join(map(_text, node))}]" if isinstance(node, list) else repr(node)


def number(node: ast.AST, names: Mapping[str, str], depth: int) -> None:
    """Replace the names of variables in place; ``depth`` keeps the numbers of nested scopes apart."""
    if isinstance(node, _SCOPES):
        if depth == 0 and any(map(_needs_names, ast.walk(node))):
            return
        bound = dict.fromkeys(_bound(node))
        kept = {name for name, is_local in bound if not is_local}
        new = {name: f"\N{LATIN LETTER ALVEOLAR CLICK}{depth}_{n}" for n, (name, _) in enumerate(bound)}
        inner = {**names, **new, **{name: name for name in kept}}
        outside, inside = _sides(node)
        for part in outside:
            number(part, names, depth)
        for part in inside:
            number(part, inner, depth + 1)
        if isinstance(node, _Function):
            for parameter in _private(node.args):
                parameter.arg = inner[parameter.arg]
        return
    if field := _FIELDS.get(type(node)):
        setattr(node, field, names.get(getattr(node, field), getattr(node, field)))
    for child in ast.iter_child_nodes(node):
        number(child, names, depth)


def _sides(node: _Function | _Comprehension) -> tuple[list[ast.AST], list[ast.AST]]:
    """The parts of a scope that are evaluated outside of it (defaults, decorators, the first iterable), and inside."""
    children = list(ast.iter_child_nodes(node))
    if isinstance(node, _Comprehension):
        first, *others = node.generators
        elements = [child for child in children if not isinstance(child, ast.comprehension)]
        return [first.iter], [*elements, first.target, *first.ifs, *others]
    body = [node.body] if isinstance(node, ast.Lambda) else node.body
    return [child for child in children if child not in body], [*body]


def _bound(scope: _Function | _Comprehension) -> Iterator[tuple[str, bool]]:
    """The names that a scope binds, in the order of its tree, and whether each is local."""
    if isinstance(scope, _Comprehension):
        for generator in scope.generators:
            yield from _stored(generator.target)
        return
    yield from ((parameter.arg, True) for parameter in _private(scope.args))
    yield from ((parameter.arg, False) for parameter in (*scope.args.args, *scope.args.kwonlyargs))
    for part in _sides(scope)[1]:
        yield from _stored(part)


def _stored(node: ast.AST, in_comprehension: bool = False) -> Iterator[tuple[str, bool]]:
    """The names that code binds in its scope; in a comprehension only ``:=`` does."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name, False
        case ast.alias(name=name, asname=other):
            yield other or name.partition(".")[0], False
        case ast.NamedExpr(target=ast.Name(id=name)):
            yield name, True
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) if not in_comprehension:
            yield name, True
        case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar() | ast.MatchMapping():
            if name := getattr(node, _FIELDS[type(node)]):
                yield name, True
    for part in _sides(node)[0] if isinstance(node, _Function) else ast.iter_child_nodes(node):
        yield from _stored(part, in_comprehension or isinstance(node, _Comprehension))


def _private(arguments: ast.arguments) -> list[ast.arg]:
    """The parameters that no caller names."""
    return [*arguments.posonlyargs, *filter(None, (arguments.vararg, arguments.kwarg))]


def _needs_names(node: ast.AST) -> bool:
    return isinstance(node, ast.Global | ast.Nonlocal | ast.ClassDef) or getattr(node, "id", None) in _LOOKUPS
