"""What ``sumexp data list`` prints; it needs NumPy and nothing else."""

import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

from sumexp import datasets


def elsewhere() -> dict[str, dict[str, Any]]:
    """Data sets that are read where a user has them, and not fetched: by name what is said of each."""
    return tomllib.loads(resources.files("sumexp.datasets").joinpath("elsewhere.toml").read_text("utf-8"))


def listing(data: Path | None = None) -> Iterator[str]:
    """Line by line every data set: what it is, its terms, whom to cite, its files, and whether they are there."""
    folder = datasets.root(data)
    yield f"data folder: {folder}"
    for dataset in datasets.DATASETS.values():
        paths = [file.below(folder) for file in dataset.files]
        size = sum(file.size for file in dataset.files)
        volume = "not known before it is fetched" if paths else "nothing to download"
        if size:
            volume = f"{'' if all(file.size for file in dataset.files) else 'more than '}{size / 1e6:.1f} MB"
        hint = f"run: sumexp data fetch {dataset.name}" if all(file.url for file in dataset.files) else "put them there"
        present = all(path.exists() for path in paths)
        yield f"\n{dataset.name}: {dataset.description}"
        yield f"  licence: {dataset.licence}"
        yield f"  cite:    {dataset.citation}"
        yield f"  size:    {volume}"
        for path, file in zip(paths, dataset.files, strict=True):
            yield f"  file:    {path}"
            yield f"  source:  {file.url or 'no public address'}"
            yield f"  sha256:  {file.sha256}" if file.sha256 else f"  git id:  {file.blob}"
        yield f"  present: {'yes' if present else f'no; {hint}'}"
    for name, said in elsewhere().items():
        yield f"\n{name}: {said['description']}"
        yield f"  licence: {said['licence']}"
        yield f"  cite:    {said['citation']}"
        yield f"  size:    {said['size']}"
        yield f"  source:  {said['source']}"
        yield f"  files:   {', '.join(said['files'])}"
        yield f"  present: not looked for; where you have them: {said['read']}"
