"""Mutants: a seeded sample of small changes to the code, each of which some test should notice.

One change at a time (a comparison, an operator, a number, a condition, a statement left out) is made in a copy of the
project, and the tests that name the module run there until one fails. What no test notices survives: it needs a test,
or is shown to be equivalent in ``EQUIVALENT``, or its code goes.

A sampler of our own, since neither mutmut nor cosmic-ray draws a seeded sample across modules, gives each module its
own tests, or limits the time on the processor, which alone is the same on a busy machine; and mutmut's copies of
functions are not those whose code the store's keys are made of.
"""

import argparse
import ast
import json
import multiprocessing
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import psutil
import pytest

from benchmarks import measure

PACKAGE = Path("src/sumexp")
TESTS = Path("tests")
SPECIAL = {TESTS / "book", TESTS / "accelerator"}
"""Tests that need the whole book, or an accelerator."""
MACHINERY = "companion"
PARTS = ("subject", "machinery")
PATIENCE = 600
"""Seconds on the clock, which runs on while another has the processor."""
STILL = 60
"""Seconds without work after which a test hangs."""
HANGS = 99
"""No exit code of pytest's."""
MODULES = 8
"""The most test modules that are tried on a mutant, its own first."""

SWAPS: dict[type[ast.AST], tuple[type[ast.AST], str]] = {
    ast.Lt: (ast.LtE, "<="), ast.LtE: (ast.Lt, "<"), ast.Gt: (ast.GtE, ">="), ast.GtE: (ast.Gt, ">"),
    ast.Eq: (ast.NotEq, "!="), ast.NotEq: (ast.Eq, "=="), ast.In: (ast.NotIn, "not in"), ast.NotIn: (ast.In, "in"),
    ast.Is: (ast.IsNot, "is not"), ast.IsNot: (ast.Is, "is"), ast.Add: (ast.Sub, "-"), ast.Sub: (ast.Add, "+"),
    ast.Mult: (ast.Div, "/"), ast.Div: (ast.Mult, "*"), ast.FloorDiv: (ast.Mult, "*"), ast.Pow: (ast.Mult, "*"),
    ast.And: (ast.Or, "or"), ast.Or: (ast.And, "and"),
}  # fmt: skip

PRELOADED = ("torch", "scipy.stats", "scipy.optimize", "matplotlib.pyplot", "pytest", "nbformat")
"""What most tests import: a process forked from one that has it starts its tests seconds earlier."""
FORK = multiprocessing.get_context("forkserver")

LOOKS = {
    "alpha", "aspect", "capsize", "color", "constrained_layout", "dpi", "ensure_ascii", "figsize", "fontsize",
    "frameon", "gridspec_kw", "handlelength", "height_ratios", "hspace", "indent", "labelpad", "linestyle",
    "linewidth", "loc", "lw", "marker", "markersize", "pad", "refresh_per_second", "rotation", "s", "width_ratios",
    "wspace", "xytext", "zorder",
}  # fmt: skip
"""Arguments of drawings, which only an eye can judge, and of how JSON is laid out: not changed."""
TYPED = {"frozen"}
"""Arguments that the type checker holds all code to: not changed."""

NOTICED = ("FAILED", "ERROR", "INTERNALERROR", "ImportError while loading conftest")
"""How a line begins by which pytest says that a test fails, or cannot even be read or run."""

