"""The Sum of Exponentials: five papers on the softmax, executed.

Submodules are loaded when first named (``sumexp.expectations``), so that importing one of them does not
load, or make a notebook depend on, all the others.
"""

from importlib import import_module
from importlib.metadata import version
from pkgutil import iter_modules
from types import ModuleType

__version__: str


def _submodules() -> list[str]:
    return sorted(module.name for module in iter_modules(__path__))


def __getattr__(name: str) -> ModuleType | str:
    if name == "__version__":  # from what is installed: a release is no change of the code, which keys runs
        return version("sumexp")
    if name in _submodules():
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(_submodules())}")


def __dir__() -> list[str]:
    return [*globals(), *_submodules()]
