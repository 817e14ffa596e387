"""The command line, ``sumexp``; without typer it says what to install, and does what needs nothing more."""

import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from sumexp import __version__

INSTALL = "run in a copy of the book's sources: pip install '.[book]'"
"""Not by its name alone, which on an index of packages may be another's."""
BARE = f"""usage: sumexp [--help] [--version] COMMAND

Losses with sampled negatives, and exactly what they optimise: what the package alone does.

  audit      say what training with your sampled negatives ends at, and what to change
  data list  print every data set: its terms, files, and whether it is there; --data FOLDER is where they are

The book's commands (book, register, runs, ...) need more; for them, {INSTALL}"""


def main() -> None:
    """Run the command line; an error of the person's input or surroundings is one message on stderr and exit code 1."""
    if sys.argv[1:2] == ["audit"]:  # needs nothing but the package, and so no typer
        # Its matrices are too small to share: a second thread of BLAS makes a million classes take twice as long.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        try:
            from sumexp.audit._command import main as audit
        except KeyboardInterrupt:  # while NumPy and torch are imported, for seconds
            _fail("interrupted", 130)
        audit(sys.argv[2:])
        return
    signal.signal(signal.SIGTERM, _end)
    try:
        try:
            from claimbook.cli.commands import app
        except ModuleNotFoundError as error:
            if error.name != "typer":
                raise
            _without_typer(sys.argv[1:])
        else:
            app()
    except ModuleNotFoundError as error:
        if (error.name or "sumexp").partition(".")[0] == "sumexp":
            raise
        _fail(f"{error.name} is not installed; to have all that the commands need, {INSTALL}")
    except Exception as error:
        from claimbook.store.location import in_words
        from sumexp.datasets import DataError  # imports NumPy, for which --help need not wait

        said = in_words(error) or (str(error) if isinstance(error, DataError) else "")
        if not said:
            raise
        _fail(said)


def _end(number: int, _: object) -> None:
    """End at once with all that was started; without this SIGTERM does nothing to the first process of a container."""
    from claimbook.store import processes

    processes.end(128 + number)


def _without_typer(arguments: list[str]) -> None:
    """The commands that the package alone has; ``audit`` was looked for before."""
    match arguments:
        case ["data", "list", *rest] if not rest or (rest[0] == "--data" and len(rest) == 2):
            from claimbook.cli.listing import listing

            print("\n".join(listing(Path(rest[1]) if rest else None)))
        case ["--version", *_]:
            print(f"sumexp {__version__}")
        case [] | ["data"] | [*_, "-h" | "--help"]:
            print(BARE)
        case _:
            _fail(
                f"this needs typer, which is not installed; for all commands, {INSTALL} "
                "(without it there are: sumexp audit, sumexp --version, sumexp data list)"
            )


def _fail(message: object, code: int = 1) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(code)
