"""The data and runs that a page was built from, and the commands that fetch or compute more."""

from collections.abc import Collection, Sequence
from html import escape
from typing import Any

from IPython.display import HTML, display

from sumexp import datasets


def show(*names: str, grid: str = "", shown: Collection[str] = (), seed: int = 0) -> list[str]:
    """Show in one line which data the notebook reads, and folded how to get the rest.

    Args:
        names: the data sets that the notebook can read.
        grid: the grid whose runs it shows, if any.
        shown: the data sets whose runs it shows, whether or not the data are available, and those without runs.
        seed: the notebook's; a grid has runs of seed 0.

    Returns the data sets that are read: the named ones or their fallbacks. Raises `DataError` for an unknown or
    undeclared data set.
    """
    absent = [name for name in names if not datasets.available(name) and name not in shown]
    waiting = sorted(set(names) - set(shown) - set(absent)) if grid else []
    chosen = (
        name if name in shown else datasets.DATASETS[name].instead if name in waiting else datasets.preferred(name)
        for name in names
    )
    used = list(dict.fromkeys(filter(None, chosen)))
    built = "; ".join(escape(datasets.DATASETS[name].description) for name in used)
    paragraphs = []
    if absent:
        size = sum(file.size for name in absent for file in datasets.DATASETS[name].files) / 1e6
        titles = ", ".join(datasets.DATASETS[name].title for name in absent)
        command = f"<code>sumexp data fetch {' '.join(absent)}</code>"
        paragraphs.append(f"It can read more: {command} fetches {escape(titles)} ({size:.1f} MB); then build it again.")
    if seed and grid:
        waiting += absent
    if waiting:
        titles = escape(", ".join(datasets.DATASETS[name].title for name in waiting))
        command = f"<code>make runs GRID={grid}</code>"
        longer = f"Models of {titles} take longer to train than a build: {command} does it; then build it again."
        alone = f"At profile <code>cpu</code> models of {titles} are trained with seed 0 alone."
        paragraphs.append(alone if seed else longer)
    text = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
    line = f"Data: {built}." if built else "Data: none."
    display(HTML(f'<details class="data-note"><summary>{line}</summary>{text}</details>'))  # type: ignore[no-untyped-call]
    return used


def origin(grid: str, runs: Sequence[Any]) -> None:
    """Show how many runs are behind the tables, when and on what they were computed, and how to recompute them."""
    dates = sorted(run.provenance.finished[:10] for run in runs)
    when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    where = " and ".join(sorted({run.provenance.device for run in runs}))
    torch = " and ".join(sorted({run.provenance.versions["torch"] for run in runs}))
    text = f"{len(runs)} runs, computed {when} on {where} with torch {torch}"
    brought = [run.brought for run in runs if run.brought is not None]
    if brought:
        profiles = sorted({run.line["profile"] for run in brought})
        options = (f" PROFILE={profile}" * (profile != "cpu") for profile in profiles)
        commands = " and ".join(f"<code>make runs GRID={grid}{option}</code>" for option in options)
        text += f"; they came with the book, and {commands} {'compute' if profiles[1:] else 'computes'} them anew."
    if any(run.is_stale for run in brought):
        text += f" Their code has changed since: <code>make check-results GRID={grid}</code> compares."
    display(HTML(f'<p class="origin">{text if brought else text + "."}</p>'))  # type: ignore[no-untyped-call]
