"""What the benchmarks measured, in one table: each task here, by the best of what else does it, and by its floor."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sumexp.companion.pipeline.executions import table

Figures = Mapping[str, Any]
"""A file of ``benchmarks/results``, or a part of one."""

OTHER = "fastest other"
HEADS = {"size": "", "time": ":", OTHER: "", "of its time": ":", "of the floor": ":", "of its memory": ":"}
"""Columns, and on which side they are flush."""

NARROW = "\N{NARROW NO-BREAK SPACE}"
"""Between a number and its unit, which stay on one line."""
TIMES = "\N{NO-BREAK SPACE}×\N{NO-BREAK SPACE}"  # no line ends within a number
SEEN = 2**20
"""Bytes: the peak of a process tells no less apart."""
FULL = {
    "full": "F.cross_entropy on all classes",
    "chunked": "F.cross_entropy in chunks",
    "tensorflow": "TensorFlow's sampled softmax",
}


@dataclass(frozen=True)
class Row:
    """One task at one size: seconds here, of others by name, and the least that it can take, where that is known.

    ``memory`` is ours over that of the fastest other, None where one of the two is not known.
    """

    task: str
    size: str
    here: float
    others: Mapping[str, float]
    floor: float | None = None
    memory: Mapping[str, float] | None = None


def rows(results: Mapping[str, Figures]) -> list[Row]:
    """All tasks of all results that are there, in the order of ``READERS``."""
    return [row for name, read in READERS.items() if name in results for row in read(results[name])]


def compared(found: Sequence[Row]) -> str:
    """A table for each task, in MyST: ratios, since seconds are those of one machine."""
    tasks = dict.fromkeys(row.task for row in found)
    return "\n\n".join(_compared(task, [row for row in found if row.task == task]) for task in tasks)


def _compared(task: str, found: Sequence[Row]) -> str:
    """Its name and its table, without the columns that say nothing: a phone has room for five narrow ones."""
    columns = dict(zip(HEADS, zip(*map(_told, found), strict=True), strict=True))
    same = set(columns[OTHER]) == {columns[OTHER][0]}
    beside = f", beside {columns.pop(OTHER)[0]}" if same and columns[OTHER][0] else ""
    kept = {head: cells for head, cells in columns.items() if any(cells)}
    return f"**{task}**{beside}\n\n{table({head: HEADS[head] for head in kept}, zip(*kept.values(), strict=True))}"


def machines(results: Mapping[str, Figures]) -> str:
    """On what it was measured, in a sentence."""
    kinds = sorted({f"{one['machine']['cores']} cores ({one['machine']['cpu']})" for one in results.values()})
    versions = sorted({str(one["machine"]["torch"]) for one in results.values()})
    return f"Measured on {' and '.join(kinds)} with torch {', '.join(versions)}."


def _told(row: Row) -> tuple[str, ...]:
    """The cells of a row, in the order of ``HEADS``; empty where nothing is known."""
    name, best = min(row.others.items(), key=lambda item: item[1], default=("", None))
    memory = row.memory or {}
    return (
        row.size,
        _time(row.here),
        name,
        _ratio(row.here, best),
        _ratio(row.here, row.floor),
        _ratio(memory.get("here"), memory.get(name)),
    )


def _time(seconds: float) -> str:
    """Two digits and a unit that keeps them before the point, or near it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{_two(seconds / size)}{NARROW}{unit}"
    return f"{_two(seconds * 1e9)}{NARROW}ns"


def _ratio(here: float | None, other: float | None) -> str:
    """Ours over theirs: ``0.59``, and where it is far from 1, ``144`` or ``1/25,000``."""
    if here is None or other is None or min(here, other) <= 0:
        return ""
    ratio = here / other
    if ratio < 0.01:
        return f"1/{_two(1 / ratio)}"
    return f"{ratio:,.{2 if ratio < 9.995 else 1 if ratio < 99.95 else 0}f}"


def _two(value: float) -> str:
    """Two digits that count, without an exponent."""
    return f"{float(f'{value:.2g}'):,.{1 if value < 9.95 else 0}f}"


def _timed(case: Figures, here: str, others: Sequence[str]) -> dict[str, Any]:
    """Seconds and bytes, where what was measured has ``seconds`` and ``bytes``; what is absent or None is left out."""
    known = {name: case[name] for name in (here, *others) if case.get(name) is not None}
    return {
        "here": known[here]["seconds"],
        "others": {name: known[name]["seconds"] for name in others if name in known},
        "memory": {
            "here" if name == here else name: one["bytes"] for name, one in known.items() if one.get("bytes", 0) > SEEN
        },
    }


