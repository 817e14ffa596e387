"""Run benchmarks: print their tables, and write ``src/sumexp/measured/NAME.json``, which pages and chapters show."""

import argparse

from benchmarks import (
    batch,
    catalogue,
    decisions,
    expectations,
    fuzz,
    gpu,
    negatives,
    perturb,
    ranking,
    regularised,
    relaxed,
    retrieval,
    vae,
)

BENCHMARKS = {
    "batch": batch.main,
    "catalogue": catalogue.main,
    "decisions": decisions.main,
    "expectations": expectations.main,
    "fuzz": fuzz.main,
    "gpu": gpu.main,
    "gpu-book": gpu.book,
    "negatives": negatives.main,
    "perturb": perturb.main,
    "ranking": ranking.main,
    "regularised": regularised.main,
    "relaxed": relaxed.main,
    "retrieval": retrieval.main,
    "vae": vae.main,
}
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
        help=f"which of: {', '.join(BENCHMARKS)} (default: all but {', '.join(sorted(BY_NAME))})",
    )
    parser.add_argument(
        "--threads", type=int, help=f"threads on the CPU (default 2; 1 for {', '.join(sorted(ONE_CORE))})"
    )
    parser.add_argument("--quick", action="store_true", help="smaller sizes, nothing written: to see that it runs")
    options = parser.parse_args()
    if unknown := set(options.names) - set(BENCHMARKS):
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    for name in options.names or [name for name in BENCHMARKS if name not in BY_NAME]:
        BENCHMARKS[name](threads=options.threads or (1 if name in ONE_CORE else 2), quick=options.quick)


if __name__ == "__main__":
    main()
