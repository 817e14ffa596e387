"""What a page says of its data: from which sets it was built, and what command makes it larger."""

from collections.abc import Collection
from html import escape

from IPython.display import HTML, display

from sumexp import datasets


def show(*names: str, grid: str = "", untrained: Collection[str] = ()) -> list[str]:
    """Show which data this run reads, and how to get what is not here; once, at the top of a notebook.

    Args:
        names: the data sets that the notebook would read if all were here.
        grid: the one whose runs it shows, if it shows any.
        untrained: those of the data sets on which the store has not all of that grid's runs.

    Returns the names of those that it reads: the ones that are here, or what stands in for them. Raises `DataError` if
    a data set is unknown or undeclared.
    """
    absent = [name for name in names if not datasets.available(name)]
    waiting = sorted(name for name in untrained if datasets.available(name))
    chosen = (datasets.DATASETS[name].instead if name in waiting else datasets.preferred(name) for name in names)
    used = list(dict.fromkeys(filter(None, chosen)))
    paragraphs = ["; ".join(escape(datasets.DATASETS[name].description) for name in used) + "."] if used else []
    if absent:
        size = sum(file.size for name in absent for file in datasets.DATASETS[name].files) / 1e6
        titles = ", ".join(datasets.DATASETS[name].title for name in absent)
        command = f"<code>sumexp data fetch {' '.join(absent)}</code>"
        paragraphs.append(f"It can read more: {command} fetches {escape(titles)} ({size:.1f} MB); then build it again.")
    if waiting:
        titles = ", ".join(datasets.DATASETS[name].title for name in waiting)
        command = f"<code>make runs GRID={grid}</code>"
        paragraphs.append(
            f"Models of {escape(titles)} take longer to train than a build may: {command} does it; then build it again."
        )
    text = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
    title = '<p class="admonition-title">Data that this page was built from</p>'
    display(HTML(f'<div class="admonition note">{title}{text}</div>'))  # type: ignore[no-untyped-call]
    return used