EQUIVALENT: dict[str, str] = {
    "src/sumexp/audit/_tries.py: 1 -> 2, in: grid = np.unique(np.concatenate([low + np.round("
    "np.geomspace(1, high - low + 1, 60)).astype(np.int64) - 1,": "the ends are among the evenly spaced points as well",
    "src/sumexp/audit/_sets.py: 0.0 -> 1.0, in: seen = np.where(s < FAINT, s, 0.0)": "it multiplies less than e^-200",
    "src/sumexp/audit/_sets.py: 1e-300 -> 2e-300, in: smooth = CubicSpline(np.log(values), np.log(np.maximum(chance, "
    "1e-300)))": "either is beyond what is drawn",
    "src/sumexp/audit/_sets.py: 35.0 -> 70.0": "where a table that is made again begins",
    "src/sumexp/audit/_sets.py: math.log(m) - 0.01 -> (math.log(m) + 0.01)": "any radius near the best serves",
    "src/sumexp/audit/_sets.py: 2 -> 3, in: for _ in range(2):  # a second, finer table where the density is": "a third "
    "table has the same ends",
    "src/sumexp/audit/_tries.py: more**2 * (c - 2 * b * k + a * k**2) / np.maximum(a * c - b * b, 1e... -> (more ** 2 * "
    "(c - 2 * b * k + a * k ** 2) / np.maximum(a * c - b * ...": "a boundary that nothing hits",
    "src/sumexp/bias/minimax.py: 2 -> 3, in: elif k > 2 * at + 2 and 2 * bound < best:": "the search has ended anyway",
    "src/sumexp/bias/minimax.py: 2 * bound -> (2 / bound)": "the search has ended anyway",
    "src/sumexp/companion/authoring/interactive_figures/longtail.py: -1 -> (1), in: "
    "return np.stack([rankdata(-np.round(places[:, 0] / 1e-3)), rankdata(places[:, 1])], -1)": "the last of two axes",
    "src/sumexp/companion/authoring/interactive_figures/nce.py: information >= math.log(VALUES) -> (information > "
    "math.log(VALUES))": "the search for the share would end at 1 as well",
    'src/sumexp/companion/authoring/interactive_figures/nce.py: 5 -> 6, in: Control("candidates $N$", [f"{n:,}" for n in '
    "CANDIDATES], 5),": "which setting is shown first",
    "src/sumexp/companion/authoring/interactive_figures/negatives.py: 8 -> 9, in: _LOOKS: dict[Weights, tuple[str, "
    'tuple[int, ...]]] = {"importance": ("vermilion", ()), "relative": ("blue", (8, 4))}': "how a line is dashed",
    "src/sumexp/companion/authoring/interactive_figures/perturb.py: 25 -> 26, in: POINTS = 25": "no eye sees one point more",
    "src/sumexp/companion/authoring/interactive_figures/perturb.py: 4 -> 5, in: "
    'Line("line $(t, 2t, 3t)$", "vermilion", (2, 4), {0: drawn[1]}, third),': "how a line is dashed",
    "src/sumexp/companion/authoring/interactive_figures/perturb.py: 1 -> 2, in: "
    "flat = np.full((1, 1, len(TEMPERATURES)), missed(plain))": "the page leaves out axes along which all is equal",
    "src/sumexp/companion/authoring/interactive_figures/perturb.py: 1 -> 2, in: "
    "far = torch.logspace(0, 1, 13, dtype=torch.float64)[1:] * 3": "where a curve has points near its end; the areas "
    "are the same to 1e-4",
    "src/sumexp/companion/authoring/interactive_figures/perturb.py: 37 -> 38, in: "
    "near = torch.linspace(0, 3, 37, dtype=torch.float64)": "how many points a curve has before some are left out",
    'src/sumexp/companion/authoring/interactive_figures/promises.py: 2 -> 3, in: Control("items $L$", '
    '[f"{n:,}" for n in ITEMS], 2),': "which setting is shown first",
    "src/sumexp/companion/authoring/interactive_figures/promises.py: 3 -> 4, in: PLACES = (1, 3, 10, 100)": "a choice of places",
    "src/sumexp/companion/authoring/interactive.py: 1 -> 2, in: "
    "return places.reshape(*places.shape[:-2], -1)": "any negative length is one for NumPy to find",
    "src/sumexp/companion/authoring/runs.py: False -> True, in: "
    "for fault in error.errors(include_url=False)": "the address is among what is not said",
    "src/sumexp/companion/pipeline/book.py: BUILD.mkdir(exist_ok=True) -> pass": "the lock makes its folder as well",
    "src/sumexp/companion/pipeline/book.py: 0 -> 1, in: "
    'with FileLock(BUILD / ".lock", timeout=0):': "how long it waits before it names the other build",
    "src/sumexp/companion/pipeline/pages.py: 1 -> 2, in: "
    "_render(plan, chapters(plan), evidence(plan), Path(name), 1)": "in how many processes first pages are rendered",
    "src/sumexp/companion/register/graph.py: -1 -> (1), in: depth[node] = 1 + max((depth[other] for other in "
    "edges[node]), default=-1)": "two layers more above all others, which are empty and left out",
    'src/sumexp/chapters/longtail/grids.py: 8 -> 9, in: "cpu": '
    '{source: Plan(5, (32, 8, 96), (20, 9), fresh=20) for source in ("cifar-100", "cifar-100-small")},': "our choice",
    "src/sumexp/chapters/models/multilabel.py: 16 -> 17, in: "
    '"shakespeare": replace(_WORDS, width=32, epochs=3, batch=32, queries=100, pairs=16),': "a budget of a smoke run",
    "src/sumexp/nce/gaussians.py: -1 -> (1), in: "
    "w = np.exp(np.linspace(low, high, nodes, axis=-1))": "the last of two axes",
    "src/sumexp/negatives/race.py: 20.0 -> 40.0": "two ids come before e^-20 with a chance of 2e-18",
    "src/sumexp/expectations/_sums.py: -1 -> (1), in: "
    "masses = sum_terms([points[j].roll(j + 1 - POINTS // 2, -1) for j in range(POINTS)])": "the last of two axes",
    "src/sumexp/nce/global_nce.py: 1e-12 -> 2e-12, in: tol: float = 1e-12,": "what is computed keeps to either",
    "src/sumexp/negatives/implicit.py: 1.0 -> 2.0, in: "
    "near = torch.exp(-t * mean) * torch.expm1(exponent.clamp_max(1.0))": "above 1 the next line takes another formula",
    "src/sumexp/distributions.py: 1.0 -> 2.0, in: "
    "log_x, d = value.masked_fill(value <= 0, 1.0).log(), value.shape[-1]": "such a row ends as -inf anyhow",
    "src/sumexp/ranking/sampled.py: 22 -> 23": "how much is held at a time",
    "src/sumexp/ranking/sampled.py: m * p -> (m / p), in: low = -torch.log(m * p)": "a search begins lower",
    "src/sumexp/chapters/retrieval/grids.py: 5 -> 6, in: _WORDS = Plan(5, 64, 2, width=64)": "our choice",
    "src/sumexp/perturb/noises.py: 0 -> 1, in: return min(max(42.0, tau * (FAR - low)), 42 / spare if spare > 0 else "
    "math.inf)": "the rule goes on where nothing is left",
    "src/sumexp/perturb/noises.py: 42 -> 43, in: return min(max(42.0, tau * (FAR - low)), 42 / spare if spare > 0 else "
    "math.inf)": "the rule goes on where nothing is left",
    "src/sumexp/chapters/towers.py: True -> False, in: optimiser = torch.optim.Adam(towers.parameters(), lr=setting.rate, "
    "fused=True)": "the same steps, computed at another speed",
    "src/sumexp/expectations/_transforms.py: -1 -> (1), in: "
    "log_mean = deviation.mean(-1, keepdim=True).log()": "the last of two axes",
    "src/sumexp/expectations/_laws.py: 2 -> 3, in: RECURSION_LIMIT = 2 * 10**10": "our choice of how much is refused",
    'src/sumexp/chapters/models/multilabel.py: 400 -> 401, in: "shakespeare": replace(_WORDS, width=256, epochs=30, '
    "queries=400, pairs=400),": "our choice",
    "src/sumexp/perturb/softmax.py: BLOCK // (classes * nodes.count) -> (BLOCK * (classes * nodes.count))": "how much "
    "is held at a time",
    "src/sumexp/audit/_tries.py: 32 -> 33, in: low, length = m, 32": "a search for a range begins higher",
    "src/sumexp/audit/_tries.py: 10 -> 11, in: "
    "most, start, length = max(points, (high - low) // 10), low, points": "how finely a sum is cut",
}
"""Changes that no test can notice, each by its name, or by its name and place, and with the reason."""


