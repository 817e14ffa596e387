"""Who computes ends with its driver: the one of the moment at which it was bound."""

import os
import subprocess
import sys

import pytest

from sumexp.companion.store import processes

LINES = """
import os, time
from sumexp.companion.store import processes

processes._EVERY = 0.05
processes.bind()
os.environ[processes.DRIVER] = {later!r}
time.sleep({seconds})
print("at the end")
"""


@pytest.mark.parametrize(("driver", "later", "code"), [("", "0 0", 0), ("0 0", "", 1)])  # nobody is 0
def test_the_driver_is_the_one_of_the_beginning(driver: str, later: str, code: int) -> None:
    environment = os.environ | {processes.DRIVER: driver}
    lines = LINES.format(later=later, seconds=60 if code else 0.5)  # ten looks
    done = subprocess.run([sys.executable, "-c", lines], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (code, "" if code else "at the end\n")
