"""The command line, ``claimbook``."""

import signal
import sys


def main() -> None:
    """Run the command line; a `BookError` is a message on stderr and exit code 1."""
    from claimbook.cli.commands import app

    signal.signal(signal.SIGTERM, _end)
    try:
        app()
    except Exception as error:
        from claimbook import project
        from claimbook.store.location import in_words

        said = in_words(error)
        if project.declared("datasets") and isinstance(error, project.module("datasets").DataError):
            said = str(error)
        if not said:
            raise
        print(f"error: {said}", file=sys.stderr)
        sys.exit(1)


def _end(number: int, _: object) -> None:
    """End at once with all that was started; without this SIGTERM does nothing to the first process of a container."""
    from claimbook.store import processes

    processes.end(128 + number)