@dataclass(frozen=True)
class Mutant:
    """One change: the bytes from ``start`` to ``end`` of a file become ``after``."""

    file: str
    line: int
    start: int
    end: int
    before: str
    after: str
    within: str

    @property
    def name(self) -> str:
        """The file, what stood there, and what stands there now; lines move, and are no part of it."""
        return f"{self.file}: {_short(self.before)} -> {_short(self.after)}"

    @property
    def place(self) -> str:
        """The name, with the line where it is: of many changes of one number in a file it tells which."""
        return f"{self.name}, in: {self.within}"

    @property
    def equivalent(self) -> str | None:
        """Why no test can notice it, if that is known."""
        return EQUIVALENT.get(self.place, EQUIVALENT.get(self.name))


def mutants(file: Path) -> list[Mutant]:
    """All changes of a file, in order; none in docstrings, annotations, imports, what an error says or ``LOOKS``."""
    source = file.read_bytes()
    begins = [0]
    lines = source.decode().splitlines()
    for line in source.splitlines(keepends=True):
        begins.append(begins[-1] + len(line))
    found = []
    for node, after in _changes(ast.parse(source)):
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start, end = begins[node.lineno - 1] + node.col_offset, begins[node.end_lineno - 1] + node.end_col_offset
        before = source[start:end].decode()
        found.append(Mutant(str(file), node.lineno, start, end, before, after, lines[node.lineno - 1].strip()))
    return found


