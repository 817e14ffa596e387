"""No process outlives its driver: who computes ends within seconds of the one that asked for it, however that one ends.

A process that was killed by SIGKILL can end nobody, so each one watches for itself: its parent, and the driver of the
build, which it knows from the environment.
"""

import os
import threading
import time

DRIVER = "SUMEXP_DRIVER"
"""Environment variable: the driver's process id and when it was started."""

_EVERY = 0.5
"""Seconds between two looks."""


def drive() -> None:
    """Let this process be the driver of all that it starts."""
    os.environ[DRIVER] = f"{os.getpid()} {_started(os.getpid())}"


def is_driven() -> bool:
    """Whether the driver is there, or there never was one."""
    driver = os.environ.get(DRIVER, "")
    return not driver or _is_there(driver)


def bind() -> None:
    """End this process and all that it started as soon as its parent or its driver is gone."""
    threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent and is_driven():
        time.sleep(_EVERY)
    import psutil

    for child in psutil.Process().children(recursive=True):
        try:
            child.kill()
        except psutil.NoSuchProcess:
            continue
    os._exit(1)


def _is_there(driver: str) -> bool:
    pid, _, started = driver.partition(" ")
    return _started(int(pid)) == started


def _started(pid: int) -> str:
    """When a process was started, so that another one of its number is not taken for it; empty if there is none."""
    import psutil

    try:
        process = psutil.Process(pid)
        return "" if process.status() == psutil.STATUS_ZOMBIE else repr(process.create_time())
    except psutil.NoSuchProcess:
        return ""
