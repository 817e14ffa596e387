"""The named parts of a computation: code by its syntax tree, data by their checksums, pins, files and settings.

A part changes when the result could change, and not otherwise: of code the syntax counts (`syntax`), and of the package
the import closure.
"""

import ast
import re
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

import grimp
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from claimbook import BookError, project
from claimbook.store.computation import digest
from claimbook.store.syntax import syntax

PINS = Path("constraints.txt")
PACKAGES = {name: str(project.folder(name)) for name in ("claimbook", project.declared("package")) if name}
"""The folders of the packages whose modules count."""


def modules(names: Iterable[str]) -> dict[str, str]:
    """A part for each module of the package that importing ``names`` can run, but for those of the store itself.

    The store keeps results and makes none: a change of how they lie on the disk must not compute them again.
    """
    return {f"module {name}": module(name) for name in sorted(closure(names)) if not name.startswith("claimbook.store")}


def data(names: Iterable[str]) -> dict[str, str]:
    """A part for each data set: the checksums its files must have (loaders verify them), or ``absent``.

    Raises `DataError` if a data set is unknown or undeclared.
    """
    names = tuple(names)
    available = present(names)
    return {f"data {name}": text if name in available else "absent" for name, text in declared(names).items()}


def present(names: Iterable[str]) -> list[str]:
    """Those of the data sets that are there."""
    return [name for name in names if project.module("datasets").available(name)]


def declared(names: Iterable[str]) -> dict[str, str]:
    """A digest of the checksums that the files of each data set must have; ``included`` for a set without files."""
    files = {name: datasets()[name].files for name in names}
    return {name: digest(*(file.sha256 for file in those)) if those else "included" for name, those in files.items()}


def datasets() -> Mapping[str, Any]:
    """The declared data sets by name; none if the package declares none."""
    known: Mapping[str, Any] = project.module("datasets").DATASETS if project.declared("datasets") else {}
    return known


def versions(names: Iterable[str], *codes: str) -> dict[str, str]:
    """A part for each pinned distribution that the modules reached from ``names``, or code, import or require.

    Those of downloads are left out: checksums decide what arrives.
    """
    skipped = ("claimbook.store", f"{project.declared('datasets')}._download")
    reached = (name for name in closure(names) if not name.startswith(skipped))
    imported = {other for name in reached for other in _graph().find_modules_directly_imported_by(name)}
    imported |= {name for code in codes for name in names_in(code)}
    waiting = {provider for name in imported for provider in _providers().get(name.partition(".")[0], ())}
    needed: set[str] = set()
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name not in needed:
            needed.add(name)
            waiting |= _required(name)
    pinned = re.findall(r"(?m)^([^\s#=]+)==(\S+)", PINS.read_text("utf-8") if PINS.is_file() else "")
    return {f"version {name}": version for name, version in pinned if canonicalize_name(name) in needed}


_providers = cache(metadata.packages_distributions)


def files(paths: Mapping[str, Path] | Iterable[Path]) -> dict[str, str]:
    """A part for each file, under its path or the name it is given."""
    named = paths if isinstance(paths, Mapping) else {str(path): path for path in paths}
    return {f"file {name}": file_digest(path) for name, path in named.items()}


def file_digest(path: Path) -> str:
    """SHA-256 (hex) of a file's bytes; ``absent`` where there is none."""
    return sha256(path.read_bytes()).hexdigest() if path.is_file() else "absent"


def closure(names: Iterable[str]) -> frozenset[str]:
    """The modules of the package that the code of ``names`` can reach: those imported (also in functions), and parents.

    A parent that does nothing but import names for its users is passed over: it runs when a module below it is
    imported, but that module gets nothing from it.
    """
    reached: set[str] = set()
    waiting = set(names)
    if unknown := sorted(waiting - _modules()):
        raise BookError(f"no module {', '.join(unknown)} in the packages {', '.join(PACKAGES)}")
    while waiting:
        name = waiting.pop()
        reached.add(name)
        waiting |= _needed(name) - reached
    return frozenset(reached)


@cache
def _needed(name: str) -> set[str]:
    """The modules that a module imports, and its parents that do something."""
    parents = {parent for parent in _parents(name) if not _re_exports(_path(parent).read_text("utf-8"))}
    return _graph().find_modules_directly_imported_by(name) & _modules() | parents


def imports(*codes: str) -> frozenset[str]:
    """The modules of the package that code names, by import or as ``package.x``; what does not parse names none."""
    named, known = {name for code in codes for name in names_in(code)}, _modules()
    reached = (max({name, *_parents(name)} & known, key=len, default="") for name in named)
    return frozenset(filter(None, reached))


@cache
def _re_exports(code: str) -> bool:
    """Whether code only imports names and lists them in ``__all__``."""
    return all(
        isinstance(node, ast.Import | ast.ImportFrom)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        or (isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"])
        for node in ast.parse(code).body
    )


def module(name: str) -> str:
    """The part of a module."""
    return syntax(_path(name).read_text("utf-8"))


@cache
def _graph() -> grimp.ImportGraph:
    """The imports of the packages at the first call in this process."""
    try:
        return grimp.build_graph(
            *PACKAGES, include_external_packages=True, exclude_type_checking_imports=True, cache_dir=None
        )
    except grimp.exceptions.SourceSyntaxError as error:
        raise BookError(f"{error}; correct it first") from error


@cache
def _modules() -> frozenset[str]:
    """The modules of the packages."""
    return frozenset(name for name in _graph().modules if name.partition(".")[0] in PACKAGES)


@cache
def _required(distribution: str) -> frozenset[str]:
    """The requirements of a distribution here, without its extras."""
    try:
        wanted = map(Requirement, metadata.requires(distribution) or ())
    except metadata.PackageNotFoundError:
        return frozenset()
    return frozenset(each.name for each in wanted if each.marker is None or each.marker.evaluate({"extra": ""}))


def _path(module: str) -> Path:
    package, *names = module.split(".")
    package_file = Path(PACKAGES[package], *names, "__init__.py")
    return package_file if package_file.is_file() else package_file.parent.with_suffix(".py")


def _parents(module: str) -> set[str]:
    words = module.split(".")
    return {".".join(words[:n]) for n in range(1, len(words))}


@cache
def names_in(code: str) -> frozenset[str]:
    """The dotted names that code imports, or reaches as ``package.x``; what does not parse names none."""
    try:
        nodes = [*ast.walk(ast.parse(re.sub(r"(?m)^\s*[%!?].*$", "", code)))]
    except SyntaxError:
        return frozenset()
    imported, aliases = set(), dict(zip(PACKAGES, PACKAGES, strict=True))
    for node in nodes:
        match node:
            case ast.Import(names=names):
                aliases |= {alias.asname: alias.name for alias in names if alias.asname}
                imported |= {alias.name for alias in names}
            case ast.ImportFrom(module=str(module), names=names):
                imported |= {f"{module}.{alias.name}" for alias in names}
    for node in nodes:
        if isinstance(node, ast.Attribute):
            root, *rest = ast.unparse(node).split(".")
            if root in aliases:
                imported.add(".".join((aliases[root], *rest)))
    return frozenset(imported)
