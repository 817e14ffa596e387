"""Pytest plugin: what a run of the tests says of claims is kept in the store, and what the store has is not run again.

``pytest --keep-evidence`` keeps the evidence of every test module all of whose tests ran, whoever ran them: `make test`
spares `make book` its tests, and the other way round. ``pytest --stored-evidence`` leaves out the tests of claims that
the store knows to pass, with the code, pins and data of today.
"""

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from sumexp.companion.register.evidence import Recorder, test_name
from sumexp.companion.register.model import EvidenceFile, Test
from sumexp.companion.store import progress

_STORED = pytest.StashKey[frozenset[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add both options."""
    parser.addoption("--keep-evidence", action="store_true", help="keep the outcomes of tests of claims in the store")
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
        keeper = Keeper(config)
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

    def __init__(self, config: pytest.Config) -> None:
        super().__init__()
        from sumexp.companion.build.sources import claim_modules, evidence
        from sumexp.companion.store import default
        from sumexp.companion.store.provenance import Meter

        self._meter, self._store = Meter(), default()
        self._done, self._total, self._begun = 0, 0, time.time()
        self._wanted = {path.as_posix(): evidence(path) for path in claim_modules()}

    def passed(self) -> Iterable[str]:
        """The names of the tests whose outcome in the store is that they pass."""
        from sumexp.companion.build.view import OUTCOMES

        for wanted in self._wanted.values():
            if entry := self._store.find(wanted):
                found = EvidenceFile.model_validate_json((entry.path / OUTCOMES).read_bytes()).tests
                outcomes = {test.test: {t.outcome for t in found if t.test == test.test} for test in found}
                yield from (name for name, ends in outcomes.items() if ends == {"passed"})

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Know how many tests there are."""
        self._total = len(session.items)

    def pytest_runtest_logfinish(self) -> None:
        """Say how far it is."""
        self._done += 1
        progress.report("testing claims", self._done, self._total, begun=self._begun)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Keep the evidence of the modules that were asked for whole."""
        if not self.is_whole(session, exitstatus) or not _is_unfiltered(session.config):
            return
        by_file: dict[str, list[Test]] = {}
        for test in self.outcomes():
            by_file.setdefault(test.test.partition("::")[0], []).append(test)
        root = session.config.rootpath
        asked = [Path(argument).resolve() for argument in session.config.args]
        for file, wanted in self._wanted.items():
            path = (root / file).resolve()
            if any(one in (path, *path.parents) for one in asked) and not self._store.has(wanted):
                self._keep(wanted, by_file.get(file, []))

    def _keep(self, wanted: Any, tests: list[Test]) -> None:
        from sumexp.companion.build.view import OUTCOMES

        with self._store.locked(wanted), self._store.writing(wanted) as (folder, seal):
            text = json.dumps(EvidenceFile(tests=tuple(tests)).model_dump(mode="json"), indent=1) + "\n"
            (folder / OUTCOMES).write_text(text, "utf-8")
            seal(self._meter.read())


def _is_unfiltered(config: pytest.Config) -> bool:
    """Whether all tests of the modules asked for were to run."""
    chosen = config.option.keyword or config.option.deselect or getattr(config.option, "lf", False)
    return not chosen and config.option.markexpr in ("", "claim") and not any("::" in one for one in config.args)
