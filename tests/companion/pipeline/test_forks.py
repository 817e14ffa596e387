"""Steps and kernels as forks: they have the environment of who asks, say how they end, and wait for nobody in vain."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from multiprocessing import forkserver
from pathlib import Path

import psutil
import pytest

from sumexp.companion import CompanionError
from sumexp.companion.pipeline import forks, steps
from sumexp.companion.store import processes

from .test_faults import wait_until


@pytest.fixture(scope="module", autouse=True)
def _imported_once() -> None:
    """What forks import to call what is asked for, they need not, unless the process they come from runs already."""
    forkserver.set_forkserver_preload([__name__])


def write_down(file: str, *names: str) -> None:
    Path(file).write_text("\n".join(os.environ[name] for name in names), "utf-8")


@pytest.mark.parametrize("name", forks.IMPORTED)
def test_what_is_imported_exists(name: str) -> None:
    assert find_spec(name) is not None  # the server passes over what it cannot import


def test_a_call_says_how_it_ended() -> None:
    assert forks.call(os._exit, 0) == 0
    assert forks.call(os._exit, 7) == 7
    assert forks.call(signal.raise_signal, signal.SIGKILL) == -signal.SIGKILL


def test_who_is_interrupted_leaves_no_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(forks, "wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        forks.call(time.sleep, 300)
    assert wait_until(lambda: not multiprocessing.active_children(), 15)


def test_calls_of_several_threads_end_each_as_its_own() -> None:
    codes = [number % 5 for number in range(40)]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda code: forks.call(os._exit, code), codes)) == codes


def test_a_fork_has_the_environment_of_now_and_what_is_fixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = tmp_path / "said"
    for value in ("one", "two"):  # the server began before
        monkeypatch.setenv("SUMEXP_TEST", value)
        monkeypatch.setenv("PYTHONHASHSEED", "7")
        assert forks.call(write_down, str(said), "SUMEXP_TEST", "PYTHONHASHSEED", "OMP_NUM_THREADS") == 0
        assert said.read_text("utf-8") == f"{value}\n0\n1"


def test_the_environment_is_fixed_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    monkeypatch.delenv("MPLBACKEND", raising=False)
    with forks.surrounded(forks.SURROUNDINGS):
        assert os.environ["PYTHONHASHSEED"] == "0"
        assert "matplotlib_inline" in os.environ["MPLBACKEND"]
    assert os.environ["PYTHONHASHSEED"] == "7"
    assert "MPLBACKEND" not in os.environ


def test_a_step_that_fails_is_named(tmp_path: Path) -> None:
    with pytest.raises(CompanionError, match=r"the step .*nowhere\.json notebook nce ended with 1"):
        steps.fork(str(tmp_path / "nowhere.json"), "notebook", "nce")


def test_a_kernel_that_is_never_told_ends() -> None:
    with forks.Kernel() as kernel:
        assert kernel.poll() is None
        assert psutil.Process(kernel.pid).ppid() == os.getpid()
    assert kernel.wait() == 0


@pytest.mark.parametrize("end, code", [("kill", -signal.SIGKILL), ("terminate", -signal.SIGTERM)])
def test_a_kernel_that_is_ended_says_so(end: str, code: int) -> None:
    with forks.Kernel() as kernel:
        getattr(kernel, end)()
        assert kernel.wait() == kernel.poll() == code


def test_a_kernel_gets_signals() -> None:
    with forks.Kernel() as kernel:
        kernel.send_signal(signal.SIGUSR1)
        assert kernel.wait() == -signal.SIGUSR1


ORPHAN = """
import os
from sumexp.companion.pipeline import forks

kernel = forks.Kernel()
print(kernel.pid, flush=True)
kernel.begin(["python", "-m", "ipykernel_launcher", "-f", {file!r}], os.environ)
os._exit(0)
"""


def test_a_kernel_whose_step_ended_as_it_began_ends(tmp_path: Path) -> None:
    lines = ORPHAN.format(file=str(tmp_path / "connection.json"))
    with subprocess.Popen([sys.executable, "-c", lines], stdout=subprocess.PIPE, text=True) as step:
        assert step.stdout is not None
        kernel = psutil.Process(int(step.stdout.readline()))
        ended = wait_until(lambda: not kernel.is_running(), 15)
        with suppress(psutil.NoSuchProcess):
            kernel.kill()
        assert ended


@pytest.mark.parametrize(("driver", "code"), [("", 0), ("1 long ago", 1)])  # 1 is another one now
def test_nothing_more_is_imported_when_the_driver_is_gone(driver: str, code: int) -> None:
    lines = "import sys, sumexp.companion.pipeline.imports; sys.exit(0 if 'this' in sys.modules else 2)"
    environment = os.environ | {processes.DRIVER: driver, forks.NAMES: "this"}
    done = subprocess.run([sys.executable, "-c", lines], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, "Zen" in done.stdout) == (code, code == 0)
