"""The staged book as pages: by Sphinx, with Jupyter Book's settings, on several cores; a warning is an error."""

import gc
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from warnings import catch_warnings, filterwarnings

from claimbook import BookError


def render(stage: Path, output: Path, *, jobs: int) -> None:
    """Render the book that ``staging.stage`` has laid out, by so many processes; raises what Sphinx says."""
    from jupyter_book.sphinx import build_sphinx
    from papermill.exceptions import strip_color

    source, stderr = stage.resolve(), StringIO()
    with redirect_stderr(stderr), catch_warnings(), TemporaryDirectory(prefix="sumexp-doctrees-") as trees:
        # sphinx-external-toc inspects every live object: it fails at a dead proxy, and torch warns when its
        # objects are inspected.
        gc.collect()
        filterwarnings("ignore", "`torch.distributed.reduce_op` is deprecated", FutureWarning)
        failed = build_sphinx(
            source,
            output.resolve(),
            path_config=source / "_config.yml",
            noconfig=True,  # but for Jupyter Book's
            confoverrides={"external_toc_path": "_toc.yml", "latex_individualpages": False},
            doctreedir=trees,
            jobs=jobs,
            quiet=True,
            warningiserror=True,
            keep_going=True,
        )
    if failed:
        text = strip_color(stderr.getvalue()).replace(f"{source}/", "")
        lines = [f"  {line}" for line in text.splitlines() if line.strip()]
        raise BookError("\n".join(["the book could not be rendered; Sphinx says:", *lines[-20:]]))
    (output / ".buildinfo").unlink(missing_ok=True)  # a digest of settings, among them where this was read from
