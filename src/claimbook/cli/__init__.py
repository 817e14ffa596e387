"""The command line, ``claimbook``."""

import signal
import sys


def main() -> None:
    """Run the command line; a `BookError` is a message on stderr and exit code 1."""
    from claimbook import BookError, project
    from claimbook.cli.commands import app
    from claimbook.store import default, entries

    signal.signal(signal.SIGTERM, _end)
    try:
        app()
    except Exception as error:
        is_input = project.declared("datasets") and isinstance(error, project.module("datasets").DataError)
        is_full = entries.is_full(error) and not isinstance(error, BookError)
        if not (is_full or is_input or isinstance(error, BookError)):
            raise
        fix = f"; free space (claimbook clean), or name another store than {default().root} by SUMEXP_STORE"
        print(f"error: {error}{fix * is_full}", file=sys.stderr)
        sys.exit(1)


def _end(number: int, _: object) -> None:
    """End at once with all that was started; without this SIGTERM does nothing to the first process of a container."""
    from claimbook.store import processes

    processes.end(128 + number)
