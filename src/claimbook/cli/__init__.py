"""The command line, ``claimbook``."""

import signal
import sys


def main() -> None:
    """Run the command line; an error of input or of the disk is a message on stderr and exit code 1."""
    from claimbook import BookError, project
    from claimbook.cli.commands import app
    from claimbook.store import default, processes
    from claimbook.store.entries import is_of_disk

    # Without a handler SIGTERM does nothing to the first process of a container.
    signal.signal(signal.SIGTERM, lambda number, _: processes.end(128 + number))
    try:
        app()
    except Exception as error:
        is_input = project.declared("datasets") and isinstance(error, project.module("datasets").DataError)
        message = f"error: {error}"
        if is_of_disk(error):
            message += f"; free space (claimbook clean), or set SUMEXP_STORE ({default().root}) or TMPDIR to another "
            message += "folder; build/ needs a copy of the book that you can write to"
        elif not (is_input or isinstance(error, BookError)):
            raise
        print(message, file=sys.stderr)
        sys.exit(1)
