"""The command ``sumexp audit``; it needs no optional dependency."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any, get_args

import numpy as np

from sumexp.audit import inputs
from sumexp.audit._report import write
from sumexp.audit._run import audit
from sumexp.audit._setup import NAMES, AuditError, Law, Weights, law_of, read_setup
from sumexp.audit.drift import measure
from sumexp.audit.results import Audit, Line, folded
from sumexp.audit.schemes import NAMES as SCHEMES
from sumexp.audit.schemes import learned
from sumexp.audit.serving import cosines
from sumexp.ranking.evaluation import fitting
from sumexp.samplers import Hits

DEFAULTS = {name: value.default for name, value in signature(audit).parameters.items()}
DEFAULTS |= {"candidates": 100, "candidates_from": "uniform"}
"""Defaults of the calls, which the command shares."""

NOT_OF_SCHEMES = ("weights", "log_q", "cosine")
"""Options that only weighted softmax losses have."""

UNIT = 0.01
"""How much a cosine may exceed 1, and the length of a unit vector differ from it, in half precision."""

INDEXED = ("scores", "embeddings", "log_q", "sampler", "candidates_from")
"""Options that may depend on the order of the classes."""


def parser() -> argparse.ArgumentParser:
    """The arguments of the command."""
    command = argparse.ArgumentParser(
        prog="sumexp audit", description="What your sampled loss converges to, and what to change.",
        epilog="Without scores the verdict can depend on what counts do not show; the audit then says so.",
    )  # fmt: skip
    add = command.add_argument
    add("counts", type=Path, help="a .csv, .tsv or .parquet file with a column of counts or of labels, or .npy counts")
    add("--column", help="the column of counts or labels")
    add("--holds", choices=["counts", "labels"], help="what it holds: a count per class, or a label per example")
    add("--ids", help="the column of the classes' ids, or position for the order of the rows")
    add("--header", action=argparse.BooleanOptionalAction, help="whether the first line has names")
    add("--classes", type=int, help="number of classes, if some never occur as a label")
    add("--sampler", help=f"{NAMES}, or a distribution in an .npy file (default: within-batch)")
    add("--weights", choices=get_args(Weights), help="the correction of the logits (default: none)")
    add("--scheme", help=f"a named loss, instead of weights: {', '.join(SCHEMES)}")
    add("--hits", choices=get_args(Hits), help="what happens to accidental hits (default: keep)")
    add("-m", type=int, help="negatives per example (default: of a batch, the others)")
    add("--batch", type=int, help="examples per batch")
    add("--log-q", help="your table of log q, an .npy file, if it is not the sampler's; or clipped:LEAST")
    add("--scores", type=Path, help="logits [examples, classes], .npy")
    add("--embeddings", type=Path, nargs=2, metavar=("QUERIES", "ITEMS"), help="embeddings of both towers, .npy")
    add("--temperature", type=float, help="temperature by which the scores are divided (default: 1, but for cosines)")
    add("--cosine", action="store_true", help="scores are cosines: which temperatures can represent log P")
    add("--serving", type=Path, help="counts or a log of served labels, new classes included: their drift")
    add("--sampled", nargs="+", action="extend", default=[], metavar="METRIC=VALUE", help="such as recall@10=.7")
    add("--candidates", type=int, help=f"number of those candidates (default: {DEFAULTS['candidates']})")
    add("--candidates-from", metavar="LAW", help=f"their distribution (default: {DEFAULTS['candidates_from']})")
    add("--examples", type=int, help=f"number of scored examples to audit (default: {DEFAULTS['examples']})")
    add("--seed", type=int, help="seed of the assumed truth without scores (default: 0)")
    add("--output", type=Path, help="an .html report; its data go to a .json file of the same name")
    add("--full", action="store_true", help="also print other schemes, the faults, what to serve, and what is assumed")
    return command


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; an error is one line on stderr, and the exit code 1, for too little memory too."""
    try:
        _run(parser().parse_args(arguments))
    except (AuditError, MemoryError) as error:
        print(f"error: {str(error) or 'not enough memory: give fewer classes or examples'}", file=sys.stderr)
        sys.exit(1)


def _run(options: argparse.Namespace) -> None:
    if options.output is not None:
        if options.output.suffix != ".html":
            raise AuditError(f"the report is {options.output}; its name must end in .html")
        if not options.output.resolve().parent.is_dir():
            raise AuditError(f"there is no folder {options.output.resolve().parent} for the report")
        _spare(options)
    if options.examples is not None and options.examples < 1:
        raise AuditError(f"--examples is {options.examples}; it must be 1 or more")
    _without_effect(options)
    read = inputs.tally(
        options.counts, options.column, options.holds, options.classes, ids=options.ids, header=options.header
    )
    indexed = [f"--{name.replace('_', '-')}" for name in INDEXED if _is_array(getattr(options, name))]
    if read.gap and indexed:
        raise AuditError(f"{options.counts}, as the columns of {indexed[0]}: {read.gap}")
    served = None
    if options.serving:
        served = inputs.served(options.serving, read, options.column, options.holds, options.header, options.ids)
    try:
        result = _audit(options, read, served)
    except AuditError as error:
        if inputs.NO_ZERO in read.says:
            raise AuditError(f"{error} ({inputs.NO_ZERO})") from error
        raise
    for each in (read, served) if served else (read,):
        print(folded(f"read      {each.says}"))
    print(result if options.full else result.short)
    if options.output is not None:
        write(result, options.output)
        print(f"report    {options.output}")


def _is_array(value: object) -> bool:
    """Whether an option's value depends on the order of the classes: an array, or the log-uniform law."""
    return bool(value) and not (isinstance(value, str) and not value.endswith((".npy", "log-uniform")))


