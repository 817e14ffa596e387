"""The command ``sumexp``: ``audit`` and ``data`` are of the library, all others of `claimbook`, which needs more."""

import contextlib
import io
import os
import runpy
import sys
from typing import NoReturn

import sumexp

INSTALL = "run in a copy of the book's sources: pip install '.[book]'"
"""A path, since the name on PyPI may not be ours."""
USAGE = f"""usage: sumexp [--help] [--version] COMMAND

Losses with sampled negatives, and exactly what they optimise.

  audit  say what training with your sampled negatives ends at, and what to change
  data   list, fetch and verify the data sets
  book, pdf, notebook, register, runs, why, clean
         build the book, and what belongs to it: python -m claimbook.cli --help

The commands of the last lines need more; for them, {INSTALL}"""


def main() -> None:
    """Run the command line; an error of the user's input is one message on stderr and exit code 1.

    The exit code is 130 for Ctrl-C and 141 for a closed pipe.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # names of classes and files may have any letters
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        match sys.argv[1:]:
            case ["audit", *arguments]:
                # Its matrices are too small to share: a second thread of BLAS doubles the time of a million classes.
                os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
                from sumexp.audit._command import main as audit

                audit(arguments)
            case ["data", *arguments]:
                from sumexp.datasets._command import main as data

                data(arguments)
            case ["--version"]:
                print(f"sumexp {sumexp.__version__}")
            case [] | ["-h" | "--help"]:
                print(USAGE)
            case _:
                runpy.run_module("claimbook.cli", run_name="__main__", alter_sys=True)
        print(end="", flush=True)  # raises here if the pipe is closed, not at the interpreter's end
    except ModuleNotFoundError as error:
        if (error.name or "sumexp").partition(".")[0] in ("sumexp", "claimbook"):
            raise
        _fail(f"{error.name} is not installed; to have all that the commands need, {INSTALL}")
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    except OSError as error:
        with contextlib.suppress(OSError, ValueError, AttributeError):  # the rest is flushed to nowhere at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            _fail("the output was closed before all was printed", 141)
        if sys.argv[1:] and sys.argv[1] not in ("audit", "data", "-h", "--help", "--version"):
            raise  # of claimbook, which words those of the disk itself
        _fail(str(error))


def _fail(message: str, code: int = 1) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