def _renamed(found: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {
        "here": found["here"],
        "others": {names.get(name, name): seconds for name, seconds in found["others"].items()},
        "memory": {names.get(name, name): size for name, size in found["memory"].items()},
    }


def _expectations(results: Figures) -> Iterator[Row]:
    for case in results["cases"]:
        others = {f"Monte Carlo, to {results['target']:g}": case["samples_log"] * case["sample"]}
        if case["direct"] is not None:
            others["the sum over all classes at each node"] = case["direct"]
        yield Row("The expected loss and its variance, exactly", f"{case['classes']:,} classes", case["spread"], others,
                  case["floor"])  # fmt: skip


def _draws(results: Figures) -> Iterator[Row]:
    peers = ("torch.multinomial", "DiscreteAliasUrn", "Generator.choice")
    named = {"DiscreteAliasUrn": "scipy's alias urn", "Generator.choice": "NumPy's choice"}
    for case in results["cases"]:
        found = _renamed(_timed(case, "Categorical", peers), named)
        floor = case["floor"]["seconds"]
        yield Row("Draws by popularity", f"{case['classes']:,} classes", floor=floor, **found)
    for step in results["steps"]:
        found = _timed(step, "sampled", ("full", "chunked"))
        yield Row("A training step, sampled", f"{step['classes']:,} classes", **_renamed(found, FULL))


def _batch(results: Figures) -> Iterator[Row]:
    for case in results["cases"]:
        for what, times in (("on scores", case["matrix"]), ("from two towers", case["towers"])):
            others = {name: times[name] for name in ("F.cross_entropy", "by hand")}
            memory = {"here": case["bytes"]["in_batch"], **{name: case["bytes"][name] for name in others}}
            size = f"{case['size']:,}{TIMES}{results['features']}"
            yield Row(f"In-batch loss {what}", size, times["in_batch"], others, memory=memory)
        whole = dict(case["whole"])
        yield Row("InfoNCE from unit vectors", size, whole.pop("in_batch"), whole)


def _ranking(results: Figures) -> Iterator[Row]:
    for case in results["cases"]:
        size = f"{case['lists']:,}{TIMES}{case['items']:,}"
        floor = case["topk(10)"]["seconds"]
        for ours, ranx, trec in (
            ("recall@10", "recall@10", "recall_10"),
            ("reciprocal_rank", "mrr", "recip_rank"),
            ("ndcg", "ndcg", "ndcg"),
        ):
            found = _timed(case, ours, (f"ranx {ranx}",))
            others = {"ranx": found["others"].get(f"ranx {ranx}", float("inf"))}
            tenth = case.get(f"pytrec_eval {trec}, a tenth of the lists")
            others |= {"pytrec_eval": 10 * tenth["seconds"]} if tenth else {}
            yield Row(f"Ranking: {ours.replace('_', ' ')}", size, found["here"], others, floor)
        yield Row("Ranks of all items", size, case["ranks"]["seconds"], {
            "numpy.argsort": case["numpy.argsort"]["seconds"]
        })  # fmt: skip


def _relaxed(results: Figures) -> Iterator[Row]:
    for case in results["cases"]:
        size, task = f"{case['rows']:,} rows", f"Relaxed draws of {case['classes']} classes with gradient"
        floor = case["softmax of normals"]["seconds"]
        gumbel = ("RelaxedOneHotCategorical", "F.gumbel_softmax")
        for noise, others in (("Gumbel", gumbel), ("Gaussian", ("relaxit",))):
            found = _timed(case, f"PerturbSoftmax, {noise}", others)
            yield Row(f"{task}, {noise}", size, floor=floor, **found)


def _moments(results: Figures) -> Iterator[Row]:
    for case in results["cases"]:
        others = {f"Monte Carlo, to {results['target']:g}": case["samples_mean"] * case["sample"]}
        size = f"{case['rows']:,}{TIMES}{case['classes']:,}"
        yield Row(f"The mean of a relaxed draw, exactly, {case['noise']}", size, case["mean"], others)


def _steps(results: Figures) -> Iterator[Row]:
    for step in results["steps"]:
        found = _renamed(_timed(step, "uniform", ("full", "tensorflow")), FULL)
        floor = step["uniform"]["moved"] / results["bandwidth"]
        yield Row("A step over many labels", f"{step['labels']:,} labels", floor=floor, **found)


def _vae(results: Figures) -> Iterator[Row]:
    alone = {one["device"]: one for one in results["cases"] if one["members"] == 0}
    for one in results["cases"]:
        if one["members"]:
            yield Row(f"VAE, {one['case']} loss, on {one['device']}", f"{one['members']} at once", one["step"],
                      {"torch.nn, one by one": alone[one["device"]]["step"]}, one["step"] / one["floors"])  # fmt: skip


READERS: Mapping[str, Callable[[Figures], Iterator[Row]]] = {
    "expectations": _expectations,
    "perturb": _moments,
    "negatives": _draws,
    "batch": _batch,
    "retrieval": _steps,
    "ranking": _ranking,
    "relaxed": _relaxed,
    "vae": _vae,
}
