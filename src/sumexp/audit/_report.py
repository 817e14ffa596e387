"""The audit as one self-contained page, and its data as JSON."""

import io
import json
import os
from html import escape
from pathlib import Path
from string import Template
from urllib.parse import quote

import numpy as np

from sumexp.audit._setup import AuditError
from sumexp.audit.results import Audit

PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>Audit: $title</title>
<style>
:root{color-scheme:light dark}
body{margin:0 auto;padding:1.5rem;max-width:60rem;font:16px/1.55 system-ui,sans-serif}
.verdict{border-left:.6rem solid #b5381f;padding:.6rem 1rem}
svg{width:100%;height:auto;background:#fff}pre{overflow-x:auto}figure{margin:1rem 0}
@media print{figure{break-inside:avoid}pre{white-space:pre-wrap}}
</style></head><body><main>
<h1>Audit of a sampled loss</h1>
<p class="verdict" role="status"><b>Verdict: $verdict.</b> $sentence.<br><b>Advice:</b> $advice.</p>
<figure>$figure<figcaption>Error of each bin's score at the minimum against the frequency of its classes: above 0,
scores are too high. Larger dots have more of P; over all labels the error averages to 0.</figcaption></figure>
<pre>$text</pre>
<p>Data: <a href="./$url">$json</a>.</p>
</main></body></html>
""")


def write(audit: Audit, output: Path) -> tuple[Path, Path]:
    """Write the page ``output``, and ``.json`` next to it, each file atomically, the page last."""
    paths = output.with_suffix(".json"), output
    texts = json.dumps(audit.plain(), indent=1, allow_nan=False) + "\n", page(audit, paths[0].name)
    for path, text in zip(paths, texts, strict=True):
        draft = path.with_name(f".{path.name}.{os.getpid()}")  # two commands may write one report
        try:
            draft.write_text(text, "utf-8", errors="backslashreplace", newline="")  # files may have any name
            draft.replace(path)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise AuditError(f"the report cannot be written: {error}") from error
    return paths


def page(audit: Audit, json_name: str) -> str:
    """The page: a figure and the printed text, self-contained, light and dark, printable."""
    try:
        figure = _figure(audit)
    except ModuleNotFoundError as error:
        raise AuditError(
            f"the report needs {error.name}, which is not installed; in a copy of the sources: pip install '.[audit]'"
        ) from error
    except ValueError as error:  # such as a name in MPLBACKEND
        raise AuditError(f"the report cannot be drawn: {error}") from error
    named = {"title": audit.scheme.title, "verdict": audit.verdict, "sentence": audit.sentence, "text": str(audit),
             "advice": audit.change or "change nothing", "json": json_name}  # fmt: skip
    url = quote(json_name, errors="surrogateescape")
    return PAGE.substitute({name: escape(text) for name, text in named.items()}, figure=figure, url=url)


def _figure(audit: Audit) -> str:
    """Error by popularity, as SVG."""
    from matplotlib import style
    from matplotlib.figure import Figure

    frequency, error, mass = (np.array(values) for values in zip(*audit.curve, strict=True))
    times = np.maximum(frequency * audit.labels, 1e-300)
    with style.context(["default", {"svg.hashsalt": "audit", "svg.fonttype": "none"}]):  # not as a matplotlibrc says
        figure = Figure((7.5, 3.4), layout="constrained")
        ax = figure.subplots()
        x, y = "times a class is a label", "score minus log P (nats)"
        ax.set(xlabel=x, ylabel=y, xscale="log", xlim=(times.min() / 1.5, times.max() * 1.5))
        ax.scatter(times, error, s=4 + 60 * mass / mass.max())
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return f'<svg role="img" aria-label="{y} by {x}" {text.getvalue().partition("<svg ")[2]}'
