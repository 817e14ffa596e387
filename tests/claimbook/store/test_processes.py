"""What a driver has started ends with it; what a shell has started goes on."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from claimbook.store import processes

CHILD = """
import time
from claimbook.store import processes

processes.EVERY = 0.05
processes.follow()
print("started", flush=True)
time.sleep(1)
print("at the end", flush=True)
"""
PARENT = """
import subprocess, sys
from pathlib import Path

subprocess.Popen([sys.executable, "-c", {child!r}], stdout=open({output!r}, "w"))
while not Path({output!r}).read_text():
    pass
"""


@pytest.mark.parametrize("driven", [False, True], ids=["by nohup", "by a driver"])
def test_a_process_ends_with_the_parent_that_drives_it(driven: bool, tmp_path: Path) -> None:
    output = tmp_path / "output"
    environment = os.environ | {processes.DRIVEN: str(os.getpid()) if driven else ""}
    parent = PARENT.format(child=CHILD, output=str(output))
    subprocess.run([sys.executable, "-c", parent], env=environment, check=True)
    time.sleep(1.5)
    assert output.read_text() == "started\n" + "at the end\n" * (not driven)


def test_a_process_that_starts_after_the_end_of_its_driver_ends_too() -> None:
    driver = subprocess.Popen([sys.executable, "-c", ""])
    driver.wait()
    environment = os.environ | {processes.DRIVEN: str(driver.pid)}
    child = subprocess.run([sys.executable, "-c", CHILD], env=environment, capture_output=True, text=True, check=False)
    assert child.returncode == 1
    assert "at the end" not in child.stdout
