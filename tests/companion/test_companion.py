"""What is not imported for nothing."""

import subprocess
import sys

IMPORTS = "{}; import sys; print('lark' in sys.modules)"


def imports_lark(code: str) -> bool:
    done = subprocess.run([sys.executable, "-c", IMPORTS.format(code)], capture_output=True, text=True, check=True)
    return done.stdout == "True\n"


def test_jupytext_comes_without_grammars_of_addresses() -> None:
    assert imports_lark("import jupytext")
    pages = "from sumexp.companion.build import staging; staging.chapter('bias', '', None)"
    assert not imports_lark(pages)
