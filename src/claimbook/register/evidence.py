"""Pytest plugin: tests say which claim of the register they decide; their outcomes are kept in the store.

A test bears ``@pytest.mark.claim("bias-thm-3-1", shows="statement", evidence="exact")``. An experiment states what it
measured through the fixture ``finding``. ``--keep-evidence`` keeps the outcomes of every module all of whose tests ran.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from pydantic import ValidationError

from claimbook import BookError
from claimbook.register import outcomes
from claimbook.register.model import Finding, Outcome, Test, explain, load
from claimbook.register.verdict import markers
from claimbook.store import bundled, default, processes
from claimbook.store.provenance import Meter

_USAGE = '@pytest.mark.claim("<id>", shows="<what>", evidence="<kind>")'
_PROPERTY = "sumexp-claim"
_known = cache(load)
_WORST: tuple[Outcome, ...] = ("failed", "skipped", "passed")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--keep-evidence", action="store_true", help="keep the outcomes of tests of claims in the store")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker; work out today's keys before a test runs."""
    config.addinivalue_line("markers", "claim(id, *, shows, evidence): what a test shows of an entry of claims/")
    processes.follow()
    # The main process keeps the reports of xdist's workers.
    if config.getoption("--keep-evidence") and not hasattr(config, "workerinput"):
        try:
            config.pluginmanager.register(Keeper(), "sumexp-keeper")
        except BookError as error:  # a file is not Python
            raise pytest.UsageError(str(error)) from None


def _marked(item: pytest.Item) -> Iterator[dict[str, Any]]:
    """Check the ``claim`` markers of a test, and yield them as records without an outcome."""
    wrong, test = pytest.Collector.CollectError, item.nodeid.partition("[")[0]  # without parameters
    for marker in item.iter_markers("claim"):
        place, claim = f"{test}: the marker claim{marker.args} with {marker.kwargs}", "".join(marker.args)
        try:
            Test.model_validate({"test": test, "claim": claim, "outcome": "passed", **marker.kwargs})
            if claim not in _known(item.config.rootpath / "claims"):
                raise wrong(f"{place} names {claim!r}, which is no entry of claims/: add it or fix the id")
        except ValidationError as error:
            raise wrong(f"{place} is not of the form {_USAGE}: {explain(error)}") from None
        except BookError as error:
            raise wrong(str(error)) from None
        yield {"test": test, "claim": claim, **marker.kwargs, "findings": []}


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Attach to each test the records of its markers; a wrong one fails its module, as xdist's workers can report."""
    made = yield
    for item in made if isinstance(made, list) else [made]:
        if isinstance(item, pytest.Item):
            item.user_properties += [(_PROPERTY, record) for record in _marked(item)]
    return made


def _records(node: pytest.Item | pytest.TestReport) -> list[dict[str, Any]]:
    return [record for name, record in node.user_properties if name == _PROPERTY and isinstance(record, dict)]


@pytest.fixture
def finding(request: pytest.FixtureRequest) -> Callable[..., None]:
    """State what an experiment measured, once for each number: ``finding(interval, published=None, data=None, ...)``.

    The interval over seeds has ``mean``, ``low``, ``high``, ``confidence``, ``count`` and ``room``. ``published`` is
    the paper's value, or a range ``(least, most)`` with ``None`` for an open end, or ``None`` where the paper gives
    none; the other fields of `Finding` go with it. `Finding.verdict` decides: a test should not assert agreement.
    """
    experiments = [record for record in _records(request.node) if record["evidence"] == "experiment"]
    if len(experiments) != 1:
        raise ValueError(f"{request.node.nodeid}: finding needs exactly one claim marker with evidence='experiment'")

    def state(interval: Any, published: Any = None, **rests_on: Any) -> None:
        span = published if isinstance(published, tuple) or published is None else (published, published)
        room = None if math.isinf(interval.room) else interval.room
        about = {"confidence": interval.confidence, "seeds": interval.count, "room": room, "published": span} | rests_on
        origin = bundled.origin(about.get("keys", ()))
        measured = Finding(estimate=interval.mean, low=interval.low, high=interval.high, origin=origin, **about)
        experiments[0]["findings"].append(measured.model_dump(mode="json"))

    return state


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Fail an experiment that has stated no finding."""
    yield
    for record in _records(item):
        if record["evidence"] == "experiment" and not record["findings"]:
            pytest.fail(f"{record['test']} is an experiment but stated no finding: call the fixture `finding`", False)


class Keeper:
    """Collects the outcomes of tests of claims, and keeps those of whole modules."""

    def __init__(self) -> None:
        self._meter, self._store = Meter(), default()
        self._tests: dict[str, dict[tuple[str, ...], dict[str, Any]]] = defaultdict(dict)
        self._seconds: dict[str, float] = defaultdict(float)
        self._marked = {test for test, _claim in markers(outcomes.TESTS)}
        self._wanted = {outcomes.file_of(name): wanted for name, wanted in outcomes.computations().items()}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how a test ended; of several cases the worst counts."""
        file = report.nodeid.partition("::")[0]
        self._seconds[file] += report.duration
        if report.when not in ("setup", "call", "teardown"):  # a worker crashed: some cases may never run
            self._wanted.clear()
        for record in _records(report):
            key = (record["test"], record["claim"], record["shows"], record["evidence"])
            kept = self._tests[file].setdefault(key, {**record, "outcome": report.outcome, "findings": []})
            kept["outcome"] = min(kept["outcome"], report.outcome, key=_WORST.index)
            kept["findings"] += record["findings"] if report.when == "call" else []
            if report.skipped and isinstance(report.longrepr, tuple):  # of a skip: file, line and the reason
                kept["reason"] = str(report.longrepr[2]).removeprefix("Skipped: ")

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Keep the outcomes of each module all of whose tests have one, if its key is still the same."""
        if not _is_complete(session, exitstatus):
            return
        for path, wanted in self._wanted.items():
            file = path.as_posix()
            tests = tuple(Test.model_validate(record) for _, record in sorted(self._tests[file].items()))
            names = {f"{file}::{name}" for test in tests for name in test.test.split("::")[1:]}  # of classes too
            marked = {test for test in self._marked if test.startswith(f"{file}::")}
            whole = marked <= names and outcomes.computation(path).key == wanted.key
            if whole and tests != outcomes.read(self._store.find(wanted)):
                seconds = round(self._seconds[file], 3)
                with self._store.locked(wanted), self._store.writing(wanted) as (folder, seal):
                    (folder / outcomes.FILE).write_bytes(outcomes.FORM.dump_json(tests, indent=1))
                    # Of the module, not of the run. A worker does not report processor time; its tests use one thread.
                    seal(replace(self._meter.read(), seconds=seconds, cpu_seconds=seconds))


def _is_complete(session: pytest.Session, exitstatus: int) -> bool:
    """Whether the run was of whole modules and came to its end: half a run is no evidence."""
    options = session.config.option
    ended = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
    # Those that are only set up seem to pass.
    chosen = any(getattr(options, name, None) for name in ("keyword", "deselect", "lf", "stepwise", "setuponly"))
    is_cut = session.shouldstop or session.shouldfail or any("::" in argument for argument in session.config.args)
    return ended and not chosen and not is_cut and options.markexpr in ("", "claim")