def _audit(options: argparse.Namespace, read: inputs.Tally, served: inputs.Tally | None) -> Audit:
    """The audit, with the lines of all other calls."""
    counts, scores = read.counts, _scores(options)
    scored = {"scores": scores, "temperature": None if scores is None else options.temperature}
    common = {"m": options.m, "batch": options.batch, **scored, **_chosen(options, "examples", "seed")}
    if options.scheme not in (None, "baseline"):
        for name in NOT_OF_SCHEMES:
            if getattr(options, name):
                raise AuditError(f"--{name.replace('_', '-')} is not known for --scheme {options.scheme}: leave it out")
        law = None if options.sampler is None else _law(options.sampler)
        result = learned(counts, options.scheme, sampler=law, hits=options.hits, **common)
        return result.with_lines(*_lines(options, read, served))
    scheme = _chosen(options, "weights", "hits")
    if options.scheme == "baseline":
        if (options.weights or "negatives", options.hits or "mask") != ("negatives", "mask"):
            raise AuditError("baseline means weights negatives with hits masked; leave --weights and --hits out")
        scheme = {"weights": "negatives", "hits": "mask"}
    law, table = _law(_chosen(options, "sampler")["sampler"]), options.log_q
    if table is not None and not table.startswith("clipped:"):
        table = inputs.numbers(Path(table))
    result = audit(counts, sampler=law, **scheme, log_q=table, **common)
    lines = _lines(options, read, served)
    if options.cosine:
        prior = counts / counts.sum(dtype=float)
        setup = read_setup(prior, law, **scheme, m=options.m, batch=options.batch, table=table)
        lines = [*lines, cosines(prior, setup, options.temperature)]
    return result.with_lines(*lines)


def _lines(options: argparse.Namespace, read: inputs.Tally, served: inputs.Tally | None) -> list[Line]:
    """Drift and sampled metrics, which do not depend on the scheme."""
    counts, lines = read.counts, []
    if served:
        lines.append(measure(counts, served.counts).line())
    if options.sampled:
        given = _chosen(options, "candidates", "candidates_from")
        source, sampled = given["candidates_from"], dict(map(_metric, options.sampled))
        if len(sampled) < len(options.sampled):
            raise AuditError(f"--sampled has a metric twice: {' '.join(options.sampled)}; give each once")
        law = None if source == "uniform" else law_of(_law(source), counts / counts.sum(dtype=float))
        try:
            metrics = replace(fitting(sampled, len(counts), given["candidates"], law=law), sampler=source)
        except ValueError as error:
            raise AuditError(str(error)) from error
        says = f"evaluated on {metrics.among}; full-catalogue metrics compatible with that: {metrics.ends}"
        lines.append(Line("metrics", None, says))
    return lines


def _chosen(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """The values of some options, or their defaults."""
    return {name: DEFAULTS[name] if (given := getattr(options, name)) is None else given for name in names}


def _scores(options: argparse.Namespace) -> inputs.Numbers | tuple[inputs.Numbers, inputs.Numbers] | None:
    if options.scores and options.embeddings:
        raise AuditError("both scores and embeddings are given; give one of them")
    if options.scores:
        scores = inputs.numbers(options.scores)
        if options.cosine and np.abs(scores).max() > 1 + UNIT:
            raise AuditError(f"{options.scores} has a score of size {np.abs(scores).max():.3g}; cosines are at most 1: "
                             "give them before the division by the temperature")  # fmt: skip
        return scores
    if options.embeddings:
        queries, items = (inputs.numbers(path) for path in options.embeddings)
        for path, vectors in zip(options.embeddings, (queries, items), strict=True):
            norms = np.linalg.norm(np.atleast_1d(vectors), axis=-1) if options.cosine else np.ones(1)
            if np.abs(norms - 1).max() > UNIT:
                raise AuditError(f"{path} has vectors of length {norms.min():.3g} to {norms.max():.3g}; for --cosine "
                                 "give unit vectors")  # fmt: skip
        return queries, items
    return None


def _without_effect(options: argparse.Namespace) -> None:
    """Refuse options without an effect, and cosines whose temperature is unknown as scores."""
    scored = options.scores or options.embeddings
    if options.cosine and scored and options.temperature is None:
        raise AuditError("--cosine needs --temperature, by which the training divides these scores")
    for name, needed, present in (
        ("temperature", "--scores, --embeddings or --cosine", scored or options.cosine),
        ("examples", "--scores or --embeddings", scored),
        ("seed", "an assumed truth: scores are given, so nothing is random", not scored),
        ("candidates", "--sampled, the metrics on those candidates", options.sampled),
        ("candidates_from", "--sampled, the metrics on those candidates", options.sampled),
    ):
        if getattr(options, name) is not None and not present:
            raise AuditError(f"--{name.replace('_', '-')} does nothing without {needed}")


def _law(name: str) -> Law:
    if name.startswith(("union:", "distinct:")) and name.endswith(".npy") and not Path(name).is_file():
        raise AuditError(f"{name}: union and distinct take a law by its name, as in distinct:log-uniform")
    return inputs.numbers(Path(name)) if name.endswith(".npy") else name


def _spare(options: argparse.Namespace) -> None:
    """Refuse a report that would overwrite an input file."""
    given = [getattr(options, name) for name in ("counts", "serving", *INDEXED)]
    paths = [path for each in given if each for path in (each if isinstance(each, list) else [each])]
    read = {Path(path).resolve() for path in paths}
    for suffix in (".html", ".json"):
        path = options.output.with_suffix(suffix)
        if path.resolve() in read:
            raise AuditError(f"the report would overwrite {path}, which is read; give --output another name")


def _metric(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return name, float(value)
    except ValueError:
        raise AuditError(f"--sampled has {text!r}; write METRIC=VALUE, as in recall@10=0.7") from None
