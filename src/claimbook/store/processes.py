"""No process outlives its driver: it ends within seconds of its parent, however that ends.

A process that was killed by SIGKILL can end nobody, so each watches its parent, and the driver of the build, whose id
is in the environment.
"""

import os
import shutil
import threading
import time
from contextlib import suppress
from typing import NoReturn

import psutil

from claimbook.store.files import HELD

DRIVER = "SUMEXP_DRIVER"
"""Environment variable: the driver's process id and when it was started."""

_EVERY = 0.5
"""Seconds between two looks."""


def drive() -> None:
    """Let this process be the driver of all that it starts."""
    os.environ[DRIVER] = f"{os.getpid()} {_started(os.getpid())}"


def follow() -> None:
    """End this process with its driver, if any: without a driver the parent may end first, as with ``nohup``."""
    if os.environ.get(DRIVER):
        bind()


def bind(parent: int | None = None) -> None:
    """End this process and all that it started as soon as its driver or its parent (by default that of now) is gone."""
    threading.Thread(target=_watch, args=(parent or os.getppid(), os.environ.get(DRIVER, "")), daemon=True).start()


def _watch(parent: int, driver: str) -> None:
    pid, _, started = driver.partition(" ")
    while os.getppid() == parent and (not driver or _started(int(pid)) == started):
        time.sleep(_EVERY)
    end(1)


def end(code: int) -> NoReturn:
    """End this process at once, after all that it started; its scratch folders go too."""
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            child.kill()
    for folder in 10 * [*HELD]:  # a thread may still be writing there
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(code)


def _started(pid: int) -> str:
    """The start time of a process, which tells it from a later process with the same id; empty if it has ended."""
    try:
        process = psutil.Process(pid)
        return "" if process.status() == psutil.STATUS_ZOMBIE else repr(process.create_time())
    except psutil.NoSuchProcess:
        return ""