def _changes(node: ast.AST) -> Iterator[tuple[Any, str]]:
    """A node and the code that takes its place."""
    match node:
        case ast.Compare(ops=[one]) if type(one) in SWAPS:
            yield node, ast.unparse(ast.Compare(node.left, [_swapped(one)], node.comparators)).join("()")
        case ast.BinOp(left=left, op=one, right=right) if type(one) in SWAPS and not _is_text(left, right):
            yield node, ast.unparse(ast.BinOp(left, _swapped(one), right)).join("()")
        case ast.BoolOp(op=one, values=values):
            yield node, ast.unparse(ast.BoolOp(_swapped(one), values)).join("()")
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=inner):
            yield node, ast.unparse(inner).join("()")
        case ast.Constant(value=bool(value)):
            yield node, str(not value)
        case ast.Constant(value=int(value)):
            yield node, str(value + 1)
        case ast.Constant(value=float(value)):
            yield node, repr(2 * value if value else 1.0)
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            yield node, "pass"
        case ast.If(test=test) | ast.IfExp(test=test):
            yield test, ast.unparse(ast.UnaryOp(ast.Not(), test)).join("()")
    for child in _children(node):
        yield from _changes(child)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Raise() | ast.Import() | ast.ImportFrom() | ast.JoinedStr():
            return
        case ast.keyword(arg=name) if name in LOOKS | TYPED:
            return
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if not isinstance(key, ast.Constant):
                    yield from [key, value] if key else [value]
                elif key.value not in LOOKS:
                    yield value
        case ast.AnnAssign(value=value):
            yield from [value] if value else []
        case ast.FunctionDef(args=arguments, body=body):
            yield from (one for one in (*arguments.defaults, *arguments.kw_defaults) if one)
            yield from body
        case _:
            yield from ast.iter_child_nodes(node)


def _swapped(operator: Any) -> Any:
    return SWAPS[type(operator)][0]()


def _is_text(*sides: ast.AST) -> bool:
    return any(isinstance(one, ast.JoinedStr) or isinstance(getattr(one, "value", None), str) for one in sides)


