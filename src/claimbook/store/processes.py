"""No process outlives its driver: who computes ends within seconds of the one that asked for it, however that one ends.

A process that was killed by SIGKILL can end nobody, so each one watches for itself: its parent, and the driver of the
build, which it knows from the environment.
"""

import os
import shutil
import threading
import time
from contextlib import suppress
from typing import NoReturn

from claimbook.store.files import HELD

DRIVER = "SUMEXP_DRIVER"
"""Environment variable: the driver's process id and when it was started."""

_EVERY = 0.5
"""Seconds between two looks."""


def drive() -> None:
    """Let this process be the driver of all that it starts."""
    os.environ[DRIVER] = f"{os.getpid()} {_started(os.getpid())}"


def driver() -> str:
    """Who drives this process; empty if nobody does."""
    return os.environ.get(DRIVER, "")


def is_there(driver: str) -> bool:
    """Whether a driver has not ended; so has nobody."""
    pid, _, started = driver.partition(" ")
    return not driver or _started(int(pid)) == started


def bind(parent: int | None = None) -> None:
    """End this process and all that it started as soon as its driver or its parent (by default that of now) is gone."""
    threading.Thread(target=_watch, args=(parent or os.getppid(), driver()), daemon=True).start()


def _watch(parent: int, driver: str) -> None:
    while os.getppid() == parent and is_there(driver):
        time.sleep(_EVERY)
    end(1)


def end(code: int) -> NoReturn:
    """End this process at once, after all that it started; its scratch folders go too."""
    import psutil

    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            child.kill()
    for folder in 10 * [*HELD]:  # a thread may still be writing there
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(code)


def _started(pid: int) -> str:
    """When a process was started, so that another one of its number is not taken for it; empty if there is none."""
    import psutil

    try:
        process = psutil.Process(pid)
        return "" if process.status() == psutil.STATUS_ZOMBIE else repr(process.create_time())
    except psutil.NoSuchProcess:
        return ""
