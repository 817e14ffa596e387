"""``sumexp data``: list, fetch and verify the data sets."""

from pathlib import Path
from typing import Annotated

import typer

data_app = typer.Typer(help="List, fetch and verify the data sets.", no_args_is_help=True)

Root = Annotated[
    Path | None, typer.Option("--data", help="Folder of the data; else SUMEXP_DATA, else the user's cache folder.")
]


@data_app.command("list")
def list_command(data: Root = None) -> None:
    """Print every data set: what it is, its terms, whom to cite, its files, and whether it is there."""
    from claimbook.cli.listing import listing

    typer.echo("\n".join(listing(data)))


@data_app.command("fetch")
def fetch_command(
    names: Annotated[list[str], typer.Argument(help="Data sets, as `sumexp data list` names them, or all.")],
    data: Root = None,
) -> None:
    """Download what is missing of data sets, and verify all of each; the exit code is 1 if one failed."""
    from sumexp import datasets

    public = [one.name for one in datasets.DATASETS.values() if one.files and all(file.url for file in one.files)]
    wanted = public if "all" in names else names
    for name in wanted:
        _check_address(name, data)
    results = datasets.fetch_all(wanted, data)
    for name, result in results.items():
        if isinstance(result, datasets.DataError):
            typer.echo(f"error: {result}", err=True)
        else:
            _report(name, result)
    if any(isinstance(result, datasets.DataError) for result in results.values()):
        raise typer.Exit(1)


@data_app.command("verify")
def verify_command(
    name: Annotated[
        str | None, typer.Argument(help="The data set; all that have a file there, if none is named.")
    ] = None,
    data: Root = None,
) -> None:
    """Compare the files of a data set with their checksums."""
    from sumexp import datasets

    folder = datasets.root(data)
    present = [one.name for one in datasets.DATASETS.values() if any(file.below(folder).exists() for file in one.files)]
    for each in [name] if name else present:
        _report(each, datasets.verify(each, data))
    if not (name or present):
        typer.echo(f"{folder} holds no data set; to download one, run: sumexp data fetch NAME")


def _check_address(name: str, data: Path | None) -> None:
    from claimbook.cli.listing import elsewhere
    from sumexp import datasets

    if said := elsewhere().get(name):
        raise datasets.DataError(
            f"data set {name!r} is not fetched, since no checksum of its files is published; get {said['files'][0]} "
            f"and {said['files'][1]} from {said['source']}, then: {said['read']}"
        )
    folder, dataset = datasets.root(data), datasets.DATASETS.get(name)
    if dataset and not all(file.url or file.below(folder).exists() for file in dataset.files):
        raise datasets.DataError(
            f"data set {name!r} has no public address ({dataset.description}); put its files where `sumexp data list` "
            "says, or fetch what it is made of"
        )


def _report(name: str, paths: list[Path]) -> None:
    for path in paths:
        typer.echo(f"{name}: {path} is verified")
    if not paths:
        typer.echo(f"{name}: needs no files")
