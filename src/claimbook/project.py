"""What a book's package tells the machinery of itself, as entry points of the group ``claimbook``.

In the ``pyproject.toml`` of the package::

    [project.entry-points.claimbook]
    package = "sumexp"  # each of its modules that a computation can reach is a part of the key
    datasets = "sumexp.datasets"  # has `DATASETS`, `available`, `declared` and `DataError`
    grids = "sumexp.chapters"  # the package below which a module ``X.grids`` declares the training runs of X
    intervals = "sumexp.chapters.intervals"  # how training runs decide claims: `judge`, and `RULES` in words
    measured = "sumexp.measured"  # the folder of measurements

Each is optional.
"""

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from claimbook import BookError


@cache
def declared(name: str) -> str:
    """The module or package that is declared under a name; empty if none is."""
    return next((point.value for point in entry_points(group="claimbook", name=name)), "")


def module(name: str) -> ModuleType:
    """The module that is declared under a name."""
    if not (path := declared(name)):
        raise BookError(f"no {name} declared: name its module in pyproject.toml, [project.entry-points.claimbook]")
    return import_module(path)


def folder(name: str) -> Path:
    """The folder of a package; nothing of a package without a parent is run."""
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise BookError(f"no package {name!r} here; correct [project.entry-points.claimbook] in pyproject.toml")
    return Path(next(iter(spec.submodule_search_locations)))
