"""Run every benchmark: print its table and write ``benchmarks/results/NAME.json``, which the chapters draw."""

import argparse

from benchmarks import audit, batch, expectations, kills, negatives, perturb, ranking, relaxed, retrieval, towers, vae

BENCHMARKS = {
    "audit": audit.main,
    "batch": batch.main,
    "expectations": expectations.main,
    "kills": kills.main,
    "negatives": negatives.main,
    "perturb": perturb.main,
    "ranking": ranking.main,
    "relaxed": relaxed.main,
    "retrieval": retrieval.main,
    "towers": towers.main,
    "vae": vae.main,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which of: {', '.join(BENCHMARKS)} (default: all)")
    parser.add_argument("--threads", type=int, default=2, help="threads on the CPU (default 2)")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, nothing written: to see that it runs")
    options = parser.parse_args()
    if unknown := set(options.names) - set(BENCHMARKS):
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    for name in options.names or BENCHMARKS:
        BENCHMARKS[name](threads=options.threads, quick=options.quick)


if __name__ == "__main__":
    main()