def tests_of(file: Path) -> list[str]:
    """The test modules that reach a module: its own first, then those of its package that name it, then the others of
    its package, which may reach it under the package's name, then those that import it.

    Where the tests have no folder for the package, those of the package above are meant. A module without tests of its
    own is tried on those, too, that import what imports it, such as the command that it is a part of.
    """
    package = file.relative_to(PACKAGE).parent
    word = file.stem.strip("_") if file.stem != "__init__" else file.parent.name
    folder = next(one for one in (TESTS / package, *(TESTS / package).parents) if one.is_dir())
    imported = _imported(file)
    further = [_imported(one) for one in PACKAGE.rglob("*.py") if imported.search(one.read_text("utf-8"))]
    ranks = {}
    for test in sorted(TESTS.rglob("test_*.py")):
        source = test.read_text("utf-8")
        if test.parent == folder and test.stem == f"test_{word}":
            ranks[test] = 0
        elif test.parent == folder:
            ranks[test] = 1 if word in source else 2
        elif SPECIAL & {*test.parents}:
            continue
        elif imported.search(source):
            ranks[test] = 3
        elif any(one.search(source) for one in further):
            ranks[test] = 4
    if 0 in ranks.values():
        ranks = {test: rank for test, rank in ranks.items() if rank < 4}
    return [str(test) for test in sorted(ranks, key=lambda test: ranks[test])[:MODULES]]


def _imported(file: Path) -> re.Pattern[str]:
    """What a test has that imports a module: ``a.b.name``, or ``from a.b import ..., name``."""
    *above, name = file.relative_to(PACKAGE.parent).with_suffix("").parts
    if name == "__init__":
        *above, name = above
    return re.compile(rf"\b{re.escape('.'.join(above))}(\.| import (.*\b|\([^)]*\b)){name}\b")


def sample(seed: int, sizes: dict[str, int]) -> list[Mutant]:
    """Changes drawn without replacement from the subject and from the machinery, in turns."""
    source = random.Random(seed)
    pools: dict[str, list[Mutant]] = {"subject": [], "machinery": []}
    for file in sorted(PACKAGE.rglob("*.py")):
        pools["machinery" if MACHINERY in file.parts else "subject"] += mutants(file)
    drawn = [source.sample(pool, min(sizes[part], len(pool))) for part, pool in pools.items()]
    source.shuffle(both := [one for part in drawn for one in part])
    return both


def decide(project: Path, mutant: Mutant, seconds: int) -> tuple[str, str]:
    """``killed``, ``survived`` or ``undecided``, and the test that noticed."""
    file = project / mutant.file
    before = file.read_bytes()
    file.write_bytes(before[: mutant.start] + mutant.after.encode() + before[mutant.end :])
    try:
        code, said = _run(project, tests_of(Path(mutant.file)), seconds)
    finally:
        file.write_bytes(before)
    if code == 0:
        return "survived", ""
    noticed = [line for line in said.splitlines() if line.startswith(NOTICED)]
    if code > 0 and noticed:
        return "killed", noticed[0].split(" - ")[0]
    if code == HANGS:
        return "killed", "a test that hangs"
    return "undecided", f"ended with {code}: {said[-200:]}"  # a signal: out of time; else what runs the tests itself


def _run(project: Path, tests: Sequence[str], seconds: int) -> tuple[int, str]:
    """Run test modules until one fails; the exit code, and what was said."""
    said = project / "said.txt"
    started = FORK.Process(target=_pytest, args=(project, tests, said, seconds))
    started.start()
    assert started.pid is not None
    end, before, code = time.monotonic() + PATIENCE, -1.0, None
    while started.is_alive() and time.monotonic() < end:
        started.join(STILL)
        now = _busy(started.pid)
        if started.is_alive() and now == before:
            code = HANGS
            break
        before = now
    with suppress(ProcessLookupError):  # whatever it started, and itself if it still runs
        os.killpg(started.pid, signal.SIGKILL)
    started.join()
    assert started.exitcode is not None
    return code or started.exitcode, said.read_text(errors="replace")


def _busy(pid: int) -> float:
    """Seconds on the processor, rounded, of a process and all that it started."""
    try:
        process = psutil.Process(pid)
        return round(sum(sum(one.cpu_times()[:2]) for one in (process, *process.children(recursive=True))), 1)
    except psutil.NoSuchProcess:
        return -1.0


