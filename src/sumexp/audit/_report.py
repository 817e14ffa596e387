"""The audit as one self-contained page, and its data as JSON."""

import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sumexp.audit._effects import GROUPS
from sumexp.audit._setup import AuditError
from sumexp.audit._text import digits, nats, percent, signed
from sumexp.audit.results import Audit, Floats

FLOOR = 1e-8
"""Nats of divergence; smaller ones are drawn here."""


def write(audit: Audit, output: Path) -> tuple[Path, Path]:
    """Write the page, and ``.json`` next to it, each file atomically, the page last.

    Args:
        audit: what was found.
        output: the page.

    Raises:
        AuditError: if a file cannot be written, or Matplotlib is not installed.
    """
    paths = output.with_suffix(".json"), output
    texts = json.dumps(audit.plain(), indent=1, allow_nan=False) + "\n", page(audit, paths[0].name)
    for path, text in zip(paths, texts, strict=True):
        draft = path.with_name(f".{path.name}.draft")
        try:
            draft.write_text(text, "utf-8", newline="")
            draft.replace(path)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise AuditError(f"the report cannot be written: {error}") from error
    return paths


def page(audit: Audit, json_name: str) -> str:
    """The page: self-contained, light and dark, printable.

    Raises:
        AuditError: if Matplotlib is not installed.
    """
    try:
        import jinja2
        import matplotlib  # noqa: F401
    except ModuleNotFoundError as error:
        raise AuditError(
            f"the report needs {error.name}, which is not installed; in a copy of the sources: pip install '.[audit]'"
        ) from error
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=jinja2.StrictUndefined
    )
    return environment.get_template("report.html").render(
        audit=audit, groups=GROUPS, figures=_figures(audit), json=json_name,
        nats=lambda x: "" if math.isnan(x) else nats(x), digits=digits, percent=percent,
        signed=signed,
    )  # fmt: skip


def _figures(audit: Audit) -> list[dict[str, str]]:
    """Error by popularity, and divergence by number of negatives."""
    frequency, error, mass = (np.array(v) for v in zip(*audit.curve, strict=True))
    times = np.maximum(frequency * audit.labels, 1e-300)
    figures = [_drawn(
        times, lambda ax: ax.scatter(times, error, s=4 + 60 * mass / mass.max()),
        "times a class is a label", "score minus log P (nats)", "linear",
        "Error of each bin's score at the minimum against the frequency of its classes: above 0, scores are too high. "
        "Larger dots have more of P; over all labels the error averages to 0.",
    )]  # fmt: skip
    if len(audit.numbers) > 1:
        m, kl = np.array([n.m for n in audit.numbers]), [max(n.kl, FLOOR) for n in audit.numbers]
        figures.append(_drawn(
            m, lambda ax: (ax.plot(m, kl, "o-"), ax.axvline(audit.asked, color="black", ls=":")),
            "negatives", "KL (nats)", "log",
            "Divergence from the truth at the minimum (lower is better) against the number of negatives, for the first "
            "example. The dotted line is yours; values below 10⁻⁸ are drawn there.",
        ))  # fmt: skip
    return figures


def _drawn(across: Floats, draw: Callable[[Any], object], x: str, y: str, scale: str, caption: str) -> dict[str, str]:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": "audit", "svg.fonttype": "none"}):
        figure = Figure((7.5, 3.4), layout="constrained")
        ax = figure.subplots()
        ax.set(xlabel=x, ylabel=y, xscale="log", yscale=scale, xlim=(across.min() / 1.5, across.max() * 1.5))
        draw(ax)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    svg = text.getvalue().partition("<svg ")[2]
    return {"svg": f'<svg role="img" aria-label="{y} by {x}" {svg}', "caption": caption}
