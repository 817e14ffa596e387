"""The command ``sumexp audit``, with what a bare installation has."""

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from typing import Any, NoReturn, get_args

import torch

from sumexp.audit import inputs
from sumexp.audit._report import write
from sumexp.audit._run import audit
from sumexp.audit._setup import NAMES, AuditError, Law, Weights
from sumexp.audit.estimates import NAMES as ESTIMATES
from sumexp.audit.results import Audit
from sumexp.audit.schemes import NAMES as SCHEMES
from sumexp.audit.schemes import Learned, learned
from sumexp.samplers import Hits

DEFAULTS = {name: value.default for name, value in signature(audit).parameters.items()}
"""Of the call, which are the command's."""


NOT_OF_SCHEMES = (
    "weights", "log_q", "estimated", "labels", "serving", "cosine", "sampled", "output", "full"
)  # fmt: skip
"""Options that only weighted softmax losses have."""


def parser() -> argparse.ArgumentParser:
    """The arguments of the command."""
    command = argparse.ArgumentParser(
        prog="sumexp audit", description="What your sampled loss converges to, and what to change.",
        epilog="Without scores the verdict can depend on what counts do not show; the audit then says so.",
    )  # fmt: skip
    add = command.add_argument
    add("counts", type=Path, help="how often each class is a label: a .csv, .tsv, .parquet or .npy file")
    add("--column", help="the column to count")
    add(
        "--holds",
        choices=["counts", "labels"],
        help="what the column holds: counts, one row per class, or labels, one row per example",
    )
    add("--classes", type=int, help="number of classes, if some never occur as a label")
    add(
        "--sampler",
        help=f"{', '.join(NAMES)}, or a distribution in an .npy file (default: within-batch)",
    )
    add(
        "--weights",
        choices=get_args(Weights),
        help="the correction of the logits (default: none); tries takes minutes if there are few negatives",
    )
    add("--scheme", help=f"a named loss, instead of weights: {', '.join(SCHEMES)}")
    add("--hits", choices=get_args(Hits), help="what happens to accidental hits (default: keep)")
    add("-m", type=int, help="negatives per example")
    add("--batch", type=int, help="examples per batch")
    add("--log-q", help="your own table of log q, an .npy file, if it is not the sampler's; or multiset")
    add("--estimated", help=f"how you estimate log q from the labels: {', '.join(ESTIMATES)}")
    add("--scores", type=Path, help="logits [examples, classes], .npy")
    add(
        "--embeddings",
        type=Path,
        nargs=2,
        metavar=("QUERIES", "ITEMS"),
        help="embeddings of both towers, .npy, instead of scores",
    )
    add("--temperature", type=float, help="temperature by which the scores are divided (default: 1)")
    add(
        "--cosine",
        action="store_true",
        help="scores are cosines over a temperature: which temperatures can represent log P",
    )
    add("--labels", type=Path, help="labels of some training examples, .npy, compared with the counts")
    add("--serving", type=Path, help="the same counts at serving time: how far the labels drift")
    add(
        "--sampled",
        nargs="+",
        default=[],
        metavar="METRIC=VALUE",
        help="metrics on sampled candidates, as in recall@10=.7",
    )
    add("--candidates", type=int, help=f"number of those candidates (default: {DEFAULTS['candidates']})")
    add(
        "--candidates-from",
        metavar="LAW",
        help=f"the distribution of those candidates (default: {DEFAULTS['candidates_from']})",
    )
    add("--examples", type=int, help=f"number of scored examples to audit (default: {DEFAULTS['examples']})")
    add("--seed", type=int, help="seed of the assumed truth without scores, and of an estimate (default: 0)")
    add("--output", type=Path, help="an .html report; its data go to .csv and .json files of the same name")
    add(
        "--memory",
        type=int,
        default=1 << 30,
        help="bytes available for a step's logits and their gradient (default: 2^30)",
    )
    add("--book", help="address or folder of the book's pages, for links from the report to its theorems")
    add("--full", action="store_true", help="also print the tables")
    return command


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; what ends it early is one line on stderr.

    The exit code is 1 for an error of what was given and for want of memory, 130 for Ctrl-C, 141 for a closed pipe.
    """
    try:
        _run(parser().parse_args(arguments))
        sys.stdout.flush()  # where a pipe is closed, this says so and not the interpreter's end
    except AuditError as error:
        _end(str(error), 1)
    except KeyboardInterrupt:
        _end("interrupted", 130)
    except BrokenPipeError:
        with contextlib.suppress(OSError, ValueError):  # what is left is flushed at the end, to nowhere
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _end("the output was closed before all was printed", 141)
    except MemoryError as error:
        _end(f"not enough memory: {str(error) or 'give fewer classes or examples'}", 1)


def _end(message: str, code: int) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(code)


def _run(options: argparse.Namespace) -> None:
    if options.scheme not in (None, "baseline"):
        print("\n".join(_learned(options).lines()))
        return
    result = _audit(options)
    if options.output is not None:
        write(result, options.output, options.book or "")
    print(result if options.full else "\n".join(result.lines()))
    if result.evaluation is not None and not options.full:
        print(
            f"evaluated on {result.evaluation.among}; full-catalogue metrics compatible with that: "
            f"{result.evaluation.ends}"
        )
    if options.output is not None:
        print(f"report    {options.output}")


def _learned(options: argparse.Namespace) -> Learned:
    for name in NOT_OF_SCHEMES:
        if getattr(options, name):
            raise AuditError(f"--{name.replace('_', '-')} is not known for --scheme {options.scheme}: leave it out")
    _without_effect(options)
    return learned(
        inputs.counts(options.counts, options.column, options.holds, options.classes), options.scheme,
        sampler=None if options.sampler is None else _law(options.sampler), hits=options.hits, m=options.m,
        batch=options.batch, scores=_scores(options), **_chosen(options, "examples", "seed"),
        temperature=1.0 if options.temperature is None else options.temperature,
    )  # fmt: skip


def _chosen(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """What is given of some options, and for the others what the call takes."""
    return {name: DEFAULTS[name] if (given := getattr(options, name)) is None else given for name in names}


def _scores(options: argparse.Namespace) -> inputs.Numbers | tuple[inputs.Numbers, inputs.Numbers] | None:
    if options.scores and options.embeddings:
        raise AuditError("both scores and embeddings are given; give one of them")
    if options.scores:
        return inputs.numbers(options.scores)
    if options.embeddings:
        queries, items = (inputs.numbers(path) for path in options.embeddings)
        return queries, items
    return None


def _audit(options: argparse.Namespace) -> Audit:
    if options.output is not None and options.output.suffix != ".html":
        raise AuditError(f"the report is {options.output}; its name must end in .html")
    if options.output is not None and not options.output.resolve().parent.is_dir():
        raise AuditError(f"there is no folder {options.output.resolve().parent} for the report")
    if options.output is not None:
        _spare(options)
    if options.examples is not None and options.examples < 1:
        raise AuditError(f"--examples is {options.examples}; it must be 1 or more")
    _without_effect(options)
    chosen = _chosen(options, "candidates", "candidates_from", "examples", "seed", "sampler")
    scheme = _chosen(options, "weights", "hits")
    if options.scheme == "baseline":
        if (options.weights or "negatives", options.hits or "mask") != ("negatives", "mask"):
            raise AuditError("baseline means weights negatives with hits masked; leave --weights and --hits out")
        scheme = {"weights": "negatives", "hits": "mask"}
    counts = inputs.counts(options.counts, options.column, options.holds, options.classes)
    log_q = options.log_q
    scores = _scores(options)
    return audit(
        counts, sampler=_law(chosen["sampler"]), **scheme, m=options.m,
        batch=options.batch, scores=scores,
        log_q=inputs.numbers(Path(log_q)) if log_q and log_q != "multiset" else log_q,
        estimated=options.estimated, temperature=options.temperature,
        labels=inputs.numbers(options.labels) if options.labels else None,
        serving=_serving(options) if options.serving else None, cosine=options.cosine,
        sampled=dict(map(_metric, options.sampled)) or None, candidates=chosen["candidates"],
        candidates_from=_law(chosen["candidates_from"]), examples=chosen["examples"], seed=chosen["seed"],
        memory=options.memory,
    )  # fmt: skip


def _without_effect(options: argparse.Namespace) -> None:
    """Stop where an option is given that would change nothing, for want of another."""
    scored = options.scores or options.embeddings
    for name, needed, there in (
        ("temperature", "--scores, --embeddings or --cosine", scored or options.cosine),
        ("examples", "--scores or --embeddings", scored),
        (
            "seed",
            "an assumed truth or --estimated: scores are given, so nothing is random",
            options.estimated or not scored,
        ),
        ("candidates", "--sampled, the metrics on those candidates", options.sampled),
        ("candidates_from", "--sampled, the metrics on those candidates", options.sampled),
        ("book", "--output, the report that it is for", options.output),
    ):
        if getattr(options, name) is not None and not there:
            raise AuditError(f"--{name.replace('_', '-')} does nothing without {needed}")


def _serving(options: argparse.Namespace) -> inputs.Numbers:
    return inputs.served(options.serving, options.counts, options.column, options.holds, options.classes)


def _law(name: str) -> Law:
    return torch.from_numpy(inputs.numbers(Path(name))) if name.endswith(".npy") else name


def _spare(options: argparse.Namespace) -> None:
    """Stop where the report, or its data, would overwrite a file that is read."""
    own = [name for name in (options.sampler, options.candidates_from) if name and name.endswith(".npy")]
    given = [
        options.counts,
        options.scores,
        options.labels,
        options.serving,
        *(options.embeddings or ()),
        options.log_q,
        *own,
    ]
    read = {Path(path).resolve() for path in given if path is not None}
    for suffix in (".html", ".csv", ".json"):
        path = options.output.with_suffix(suffix)
        if path.resolve() in read:
            raise AuditError(f"the report would overwrite {path}, which is read; give --output another name")


def _metric(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return name, float(value)
    except ValueError:
        raise AuditError(f"--sampled has {text!r}; write METRIC=VALUE, as in recall@10=0.7") from None
