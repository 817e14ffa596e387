"""A remote in a bucket. Moto stands in for S3, in an environment of its own: its pins and ours do not agree."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import sumexp

HERE = Path(__file__).parent


@pytest.mark.slow
def test_a_bucket_is_a_remote(tmp_path: Path) -> None:
    place = tmp_path / "venv"
    python = place / "bin" / "python"
    uv = [sys.executable, "-m", "uv"]
    install = ["pip", "install", "-q", "--python", str(python), "-r", str(HERE / "s3-pins.txt")]
    subprocess.run([*uv, "venv", "-q", str(place)], check=True)
    made = subprocess.run([*uv, *install], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"moto and s3fs cannot be installed here: {made.stderr.strip()[-200:]}")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SUMEXP_")}
    environment["PYTHONPATH"] = str(Path(sumexp.__path__[0]).parent)
    command = [str(python), str(HERE / "s3_script.py"), str(tmp_path / "stores")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("all is well")