def _pytest(project: Path, tests: Sequence[str], said: Path, seconds: int) -> None:
    """What a test process does, which begins with ``PRELOADED`` in it and without ``sumexp``."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    with said.open("w") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    os.chdir(project)
    for name in [name for name in os.environ if name.startswith("SUMEXP_")]:
        del os.environ[name]
    source = str(project / "src")
    os.environ |= {"PYTHONPATH": source, "XDG_CACHE_HOME": str(project / "cache")}
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(project / "cache")
    sys.path[:0] = [str(project), source]
    assert not any(name.split(".")[0] in ("sumexp", "tests") for name in sys.modules)
    sys.exit(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "--no-header", "--tb=no", *tests]))


def main() -> None:
    """Try the sample until the time is up, print score and survivors, and keep both."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="when to stop (default 60)")
    parser.add_argument("--seconds", type=int, default=40, help="on the processor, for the tests of one (default 40)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default 0)")
    parser.add_argument("--subject", type=int, default=300, help="how many of the subject (default 300)")
    parser.add_argument("--machinery", type=int, default=200, help="how many of the machinery (default 200)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at once (default: all cores)")
    parser.add_argument("--again", action="store_true", help="try only what was not killed the last time")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    FORK.set_forkserver_preload([*PRELOADED])
    if options.again:
        found = json.loads((measure.RESULTS / "mutants.json").read_text("utf-8"))
        wanted, rows = left(found["others"])
    else:
        wanted, rows = sample(options.seed, {part: getattr(options, part) for part in PARTS}), []
        found = {"seed": options.seed, "drawn": len(wanted), "killed": dict.fromkeys(PARTS, 0)}
    for row in _tried(wanted, options.jobs, options.minutes, options.seconds):
        if row["outcome"] == "killed":
            found["killed"][_part(row)] += 1
        else:
            rows.append(row)
    for part in PARTS:
        counts = Counter(row["outcome"] for row in rows if _part(row) == part)
        decided = found["killed"][part] + counts["survived"]
        print(f"{part}: killed {found['killed'][part]} of {decided} decided; {dict(counts)}")
    measure.write("mutants", {**found, "others": rows})


def _tried(wanted: Sequence[Mutant], jobs: int, minutes: float, seconds: int) -> Iterator[dict[str, Any]]:
    """What became of each mutant, as it is known."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(jobs) as pool:
        projects: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs):  # a copy for each that runs at once
            projects.put(measure.checkout(Path(name, str(number))))

        def outcome(mutant: Mutant) -> tuple[str, str]:
            if time.monotonic() - began > 60 * minutes:
                return "not tried", ""
            project = projects.get()
            try:
                return decide(project, mutant, seconds)
            finally:
                projects.put(project)

        for mutant, (what, by) in zip(wanted, pool.map(outcome, wanted), strict=True):
            if what in ("survived", "undecided") and mutant.equivalent:
                what, by = "equivalent", mutant.equivalent
            print(f"{what:10s} {mutant.name}, line {mutant.line}", flush=True)
            yield {**asdict(mutant), "outcome": what, "by": by}


def left(others: Sequence[dict[str, Any]]) -> tuple[list[Mutant], list[dict[str, Any]]]:
    """What of those that were not killed is to be tried again, as it stands in today's code, and what stays as it is.

    The latter is equivalent, or gone with its code.
    """
    wanted, stays = [], []
    for row in others:
        there = mutants(Path(row["file"])) if Path(row["file"]).exists() else []
        changes = ("before", "after", "within")
        same = [one for one in there if all(getattr(one, part) == row[part] for part in changes)]
        if row["outcome"] == "equivalent":
            stays.append(row)
        elif not same:
            stays.append({**row, "outcome": "gone"})
        else:
            wanted.append(min(same, key=lambda one: abs(one.line - row["line"])))
    return wanted, stays


def _part(row: dict[str, Any]) -> str:
    return "machinery" if MACHINERY in Path(row["file"]).parts else "subject"


def _short(code: str) -> str:
    line = " ".join(code.split())
    return line if len(line) <= 70 else f"{line[:67]}..."


if __name__ == "__main__":
    main()
