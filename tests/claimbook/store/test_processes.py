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
    environment = os.environ | {processes.DRIVEN: "1" if driven else ""}
    parent = PARENT.format(child=CHILD, output=str(output))
    subprocess.run([sys.executable, "-c", parent], env=environment, check=True)
    time.sleep(1.5)
    assert output.read_text() == "started\n" + "at the end\n" * (not driven)
