"""No process outlives its driver: each watches it and its parent, since SIGKILL lets no process end others."""

import os
import threading
import time
from contextlib import suppress
from typing import NoReturn

import psutil

DRIVEN = "SUMEXP_DRIVEN"
"""Environment variable of all processes that a driver has started: its process id."""
EVERY = 0.5
"""Seconds between two looks."""


def drive() -> None:
    """Let all processes that this process starts end with it."""
    os.environ[DRIVEN] = str(os.getpid())


def follow() -> None:
    """End this process and all that it started with its parent, if a driver started it; after ``nohup`` it goes on."""
    if driver := os.environ.get(DRIVEN):
        threading.Thread(target=_watch, args=(os.getppid(), int(driver)), daemon=True).start()


def _watch(parent: int, driver: int) -> None:
    while os.getppid() == parent and psutil.pid_exists(driver):  # which may have ended before this process began
        time.sleep(EVERY)
    end(1)


def end(code: int) -> NoReturn:
    """End this process at once, after all that it started."""
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            child.kill()
    os._exit(code)
