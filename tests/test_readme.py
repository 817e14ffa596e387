"""The code in the README runs as printed."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_python_code_runs() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", README.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    exec(compile("\n".join(blocks), README.name, "exec"), {})
