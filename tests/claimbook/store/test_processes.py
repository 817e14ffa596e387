"""Who computes ends with its driver: the one of the moment at which it was bound."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from claimbook.store import processes

LINES = """
import os, time
from claimbook.store import processes

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


RUN = """
import subprocess, sys

subprocess.Popen([sys.executable, "-c", {lines!r}], stdout=open({output!r}, "w"))
"""


def test_what_a_shell_has_started_goes_on_when_the_shell_ends(tmp_path: Path) -> None:
    """As by ``nohup claimbook runs run --grid vae &``: nobody drives it."""
    lines = (
        "import time\nfrom claimbook.store import processes\n"
        "processes._EVERY = 0.05\nprocesses.follow()\ntime.sleep(1)\nprint('at the end')"
    )
    output = tmp_path / "output"
    environment = os.environ | {processes.DRIVER: "", "SUMEXP_STORE": str(tmp_path / "store")}
    shell = RUN.format(lines=lines, output=str(output))
    subprocess.run([sys.executable, "-c", shell], env=environment, check=True)
    ends = time.monotonic() + 60
    while not output.read_text() and time.monotonic() < ends:
        time.sleep(0.1)
    assert output.read_text() == "at the end\n"
