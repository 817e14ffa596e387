"""No process outlives its driver: each watches its parent, since a process killed by SIGKILL can end no other."""

import os
import threading
import time
from contextlib import suppress
from typing import NoReturn

import psutil

DRIVEN = "SUMEXP_DRIVEN"
"""Environment variable of all processes that a driver has started."""
EVERY = 0.5
"""Seconds between two looks."""


def drive() -> None:
    """Let all processes that this process starts end with it."""
    os.environ[DRIVEN] = "1"


def follow() -> None:
    """End this process and all that it started with its parent, if a driver started it; after ``nohup`` it goes on."""
    if os.environ.get(DRIVEN):
        threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(EVERY)
    end(1)


def end(code: int) -> NoReturn:
    """End this process at once, after all that it started."""
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            child.kill()
    os._exit(code)
