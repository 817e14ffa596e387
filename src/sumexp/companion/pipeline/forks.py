"""The steps of a build are forks of one process that has imported what they need; so are the kernels of its notebooks.

Torch, matplotlib and papermill take five seconds of a processor to import, which each notebook would spend anew. The
process that steps are forked from is the standard library's `multiprocessing.forkserver`: it has one thread, begins
with the driver and ends with the last of its forks. A step forks the kernel of its notebook before it does anything
else, so that it has one thread, too; the kernel waits to be told of its connection.
"""

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Self

from sumexp.companion.pipeline.inputs import THREADS
from sumexp.companion.store import processes

RUNNING = (
    "tqdm.auto",  # before IPython, which it would take for a notebook's
    "ipykernel.kernelapp",
    "jupytext",
    "papermill",
    "sumexp.datasets",
    "sumexp.companion.pipeline.steps",
    "sumexp.companion.pipeline.notebooks",
)
"""What runs a notebook, in the order of `imports`."""

IMPORTED = (
    *RUNNING,
    "pytest",
    "matplotlib.pyplot",
    "torch._dynamo",  # as an optimiser does
    "scipy.stats",
    "sumexp.companion.authoring.figures",
    "sumexp.companion.authoring.runs",
    "sumexp.losses",
)
"""What most steps import, in the order of `imports`."""

NAMES = "SUMEXP_IMPORTS"
"""Environment variable: which of them the process imports that steps are forked from."""

SURROUNDINGS = {
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(THREADS)),
    "PYTHONHASHSEED": "0",
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",  # which a kernel sets itself, but too late for a fork
}
"""What is fixed in the environment of every step: libraries read it when they are imported."""

KERNELS = sys.platform == "linux"
"""Whether kernels are forked, and steps from what has imported anything: libraries of other systems forbid it."""

_TURN = threading.Lock()


def begin(notebooks: int) -> None:
    """Start the process that the steps of a build are forked from; it imports while this one goes on.

    It ends when this one does. Two notebooks, side by side, have imported what they compute with themselves as soon;
    what runs them is imported while Snakemake is.
    """
    names = () if not notebooks or not KERNELS else RUNNING if notebooks <= 2 else IMPORTED
    forkserver.set_forkserver_preload(["sumexp.companion.pipeline.imports"] if names else [])
    with surrounded(SURROUNDINGS | {NAMES: " ".join(names)}):
        forkserver.ensure_running()


@contextmanager
def surrounded(environment: Mapping[str, str]) -> Iterator[None]:
    """Let this process's environment have these values for a while."""
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        yield
    finally:
        _take(before)


def _take(environment: Mapping[str, str]) -> None:
    """Let this be the whole environment of this process."""
    os.environ.clear()
    os.environ.update(environment)


def call(target: Callable[..., object], *arguments: object) -> int | None:
    """How a fork ends that calls ``target`` with this process's environment: 0, its exit status, or minus a signal."""
    environment = dict(os.environ) | SURROUNDINGS
    process = multiprocessing.get_context("forkserver").Process(target=_call, args=(environment, target, *arguments))
    # Threads of Snakemake wait for their steps: who starts one also looks whether others have ended, which two must not
    # do at once.
    with _TURN:
        process.start()
    try:
        wait([process.sentinel])
    except BaseException:  # who is interrupted would wait for it at its own end
        process.kill()
        raise
    with _TURN:
        process.join()
    return process.exitcode


def _call(environment: Mapping[str, str], target: Callable[..., object], *arguments: object) -> None:
    _take(environment)
    target(*arguments)


class Kernel:
    """A kernel that waits, forked from this process; to jupyter it is what `subprocess.Popen` would have started.

    At the end of the context it ends if it has not begun.
    """

    stdin = stdout = stderr = None

    def __init__(self) -> None:
        context = multiprocessing.get_context("fork")
        theirs, self._connection = context.Pipe(duplex=False)
        self._process = context.Process(target=_wait, args=(theirs, self._connection, os.getpid()))
        self._process.start()
        theirs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failed: object) -> None:
        self._connection.close()

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.ident or 0

    def begin(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Let it be what ``command`` would start, ``python -m ipykernel_launcher ARGUMENTS``, in this folder."""
        self._connection.send((command[3:], dict(environment), Path.cwd()))

    def poll(self) -> int | None:
        """How it ended; None while it runs."""
        return self._process.exitcode

    def wait(self) -> int | None:
        """How it ended, once it has."""
        self._process.join()
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self._process.terminate()

    def kill(self) -> None:
        """End it."""
        self._process.kill()


def _wait(connection: Connection, other: Connection, parent: int) -> None:
    other.close()  # so that the end of who forked it ends this one, too
    try:
        arguments, environment, folder = connection.recv()
    except EOFError:
        return
    os.setsid()  # a signal to the build's group is not for it
    os.chdir(folder)
    _take(environment)
    processes.bind(parent)  # which ipykernel does not see to if that one has ended before it looks
    from ipykernel.kernelapp import IPKernelApp

    IPKernelApp.launch_instance([*arguments, f"--IPKernelApp.parent_handle={parent}"])
