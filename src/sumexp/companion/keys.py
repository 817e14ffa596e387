"""What a result depends on, as one hash: code by its syntax tree, text, parameters, pins and data.

A key changes when the result could change, and not otherwise: comments, docstrings, layout and cell tags do not count,
and of the package only the import closure does.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import grimp
import yaml
from markdown_it import MarkdownIt
from mdit_py_plugins.front_matter import front_matter_plugin
from mdit_py_plugins.myst_blocks import myst_block_plugin

import sumexp
from sumexp.companion import CompanionError

PINS = Path("constraints.txt")


@dataclass(frozen=True)
class Source:
    """A notebook as its key sees it: front matter, prose and code cells, without tags and cell metadata."""

    metadata: Mapping[str, Any]
    text: str
    code: tuple[str, ...]


def digest(*parts: str) -> str:
    """SHA-256 (hex) of a sequence of strings, each set off from the next by its length."""
    return sha256(b"".join(b"%d:%s" % (len(part.encode()), part.encode()) for part in parts)).hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 (hex) of a file's bytes; ``"absent"`` where there is none."""
    return sha256(path.read_bytes()).hexdigest() if path.is_file() else "absent"


def code_digest(modules: Iterable[str]) -> str:
    """SHA-256 (hex) over the code of the import closure of ``modules`` inside the package.

    Raises:
        CompanionError: if a module is not part of the package.
    """
    files = {name: _path(name) for name in sorted(closure(modules))}
    return digest(*files, *(syntax(file.read_text("utf-8")) for file in files.values()))


def closure(modules: Iterable[str]) -> frozenset[str]:
    """The modules of the package that importing ``modules`` can run: imported ones (also inside functions) and parents.

    Raises:
        CompanionError: if a module is not part of the package.
    """
    graph = _graph()
    found: set[str] = set()
    waiting = set(modules)
    if unknown := sorted(waiting - graph.modules):
        known = ", ".join(sorted(graph.modules))
        raise CompanionError(f"no module {', '.join(unknown)} in the package; it has {known}")
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting |= (graph.find_modules_directly_imported_by(name) | _parents(name)) - found
    return frozenset(found)


