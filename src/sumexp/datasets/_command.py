"""The command ``sumexp data``; ``list`` and ``verify`` need NumPy and nothing else."""

import argparse
import sys
import tomllib
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from sumexp import datasets


def main(arguments: Sequence[str]) -> None:
    """Run it; an error of a data set is one message on stderr and exit code 1."""
    options = _parser().parse_args(arguments)
    try:
        match options.action:
            case "list":
                print("\n".join(listing(options.data)))
            case "fetch":
                fetch(options.names, options.data)
            case "verify":
                verify(options.names, options.data)
    except datasets.DataError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


def _parser() -> argparse.ArgumentParser:
    command = argparse.ArgumentParser(prog="sumexp data", description="List, fetch and verify the data sets.")
    actions = command.add_subparsers(dest="action", required=True)
    for name, names, about in (
        ("list", "", "print every data set: its terms, whom to cite, its files, and whether it is there"),
        ("fetch", "+", "download what is missing of data sets, or of all, and verify all of each"),
        ("verify", "*", "compare the files with their checksums, by default of all sets that have a file there"),
    ):
        action = actions.add_parser(name, help=about, description=about)
        if names:
            action.add_argument("names", nargs=names, help="data sets, as `sumexp data list` names them")
        action.add_argument("--data", type=Path, help="folder; default: SUMEXP_DATA, else the user's cache folder")
    return command


def fetch(names: Sequence[str], data: Path | None) -> None:
    """Download data sets and verify them; raises `SystemExit` with code 1 at the end if one failed."""
    public = [each.name for each in datasets.DATASETS.values() if each.files and all(file.url for file in each.files)]
    wanted = public if "all" in names else names
    for name in wanted:
        _check_address(name, data)
    results = datasets.fetch_all(wanted, data)
    for name, result in results.items():
        if isinstance(result, datasets.DataError):
            print(f"error: {result}", file=sys.stderr)
        else:
            _report(name, result)
    if any(isinstance(result, datasets.DataError) for result in results.values()):
        sys.exit(1)


def verify(names: Sequence[str], data: Path | None) -> None:
    """Compare the files of data sets with their checksums."""
    folder = datasets.root(data)
    sets = datasets.DATASETS.values()
    names = names or [each.name for each in sets if any(file.below(folder).is_file() for file in each.files)]
    faults = []
    for name in names:
        try:
            _report(name, datasets.verify(name, data))
        except datasets.DataError as error:
            faults.append(str(error))
    if faults:
        raise datasets.DataError("\n".join(faults))
    if not names:
        print(f"{folder} holds no data set; to download one, run: sumexp data fetch NAME")


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
        volume = f"{size / 1e6:.1f} MB" if paths else "nothing to download"
        hint = f"run: sumexp data fetch {dataset.name}" if all(file.url for file in dataset.files) else "put them there"
        present = all(path.is_file() for path in paths)
        yield f"\n{dataset.name}: {dataset.description}"
        yield f"  licence: {dataset.licence}"
        yield f"  cite:    {dataset.citation}"
        yield f"  size:    {volume}"
        for path, file in zip(paths, dataset.files, strict=True):
            yield f"  file:    {path}"
            yield f"  source:  {file.url or 'no public address'}"
            yield f"  sha256:  {file.sha256}"
        yield f"  present: {'yes' if present else f'no; {hint}'}"
    for name, entry in elsewhere().items():
        yield f"\n{name}: {entry['description']}"
        yield f"  licence: {entry['licence']}"
        yield f"  cite:    {entry['citation']}"
        yield f"  size:    {entry['size']}"
        yield f"  source:  {entry['source']}"
        yield f"  files:   {', '.join(entry['files'])}"
        yield f"  present: not looked for; where you have them: {entry['read']}"


def _check_address(name: str, data: Path | None) -> None:
    if entry := elsewhere().get(name):
        raise datasets.DataError(
            f"data set {name!r} is not fetched, since no checksum of its files is published; get {entry['files'][0]} "
            f"and {entry['files'][1]} from {entry['source']}, then: {entry['read']}"
        )
    folder, dataset = datasets.root(data), datasets.DATASETS.get(name)
    if dataset and not all(file.url or file.below(folder).is_file() for file in dataset.files):
        raise datasets.DataError(
            f"data set {name!r} has no public address ({dataset.description}); put its files where `sumexp data list` "
            "says, or fetch what it is made of"
        )


def _report(name: str, paths: Sequence[Path]) -> None:
    for path in paths:
        print(f"{name}: {path} is verified")
    if not paths:
        print(f"{name}: needs no files")
