"""Pytest plugin: what a run of the tests says of claims is kept in the store, and what the store has is not run again.

``pytest --keep-evidence`` keeps the evidence of every test module all of whose tests ran, whoever ran them: `make test`
spares `make book` its tests, and the other way round. ``pytest --stored-evidence`` leaves out the tests of claims that
the store knows to pass, with the code, pins and data of today; how the others end takes the place of how they ended.
"""

import json
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sumexp.companion import CompanionError
from sumexp.companion.register.evidence import Recorder, test_name
from sumexp.companion.register.model import EvidenceFile, Test
from sumexp.companion.store import Computation, progress

_STORED = pytest.StashKey[frozenset[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add both options."""
    parser.addoption("--keep-evidence", action="store_true", help="keep the outcomes of tests of claims in the store")
    parser.addoption(
        "--plan", type=Path, metavar="PATH", help="keep them under the keys of this plan, not of what is there now"
    )
    parser.addoption(
        "--stored-evidence", action="store_true", help="leave out tests of claims that the store knows to pass"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Work out the keys of today before a test runs."""
    worker = getattr(config, "workerinput", None)
    if worker is not None:  # of xdist: the reports reach the main process, which also says what is left out
        config.stash[_STORED] = frozenset(worker.get("sumexp_stored", ()))
        return
    config.stash[_STORED] = frozenset()
    if config.getoption("--keep-evidence") or config.getoption("--stored-evidence"):
        try:
            keeper = Keeper(config.getoption("--plan"))
        except CompanionError as error:  # a file is not Python
            raise pytest.UsageError(str(error)) from None
        if config.getoption("--stored-evidence"):
            config.stash[_STORED] = frozenset(keeper.passed())
        if config.getoption("--keep-evidence"):
            config.pluginmanager.register(keeper, "sumexp-keeper")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of xdist what is left out."""
    node.workerinput["sumexp_stored"] = sorted(node.config.stash[_STORED])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the store knows."""
    if stored := config.stash[_STORED]:
        known = [item for item in items if test_name(item) in stored]
        items[:] = [item for item in items if test_name(item) not in stored]
        config.hook.pytest_deselected(items=known)


class Keeper(Recorder):
    """Collects the outcomes of tests of claims, and keeps those of whole modules."""

    def __init__(self, plan: Path | None) -> None:
        super().__init__()
        from sumexp.companion.pipeline import plan as plans
        from sumexp.companion.pipeline.inputs import TESTS, evidence
        from sumexp.companion.register.verdict import markers
        from sumexp.companion.store import default
        from sumexp.companion.store.provenance import Meter

        self._meter, self._store = Meter(), default()
        self._left_out: set[str] = set()
        self._done, self._total, self._begun = 0, 0, time.time()
        self._seconds: dict[str, float] = defaultdict(float)
        self._marked: dict[str, set[str]] = {}
        for marker in markers(TESTS):
            file, _, name = marker.test.partition("::")
            self._marked.setdefault(file, set()).add(name)
        if plan is None:
            self._wanted = {file: evidence(Path(file)) for file in self._marked}
        else:  # of when the build began: what it computes meanwhile may be part of a key
            asked = plans.read(plan)
            self._wanted = {asked.tests[name]: wanted for name, wanted in asked.evidence.items()}

    def passed(self) -> Iterable[str]:
        """The names of the tests whose outcome in the store is that they pass."""
        for wanted in self._wanted.values():
            found = self._stored(wanted) or ()
            outcomes = {test.test: {t.outcome for t in found if t.test == test.test} for test in found}
            yield from (name for name, ends in outcomes.items() if ends == {"passed"})

    def _stored(self, wanted: Computation) -> tuple[Test, ...] | None:
        """What the store has of a module; None if it has nothing that can be read."""
        from sumexp.companion.pipeline.view import OUTCOMES

        entry = self._store.find(wanted)
        try:
            return EvidenceFile.model_validate_json((entry.path / OUTCOMES).read_bytes()).tests if entry else None
        except (OSError, ValueError):
            return None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Notice a module that leaves itself out."""
        super().pytest_collectreport(report)
        if report.skipped:
            self._left_out.add(report.nodeid)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Know how many tests there are."""
        self._total = len(session.items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up how long the tests of each module take."""
        super().pytest_runtest_logreport(report)
        self._seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_runtest_logfinish(self) -> None:
        """Say how far it is."""
        self._done += 1
        progress.report("testing claims", self._done, self._total, begun=self._begun)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Keep the evidence of each module all of whose tests have an outcome, if its key is still the same."""
        from sumexp.companion.pipeline.inputs import evidence, without_runs

        if not self.is_whole(session, exitstatus) or not _is_unfiltered(session.config):
            return
        ended: dict[str, list[Test]] = {}
        for test in self.outcomes():
            ended.setdefault(test.test.partition("::")[0], []).append(test)
        for file, wanted in self._wanted.items():
            if file in ended or file in self._left_out:
                stored = self._stored(wanted)
                tests = _merged(stored or (), ended.get(file, ()))
                names = {name for test in tests for name in test.test.split("::")[1:]}  # of classes too
                whole = self._marked[file] <= names or file in self._left_out
                # A run of the tests cannot change the others; somebody may train models meanwhile.
                if whole and tests != stored and without_runs(evidence(Path(file))) == without_runs(wanted):
                    self._keep(wanted, tests, round(self._seconds[file], 3))

    def _keep(self, wanted: Computation, tests: tuple[Test, ...], seconds: float) -> None:
        from sumexp.companion.pipeline.plan import FINISHED
        from sumexp.companion.pipeline.view import OUTCOMES

        with self._store.locked(wanted), self._store.writing(wanted) as (folder, seal):
            text = json.dumps(EvidenceFile(tests=tests).model_dump(mode="json"), indent=1) + "\n"
            (folder / OUTCOMES).write_text(text, "utf-8")
            # Of the module, not of the run; its tests take one thread of a worker, whose processor time nobody tells.
            seal(replace(self._meter.read(), seconds=seconds, cpu_seconds=seconds))
        FINISHED.unlink(missing_ok=True)  # the pages show it


def _merged(stored: Iterable[Test], ended: Iterable[Test]) -> tuple[Test, ...]:
    """The outcomes in the store, but for what has just ended; ordered by test and claim."""
    tests = {(test.test, test.claim, test.shows, test.evidence): test for test in (*stored, *ended)}
    return tuple(tests[key] for key in sorted(tests))


def _is_unfiltered(config: pytest.Config) -> bool:
    """Whether all tests of the modules asked for were to run."""
    chosen = config.option.keyword or config.option.deselect
    chosen = chosen or any(getattr(config.option, name, False) for name in ("lf", "stepwise"))
    return not chosen and config.option.markexpr in ("", "claim") and not any("::" in one for one in config.args)
