"""The staged book as pages: Sphinx in this process, on several cores; what has not changed is not read again.

A change of a page's own text costs that page's reading and writing only; where what pages show of each other changes,
all are written (`incremental_html`). So they are the same bytes whether anything was read before or not.
"""

import gc
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from filecmp import cmp
from functools import cache
from hashlib import sha256
from importlib.metadata import distributions
from io import StringIO
from pathlib import Path
from shutil import copy2, copytree, rmtree
from tempfile import TemporaryDirectory
from typing import Any
from warnings import catch_warnings, filterwarnings

import sumexp
from sumexp.companion import CompanionError

_SHOWN = 20
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def render(stage: Path, output: Path, *, jobs: int, cache: Path | None) -> None:
    """Render the staged book into ``output``, which is made anew.

    Args:
        stage: the folder that ``staging.stage`` has laid out.
        output: the folder of the pages.
        jobs: how many processes read and write.
        cache: a folder that keeps what was read for the next time; ``None`` keeps nothing.

    Raises:
        CompanionError: if Sphinx warns or fails; the message has what it says. ``output`` is then left as it was.
    """
    from filelock import FileLock

    if cache is not None:
        cache.mkdir(parents=True, exist_ok=True)
        with FileLock(cache / "lock"):
            _render(stage, output, jobs, cache.resolve())
    else:
        with TemporaryDirectory(dir=output.parent, prefix=".pages-") as folder:
            _render(stage, output, jobs, Path(folder).resolve())


def _render(stage: Path, output: Path, jobs: int, work: Path) -> None:
    from sumexp.companion.pipeline import incremental_html

    source, trees, html, made_with = (work / name for name in ("source", "trees", "html", "made-with"))
    before = html.with_name(incremental_html.BEFORE)
    fingerprint = _fingerprint(stage)
    if not made_with.exists() or made_with.read_text("utf-8") != fingerprint:
        for folder in (trees, html):
            rmtree(folder, ignore_errors=True)
    made_with.unlink(missing_ok=True)
    rmtree(before, ignore_errors=True)
    if html.exists():
        html.rename(before)
    _mirror(stage, source)
    warnings = _sphinx(source, html, trees, jobs, incremental_html.__name__)
    if warnings:
        # What was read with a warning must be read, and warned of, again: it is not marked as made.
        raise CompanionError("\n".join(["the book could not be rendered; Sphinx says:", *warnings[-_SHOWN:]]))
    (html / ".buildinfo").unlink(missing_ok=True)  # a digest of settings, among them where this was read from
    made_with.write_text(fingerprint, "utf-8")
    rmtree(output, ignore_errors=True)
    copytree(html, output)  # what is kept here is written over the next time


def _sphinx(source: Path, html: Path, trees: Path, jobs: int, extension: str) -> list[str]:
    """Run Sphinx with one extension more than the book asks for; returns its warnings and, if it failed, why."""
    from jupyter_book.config import get_final_config
    from sphinx.application import Sphinx
    from sphinx.errors import SphinxError
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    said = StringIO()
    own: dict[str, Any] = {"external_toc_path": "_toc.yml", "latex_individualpages": False}
    with _uncollected(), _extensions_of(source), patch_docutils(None), docutils_namespace(), catch_warnings():
        # sphinx-external-toc looks at every object there is, and torch warns when one of its own is looked at.
        filterwarnings("ignore", "`torch.distributed.reduce_op` is deprecated", FutureWarning)
        try:
            settings, _ = get_final_config(user_yaml=source / "_config.yml", cli_config=own, sourcedir=source)
            settings["extensions"] = [*settings["extensions"], extension]
            app = Sphinx(source, None, html, trees, "html", settings, None, said, parallel=jobs)
            app.build()
        except SphinxError as error:
            said.write(f"{error}\n")
    text = _COLOUR.sub("", said.getvalue()).replace(f"{source}/", "")
    return [f"  {line}" for line in text.splitlines() if line.strip()]


@contextmanager
def _uncollected() -> Iterator[None]:
    """Look for no garbage meanwhile: trees of pages are many objects that stay, gone through each time for nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def _extensions_of(source: Path) -> Iterator[None]:
    """Forget the book's own extensions afterwards: the next book has its own."""
    path = list(sys.path)
    try:
        yield
    finally:
        sys.path[:] = path
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(f"{source}/"):
                del sys.modules[name]


def _fingerprint(stage: Path) -> str:
    """A digest of everything but pages that decides how they are read: settings, extensions, docstrings, versions."""
    package = Path(sumexp.__path__[0])
    read = (".md", ".ipynb", ".json", ".csv")
    others = [file for file in stage.rglob("*") if file.is_file() and file.suffix not in read]
    total = sha256()
    for root, files in ((stage, others), (package, package.rglob("*.py"))):
        for file in sorted(files):
            total.update(f"{file.relative_to(root)}\0{sha256(file.read_bytes()).hexdigest()}\0".encode())
    total.update("\0".join([sys.version, *_versions()]).encode())
    return total.hexdigest()


@cache
def _versions() -> tuple[str, ...]:
    """All that is installed, with its version; each file that says so takes a millisecond to read."""
    told = (item.metadata for item in distributions())
    return tuple(sorted(f"{one['Name']}=={one['Version']}" for one in told))


def _mirror(stage: Path, source: Path) -> None:
    """Make ``source`` the same as ``stage``, touching only files that differ, as Sphinx goes by their dates."""
    wanted = {file.relative_to(stage) for file in stage.rglob("*") if file.is_file()}
    present = {file.relative_to(source) for file in source.rglob("*") if file.is_file()}
    for name in present - wanted:
        (source / name).unlink()
    for name in wanted:
        old, new = source / name, stage / name
        if name not in present or not cmp(old, new, shallow=False):
            old.parent.mkdir(parents=True, exist_ok=True)
            copy2(new, old)
            old.touch()  # never a date of before the last reading