@cache
def syntax(code: str) -> str:
    """The syntax tree of Python code as text: no comments, docstrings, layout or line numbers."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        match node:
            case (
                ast.Module(body=[ast.Expr(ast.Constant(str())), *rest])
                | ast.ClassDef(body=[ast.Expr(ast.Constant(str())), *rest])
                | ast.FunctionDef(body=[ast.Expr(ast.Constant(str())), *rest])
                | ast.AsyncFunctionDef(body=[ast.Expr(ast.Constant(str())), *rest])
            ):
                node.body = rest
    return ast.dump(tree)


def imports(*codes: str) -> frozenset[str]:
    """The modules of the package that code names, by import or as ``sumexp.x``; what does not parse names none."""
    modules = _graph().modules
    return frozenset(module for code in codes for name in _names(code) if (module := _longest(name, modules)))


def parse(path: Path) -> Source:
    """Split a MyST notebook as jupytext does, but in a few milliseconds (jupytext takes a second to import)."""
    content = path.read_text("utf-8")
    lines = content.split("\n")
    parser = MarkdownIt("commonmark").use(front_matter_plugin).use(myst_block_plugin).disable("inline", True)
    metadata: Mapping[str, Any] = {}
    code = []
    for token in parser.parse(content):
        begin, end = token.map or (0, 0)
        if token.type == "front_matter":
            metadata = yaml.safe_load(token.content) or {}
        elif token.type == "fence" and token.info.startswith("{code-cell}") and token.level == 0:
            code.append(_without_options(token.content))
        elif token.type != "myst_block_break":
            continue
        lines[begin:end] = [""] * (end - begin)
    return Source(metadata, re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip(), tuple(code))


def notebook_key(path: str | Path, parameters: Mapping[str, object]) -> str:
    """The key of an executed notebook: its text and code, parameters, pins, data and import closure in the package.

    Raises:
        CompanionError: if it declares a data set or a file that does not exist.
    """
    source = parse(Path(path))
    return digest(
        source.text,
        *source.code,
        repr(sorted(parameters.items())),
        file_digest(PINS),
        *data_digests(declared_data(source, path)),
        *map(file_digest, declared_files(source, path)),
        code_digest(imports(*source.code)),
    )


def evidence_key(path: str | Path) -> str:
    """The key of a test module's evidence: its code and its helpers', pins, the data and the code it can reach."""
    path = Path(path)
    helpers = [helper for helper in sorted(path.parent.glob("*.py")) if not helper.name.startswith("test_")]
    texts = [file.read_text("utf-8") for file in (path, *helpers)]
    reached = closure(imports(*texts) | {"sumexp.companion.register.evidence"})
    data = _data_sets() if "sumexp.datasets" in reached else ()
    return digest(*map(syntax, texts), file_digest(PINS), *data_digests(data), code_digest(reached))


def declared_data(source: Source, path: str | Path) -> tuple[str, ...]:
    """The data sets that a notebook's front matter names under ``sumexp: {data: [...]}``.

    Raises:
        CompanionError: if one of them does not exist.
    """
    names = tuple((source.metadata.get("sumexp") or {}).get("data") or ())
    known = _data_sets()
    if unknown := [str(name) for name in names if name not in known]:
        raise CompanionError(f"{path} declares the data set {', '.join(unknown)}; there are {', '.join(known)}")
    return names


def declared_files(source: Source, path: str | Path) -> tuple[Path, ...]:
    """The files of the project that a notebook's front matter names under ``sumexp: {files: [...]}``.

    Raises:
        CompanionError: if one of them does not exist.
    """
    files = tuple(Path(name) for name in (source.metadata.get("sumexp") or {}).get("files") or ())
    if absent := [str(file) for file in files if not file.is_file()]:
        raise CompanionError(f"{path} declares the file {', '.join(absent)}, which is not in {Path.cwd()}")
    return files


def data_digests(names: Iterable[str]) -> list[str]:
    """Per data set the SHA-256 its files must have (the loaders verify them), or ``absent``, or ``incomplete``."""
    from sumexp import datasets

    def state(name: str) -> str:
        try:
            present = datasets.available(name)
        except datasets.DataError:
            return "incomplete"
        return ",".join(file.sha256 for file in datasets.DATASETS[name].files) if present else "absent"

    return [f"{name}={state(name)}" for name in names]


def _data_sets() -> tuple[str, ...]:
    from sumexp.datasets import DATASETS

    return tuple(DATASETS)


def _graph() -> grimp.ImportGraph:
    # Built anew each time (milliseconds, no cache folder), so that an edited file is seen.
    try:
        return grimp.build_graph("sumexp", exclude_type_checking_imports=True, cache_dir=None)
    except grimp.exceptions.SourceSyntaxError as error:
        raise CompanionError(f"{error}; correct it first") from error


def _path(module: str) -> Path:
    below = Path(sumexp.__path__[0], *module.split(".")[1:])
    return below / "__init__.py" if below.is_dir() else below.with_suffix(".py")


def _parents(module: str) -> set[str]:
    parts = module.split(".")
    return {".".join(parts[:n]) for n in range(1, len(parts))}


def _longest(name: str, modules: set[str]) -> str | None:
    return max((m for m in {name, *_parents(name)} if m in modules), key=len, default=None)


def _names(code: str) -> Iterator[str]:
    try:
        tree = ast.parse(re.sub(r"(?m)^\s*[%!?].*$", "", code))
    except SyntaxError:
        return
    aliases = {"sumexp": "sumexp"}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                aliases |= {alias.asname: alias.name for alias in names if alias.asname}
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield from (f"{module}.{alias.name}" for alias in names)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            root, *rest = ast.unparse(node).split(".")
            if root in aliases:
                yield ".".join((aliases[root], *rest))


def _without_options(content: str) -> str:
    """The body of a code cell without its ``:key: value`` lines or its ``---`` block, stripped like jupytext's."""
    if content.startswith("---"):
        body = re.sub(r"\A---\n.*?^---+[^\n]*\n?", "", content, count=1, flags=re.DOTALL | re.MULTILINE)
    else:
        body = re.sub(r"\A(?:[ \t]*:[^\n]*(?:\n|\Z))+", "", content)
    return body.removeprefix("\n").rstrip("\n")
