"""Run benchmarks: print their tables, and write ``src/sumexp/measured/NAME.json``, which pages and chapters show."""

import argparse
from importlib import import_module
from pathlib import Path

NOT_ALONE = {"measure", "steps", "tensorflow_step"}
NAMES = sorted({path.stem for path in Path(__file__).parent.glob("[!_]*.py")} - NOT_ALONE | {"gpu-book"})
"""Each is `main` of its module, but `book` for the ending."""
ONE_CORE = {"batch", "catalogue", "ranking", "regularised", "relaxed", "retrieval"}
"""Measured with one thread unless another number is asked for; the others with two."""
BY_NAME = {"gpu", "gpu-book", "regularised"}
"""These take minutes or need a GPU: measured by name alone."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"which of: {', '.join(NAMES)} (default: all but {', '.join(sorted(BY_NAME))})",
    )
    parser.add_argument(
        "--threads", type=int, help=f"threads on the CPU (default 2; 1 for {', '.join(sorted(ONE_CORE))})"
    )
    parser.add_argument("--quick", action="store_true", help="smaller sizes, nothing written: to see that it runs")
    options = parser.parse_args()
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    for name in options.names or [name for name in NAMES if name not in BY_NAME]:
        module, _, part = name.partition("-")
        measure = getattr(import_module(f"benchmarks.{module}"), part or "main")
        measure(threads=options.threads or (1 if name in ONE_CORE else 2), quick=options.quick)


if __name__ == "__main__":
    main()
