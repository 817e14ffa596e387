"""Pytest plugin: tests say which claim of the register they decide, and their outcomes are written down.

A test bears ``@pytest.mark.claim("bias-thm-3-1", shows="statement", evidence="exact")``; markers are checked
against ``claims/`` when tests are collected. ``pytest --evidence PATH`` writes the outcome of every marked test.
An experiment states what it measured through the fixture ``finding``.
"""

import json
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from pydantic import ValidationError

from sumexp.companion.register.model import (
    EVIDENCE,
    SHOWS,
    EvidenceFile,
    Finding,
    Outcome,
    RegisterError,
    Test,
    explain,
    load,
)
from sumexp.companion.store.files import write_text

State: TypeAlias = Callable[..., None]
"""What the fixture ``finding`` hands to a test."""

_USAGE = '@pytest.mark.claim("<id>", shows="<what>", evidence="<kind>")'
_PROPERTY = "sumexp-claim"
_IDS = pytest.StashKey[frozenset[str]]()
_WORST: tuple[Outcome, ...] = ("failed", "skipped", "passed")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--evidence PATH``."""
    parser.addoption(
        "--evidence", type=Path, metavar="PATH", help="write the outcome of every test marked with a claim to PATH"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and the recorder where the evidence is asked for."""
    config.addinivalue_line(
        "markers", "claim(id, *, shows, evidence): what a test shows of an entry of the register in claims/"
    )
    path: Path | None = config.getoption("--evidence")
    if path is not None and not hasattr(config, "workerinput"):  # under xdist the reports reach the main process
        config.pluginmanager.register(_Writer(config.invocation_params.dir / path))


def test_name(item: pytest.Item) -> str:
    """``file::name`` of a test, without its parameters."""
    callspec = getattr(item, "callspec", None)
    return item.nodeid.removesuffix(f"[{callspec.id}]") if callspec else item.nodeid


def _marked(item: pytest.Item) -> Iterator[dict[str, Any]]:
    """Check the ``claim`` markers of a test and yield them as records without an outcome.

    Raises:
        ValueError: a marker is malformed or names an unknown claim.
        RegisterError: ``claims/`` itself is wrong.
    """
    for marker in item.iter_markers("claim"):
        place = f"{test_name(item)}: the marker claim{marker.args}"
        match marker.args:
            case (str(claim),) if marker.kwargs.keys() == {"shows", "evidence"}:
                pass
            case _:
                raise ValueError(f"{place} with {marker.kwargs} is not of the form {_USAGE}")
        for field, allowed in (("shows", SHOWS), ("evidence", EVIDENCE)):
            if marker.kwargs[field] not in allowed:
                raise ValueError(f"{place} has {field}={marker.kwargs[field]!r}, expected one of {', '.join(allowed)}")
        if claim not in _known(item.config):
            raise ValueError(f"{place} names {claim!r}, which is no entry of claims/: add it or mend the id")
        yield {"test": test_name(item), "claim": claim, **marker.kwargs, "findings": []}


def _known(config: pytest.Config) -> frozenset[str]:
    """The ids of all claims, read once."""
    if _IDS not in config.stash:
        config.stash[_IDS] = frozenset(load(config.rootpath / "claims"))
    return config.stash[_IDS]


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Check the ``claim`` markers of every test as it is collected, and attach their records to it.

    Raises:
        pytest.Collector.CollectError: a marker or ``claims/`` is wrong; pytest names the file and runs nothing.
    """
    made = yield
    for item in made if isinstance(made, list) else [made]:
        if isinstance(item, pytest.Item):
            try:
                item.user_properties += [(_PROPERTY, record) for record in _marked(item)]
            except (ValueError, RegisterError) as error:
                raise collector.CollectError(str(error)) from None
    return made


def _records(node: pytest.Item | pytest.TestReport) -> list[dict[str, Any]]:
    return [record for name, record in node.user_properties if name == _PROPERTY and isinstance(record, dict)]


@pytest.fixture
def finding(request: pytest.FixtureRequest) -> State:
    """State what an experiment measured: ``finding(estimate, low, high, published=None, data=None, ...)``.

    The interval from ``low`` to ``high`` is over seeds; ``published`` is the paper's value, or an interval
    ``(least, most)`` with ``None`` for an open end, or ``None`` where the paper gives none. The verdict is
    "not reproduced" if the interval excludes it. What it rests on goes with it: ``data``, the data set; ``profile``;
    ``seeds``, their number; ``keys`` of the stored runs. Where the claim names data sets, a finding on another, or on
    none, does not decide it. Call it once for each number; a test should not assert agreement.
    """
    experiments = [record for record in _records(request.node) if record["evidence"] == "experiment"]
    if len(experiments) != 1:
        raise ValueError(
            f"{request.node.nodeid}: the fixture finding needs exactly one claim marker with evidence='experiment'"
        )

    def state(
        estimate: float,
        low: float,
        high: float,
        published: float | tuple[float | None, float | None] | None = None,
        **rests_on: Any,
    ) -> None:
        span = published if isinstance(published, tuple) or published is None else (published, published)
        try:
            measured = Finding(estimate=estimate, low=low, high=high, published=span, **rests_on)
        except ValidationError as error:
            raise ValueError(f"finding{(estimate, low, high, published, rests_on)}: {explain(error)}") from None
        experiments[0]["findings"].append(measured.model_dump(mode="json"))

    return state


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """After a test body has run: an experiment must have stated a finding."""
    yield
    for record in _records(item):
        if record["evidence"] == "experiment" and not record["findings"]:
            pytest.fail(f"{record['test']} is an experiment but stated no finding: call the fixture `finding`", False)


class Recorder:
    """Collects the outcomes of marked tests."""

    def __init__(self) -> None:
        self.tests: dict[tuple[str, ...], dict[str, Any]] = {}
        self.collected = True

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Notice a module that could not be collected."""
        self.collected &= not report.failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how a test ended; of several cases the worst counts."""
        if report.when == "setup" and report.passed:
            return  # the test itself is still to come
        for record in _records(report):
            key = (record["test"], record["claim"], record["shows"], record["evidence"])
            kept = self.tests.setdefault(key, {**record, "outcome": report.outcome, "findings": []})
            kept["outcome"] = min(kept["outcome"], report.outcome, key=_WORST.index)
            kept["findings"] += record["findings"] if report.when == "call" else []

    def is_whole(self, session: pytest.Session, exitstatus: int) -> bool:
        """Whether the run came to its end: half a run is no evidence."""
        finished = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
        finished = finished and not session.config.option.setuponly  # then tests seem to pass
        return finished and self.collected and not session.shouldstop and not session.shouldfail

    def outcomes(self) -> tuple[Test, ...]:
        """The outcomes, ordered by test and claim."""
        return tuple(Test.model_validate(self.tests[key]) for key in sorted(self.tests))


class _Writer(Recorder):
    """Writes the outcomes to a file when the session ends."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if self.is_whole(session, exitstatus):
            file = EvidenceFile(tests=self.outcomes())
            write_text(self.path, json.dumps(file.model_dump(mode="json"), indent=1) + "\n")
