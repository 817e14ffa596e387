"""The audit as one self-contained page, and its data as CSV and JSON."""

import csv
import io
import json
import math
import os
import tempfile
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from urllib.parse import quote

import numpy as np

from sumexp.audit._advice import READ
from sumexp.audit._effects import GROUPS
from sumexp.audit._setup import AuditError
from sumexp.audit._text import digits, nats, percent, signed
from sumexp.audit.results import Audit, Row, noise

STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--soft:#57606a;--line:#d0d7de;--band:#f6f8fa;--blue:#0072b2;--red:#b5381f;
--green:#1a7f4b;--ochre:#8a5a00}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--paper:#11151a;--soft:#9aa4ae;--line:#353c45;--band:#1a2027;--blue:#58b2e8;
--red:#ff8a6b;--green:#4fc98a;--ochre:#e0b050}}
@media print{:root{--ink:#000;--paper:#fff;--soft:#444;--line:#999;--band:#fff;--blue:#0072b2;--red:#b5381f;--green:#1a7f4b;--ochre:#8a5a00}
section,figure{break-inside:avoid}pre{white-space:pre-wrap}}
*{box-sizing:border-box}body{margin:0 auto;padding:1.5rem;max-width:66rem;background:var(--paper);color:var(--ink);
font:16px/1.55 system-ui,sans-serif}h1{font-size:1.5rem;margin:0}h2{font-size:1.15rem;margin:2.2rem 0 .6rem}
.light{display:flex;gap:1rem;align-items:center;border:1px solid var(--line);border-left:.6rem solid var(--tone);border-radius:.4rem;
padding:1rem;margin:1rem 0;background:var(--band)}.lamp{flex:none;width:2.4rem;height:2.4rem;border-radius:50%;background:var(--tone)}
.right{--tone:var(--green)}.wrong{--tone:var(--red)}.cannot{--tone:var(--ochre)}.light b{display:block;color:var(--tone)}
.light p{margin:0;font-size:1.1rem}.wide{overflow-x:auto}.wide>table:not([style]){min-width:46rem}table{border-collapse:collapse;width:100%;font-size:.92rem}
th,td{text-align:right;padding:.35rem .55rem;border-bottom:1px solid var(--line);vertical-align:top}
th:first-child,td:first-child,td.text,th.text{text-align:left}td.number{white-space:nowrap;font-variant-numeric:tabular-nums}
thead th button{all:unset;cursor:pointer;font-weight:600}thead th button:focus-visible{outline:2px solid var(--blue)}
thead th[aria-sort=ascending] button::after{content:" \\25B2"}thead th[aria-sort=descending] button::after{content:" \\25BC"}
table.words th{text-align:left}tr.own td{background:var(--band);font-weight:600}figure{margin:1rem 0}figcaption,.soft{color:var(--soft);font-size:.92rem}
svg{width:100%;height:auto;font:13px system-ui,sans-serif}svg text{fill:var(--ink)}@media(max-width:40rem){svg{font-size:19px}}pre{background:var(--band);border:1px solid var(--line);
border-radius:.4rem;padding:.8rem;overflow-x:auto;font-size:.86rem}code{font-family:ui-monospace,monospace}a{color:var(--blue)}
"""

SCRIPT = """
for(const t of document.querySelectorAll("table.sort"))t.querySelectorAll("thead th").forEach((h,i)=>{
h.querySelector("button").onclick=()=>{const up=h.getAttribute("aria-sort")!=="ascending";
t.querySelectorAll("thead th").forEach(o=>o.removeAttribute("aria-sort"));h.setAttribute("aria-sort",up?"ascending":"descending");
const v=r=>{const d=r.cells[i];return d.dataset.v!==undefined?+d.dataset.v:d.textContent};const b=t.tBodies[0];
[...b.rows].sort((p,q)=>{const x=v(p),y=v(q);return(x<y?-1:x>y?1:0)*(up?1:-1)}).forEach(r=>b.append(r))}})
"""


def write(audit: Audit, output: Path, book: str = "") -> tuple[Path, Path, Path]:
    """Write the page, and ``.csv`` and ``.json`` next to it: each whole or not at all, the page last.

    Args:
        audit: what was found.
        output: the page.
        book: address of the book's pages, or their folder; with it theorems are links to their entries in its register.

    Raises:
        AuditError: if a file cannot be written; none is then left half done.
    """
    paths = output.with_suffix(".csv"), output.with_suffix(".json"), output
    texts = (
        table(audit),
        json.dumps(audit.plain(), indent=1, allow_nan=False) + "\n",
        page(audit, paths[0].name, paths[1].name, book),
    )
    drafts: list[Path] = []
    try:
        for path, text in zip(paths, texts, strict=True):
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            drafts.append(Path(name))
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                file.write(text)
            drafts[-1].chmod(0o644)
        for draft, path in zip(drafts, paths, strict=True):
            draft.replace(path)
    except OSError as error:
        for draft in drafts:
            draft.unlink(missing_ok=True)
        raise AuditError(f"the report cannot be written: {error}") from error
    return paths


def table(audit: Audit) -> str:
    """The schemes as CSV: a row each, nats but for the shares, the overlap and the noise."""
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    grouped = ("shift", "weighted", "truth", "learned", "inside", "weight", "full_weight")
    plain = ("kl", "kl_error", "gap", "overlap", "loss", "deviation", "noise")
    out.writerow(["scheme", *plain, *(f"{name}_{group}" for name in grouped for group in GROUPS)])
    for each in (audit.scheme, *audit.alternatives):
        values = [getattr(each, name) for name in plain] + [x for name in grouped for x in getattr(each, name)]
        out.writerow([each.title, *(f"{x:.9g}" for x in values)])
    return text.getvalue()


def page(audit: Audit, csv_name: str, json_name: str, book: str = "") -> str:
    """The page: self-contained, light and dark, printable."""
    tone = audit.verdict.split()[0]
    faults = [f for f in audit.faults if f.found]
    advised = audit.advice
    parts = [
        f'<h1>Audit of a sampled loss</h1><p class="soft">{audit.classes:,} classes, {audit.labels:,} labels. '
        f"{escape(audit.scheme.title)}. {digits(audit.negatives, 6)} negatives. Truth: {escape(audit.source)}.</p>",
        f'<div class="light {tone}" role="status"><span class="lamp" aria-hidden="true"></span><div><b>{audit.verdict.capitalize()}</b>'
        f"<p>{escape(audit.sentence)}.</p></div></div>",
        _section("Your scheme and others", _schemes(audit), "Divergence, loss, noise and errors of scores are at the exact minimum "
                 "of each scheme's expected loss; smaller is better, and an error above 0 means that scores are too high. "
                 "A divergence can be large where the loss hardly changes: training curves do not show it."),
        _section("Where the scores are wrong", _popularity(audit), ""),
        _section("How many negatives", _numbers(audit), ""),
        _section("What to change", _advice(audit), "") if advised.change else "",
        _section("For your numbers", _choice(audit, book), "") if audit.choice else "",
        _section("Drift", _drift(audit), "") if audit.drift else "",
        _section("Known faults", _faults(audit, book), f"{len(faults)} of {len(audit.faults)} found."),
        _section("Each number", _sentences(audit, book), ""),
        _section("Your evaluation", _evaluation(audit), "") if audit.evaluation else "",
        _section("Assumptions", "<ul>" + "".join(f"<li>{escape(a)}</li>" for a in audit.assumptions) + "</ul>", ""),
        f'<p class="soft">Data: <a href="./{quote(csv_name)}">{escape(csv_name)}</a>, <a href="./{quote(json_name)}">{escape(json_name)}</a>. '
        "Names like <code>sumexp-consistent</code> are entries of the register of the book The Sum of Exponentials.</p>",
    ]  # fmt: skip
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Audit: {escape(audit.scheme.title)}</title><style>{STYLE}</style></head><body><main>"
        + "\n".join(parts) + f"</main><script>{SCRIPT}</script></body></html>\n"
    )  # fmt: skip


def _why(text: str, claim: str, book: str) -> str:
    """Where a number comes from, and the theorem's entry in the book's register: its name stays, whatever is moved."""
    if not claim:
        return escape(text)
    name = f"<code>{escape(claim)}</code>"
    entry = f"{book.rstrip('/')}/book/register.html#claim-{claim}"
    return f"{escape(text)}: " + (f'<a href="{escape(entry)}">{name}</a>' if book else name)


def _section(title: str, body: str, lead: str) -> str:
    return f"<section><h2>{title}</h2>{f'<p>{lead}</p>' if lead else ''}{body}</section>"


def _cell(value: float, shown: str) -> str:
    return f'<td class="number" data-v="{value if math.isfinite(value) else 1e300:.9g}">{shown}</td>'


def _head(*names: str) -> str:
    return "<thead><tr>" + "".join(f'<th scope="col"><button>{n}</button></th>' for n in names) + "</tr></thead>"


def _schemes(audit: Audit) -> str:
    def line(each: Row, own: bool) -> str:
        share = ((each.weight[2] / sum(each.weight)) if sum(each.weight) else 0.0, each.weight[2])
        return (
            f'<tr{" class=own" if own else ""}><td>{escape(each.title)}</td>' + _cell(each.kl, nats(each.kl)) + _cell(each.gap, nats(each.gap))
            + "".join(_cell(x, signed(x)) for x in each.shift) + _cell(each.learned[2], percent(each.learned[2]))
            + _cell(each.overlap, f"{each.overlap:.3g}") + _cell(each.noise, f"{each.noise:.3f}") + _cell(share[0], percent(share[0], 2)) + "</tr>"
        )  # fmt: skip

    rows = line(audit.scheme, True) + "".join(line(a, False) for a in audit.alternatives)
    full = audit.scheme.full_weight
    return (
        '<div class="wide"><table class="sort">' + _head("scheme", "KL (nats)", "gap in loss (nats)", "head (nats)", "torso (nats)", "tail (nats)",
        "tail learned", "top 10 kept", "gradient noise", "push on tail") + f"<tbody>{rows}</tbody></table></div>"
        f'<p class="soft">True share of the tail: {percent(audit.scheme.truth[2])}. Of the full softmax\'s push on negatives '
        f"{percent(full[2] / (sum(full) or 1), 2)} falls on the tail.</p>"
    )  # fmt: skip


def _faults(audit: Audit, book: str) -> str:
    mark = {True: "found", False: "no", None: "not tested"}
    rows = "".join(
        f"<tr{' class=own' if f.found else ''}><td>{escape(f.name)}</td><td class=text>{mark[f.found]}</td>"
        f"<td class=text>{escape(f.says)}</td><td class=text>{_why(f.source, f.claim, book)}</td></tr>" for f in audit.faults
    )  # fmt: skip
    return f'<div class="wide"><table class="sort words">{_head("fault", "found", "what was seen", "source")}<tbody>{rows}</tbody></table></div>'


def _advice(audit: Audit) -> str:
    a = audit.advice
    code = "".join(
        f"<h3>{name}</h3><pre><code>{escape(lines)}</code></pre>"
        for name, lines in (("PyTorch", a.torch), ("TensorFlow Recommenders", a.recommenders), ("Merlin", a.merlin))
    )
    price = f"At the true scores the {noise(a.variance)} (standard deviation of the gradient over samples)."
    return (
        f"<p><strong>{escape(a.change[0].upper() + a.change[1:])}.</strong> {price if a.variance > 0 else ''}</p>{code}"
        f'<p class="soft">{escape(READ)}</p>'
    )


def _drift(audit: Audit) -> str:
    d = audit.drift
    assert d is not None
    rows = "".join(
        f"<tr><td>{g.name}</td>{_cell(g.classes, f'{g.classes:,}')}{_cell(g.trained, percent(g.trained))}"
        f"{_cell(g.served, percent(g.served))}{_cell(g.ratio, digits(g.ratio))}</tr>" for g in d.groups
    )  # fmt: skip
    said = (
        f"<p>{d.labels:,} labels differ from the counts by {d.deviations:,.0f} standard deviations of Pearson's statistic: "
        f"{digits(max(d.least, 0.0))} ± {digits(d.error, 1)} nats of KL estimated on held-out labels, and at most {digits(d.most)} by the frequencies "
        f"(both in expectation). {escape(d.direction.capitalize())}.</p>"
        if d.found
        else f"<p>{d.labels:,} labels are consistent with the distribution of the counts.</p>"
    )
    lost = (
        f"<p>{percent(d.unknown, 2)} of the labels belong to classes that training never had.</p>" if d.unknown else ""
    )
    code = (
        f"<p>This line is exact for the true shares if P(x|y) does not change, which counts cannot show:</p><pre><code>{escape(d.lines)}</code></pre>"
        if d.found
        else ""
    )
    names = ("classes, by all labels", "number", "of training", "served", "ratio")
    return f'{said}<div class="wide"><table class="sort" style="width:auto">{_head(*names)}<tbody>{rows}</tbody></table></div>{lost}{code}'


def _choice(audit: Audit, book: str) -> str:
    c = audit.choice
    assert c is not None
    more = "".join(
        f"<p>{escape(text[0].upper() + text[1:])}.</p>" for text in (audit.served, str(audit.bounded or "")) if text
    )
    return (
        f"<p><strong>{escape(c.use[0].upper() + c.use[1:])}</strong>: {escape(c.because)} ({_why('theorem', c.claim, book)}). "
        f"The logits of a step and their gradient take {digits(c.bytes / 2**20)} MiB.</p>{more}"
    )


def _sentences(audit: Audit, book: str) -> str:
    s, r = audit.scheme, audit.rates
    bound = audit.rank_bound
    rows = [
        ("KL from the truth", f"{nats(s.kl)} ± {nats(s.kl_error)} nats", "How far the learned distribution is from P(y|x); 0 is best.", "theorem on the right scheme", "sumexp-consistent"),
        ("gap in loss", f"{nats(s.gap)} nats", "How far the sampled loss at its minimum is below its value at the truth.", "the mean of a logarithm as an integral", "sumexp-identity"),
        ("sampled loss", f"{digits(s.loss, 4)} ± {digits(s.deviation, 2)} nats", "Mean and standard deviation over samples, at the true scores.", "mean and variance as integrals", "sumexp-variance"),
        ("full loss", f"{digits(audit.full_loss, 4)} nats", "The full cross entropy at the true scores.", "its definition", ""),
        ("within 1 %", f"{audit.one_per_cent:,} draws" if audit.one_per_cent else f"not by 2^{24 if audit.draws else 14} draws", "From here on subtracting log mq from the negatives (for a set, the log inclusion probability) gives the full loss within 1 % on average.", "Jensen's inequality, and its gap as an integral", "sumexp-jensen-gap"),
        ("gradient noise", digits(s.noise), "Standard deviation over samples of the gradient in the logits, summed over classes.", "what a negative is worth", "sumexp-worth"),
        ("a negative is the label", percent(r.hit), "Probability that one negative equals the label.", "sum of pi q", ""),
        ("an example has a hit", percent(r.any_hit), "Head, torso, tail: " + ", ".join(percent(x, 2) for x in r.any_by_group) + ".", "sum of pi (1 - (1 - q)^m)", ""),
        ("never a label", f"{r.unseen:,}", "Classes of count 0 that are sampled: their scores only fall.", "theorem on the right scheme", "sumexp-consistent"),
        ("can certify", f"{audit.certificate:.2f} nats", "No InfoNCE loss with this many negatives certifies more mutual information.", "the loss is at least 0", "nce-logN-ceiling"),
        ("bounds the log rank", "not decided" if bound.holds is None else "yes" if bound.holds else "no",
         "MRR is at least exp(-loss), and NDCG of one relevant item at least 1 / log2(1 + exp(loss))." if bound.holds
         else "For sets, several pools, own tables and most weights that depend on the label the condition is not tested." if bound.constant is None
         else f"With {_rounded(bound.constant, math.ceil)} nats added to the loss, and with no less, MRR is at least exp(-sum), and NDCG of one relevant item at least 1 / log2(1 + exp(sum))." if bound.exact
         else f"At least {_rounded(bound.constant, math.floor)} nats would have to be added; the audit does not compute how many suffice.", "condition on all sets of negatives", "sumexp-rank-criterion"),
    ]  # fmt: skip
    body = "".join(
        f"<tr><td>{a}</td><td class=number>{escape(b)}</td><td class=text>{escape(c)}</td><td class=text>{_why(d, claim, book)}</td></tr>"
        for a, b, c, d, claim in rows
    )
    return f'<div class="wide"><table class="sort words">{_head("what", "value", "in a sentence", "why it holds")}<tbody>{body}</tbody></table></div>'


def _rounded(value: float, rounding: Callable[[float], int]) -> str:
    """Three digits of a positive number, rounded to the side on which the sentence about it stays true."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return digits(rounding(value / unit) * unit)


def _evaluation(audit: Audit) -> str:
    e = audit.evaluation
    assert e is not None
    rows = "".join(f"<tr><td>{escape(n)}</td>{_cell(a, f'{a:.3f}')}{_cell(b, f'{b:.3f}')}</tr>" for n, a, b in e.true)
    given = ", ".join(f"{escape(n)} = {v:g}" for n, v in e.reported)
    return (
        f"<p>Among {e.candidates} candidates ({escape(e.sampler)}) you report {given}. The full-catalogue metrics can lie anywhere in these ranges, "
        "to three digits and up to the sampling error of finitely many examples "
        "(Krichene and Rendle 2020); two models whose ranges overlap can change order.</p>"
        f'<table class="sort" style="width:auto">{_head("true metric", "least", "greatest")}<tbody>{rows}</tbody></table>'
    )


def _popularity(audit: Audit) -> str:
    x, y, mass = (np.array(v) for v in zip(*audit.curve, strict=True))
    x = np.log10(np.maximum(x * audit.labels, 1e-300))
    edges = np.linspace(x.min(), x.max() + 1e-9, 16)
    place = np.digitize(x, edges)
    line = [
        (np.average(x[place == k], weights=mass[place == k]), np.average(y[place == k], weights=mass[place == k]))
        for k in np.unique(place)
    ]
    frame = _Frame((x.min(), x.max()), (min(0.0, y.min()), max(0.0, y.max())))
    dots = "".join(
        f'<circle cx="{frame.x(a):.1f}" cy="{frame.y(b):.1f}" r="2" fill="var(--blue)" fill-opacity=".4"/>'
        for a, b in zip(x, y, strict=True)
    )
    path = " ".join(f"{frame.x(a):.1f},{frame.y(b):.1f}" for a, b in line)
    ticks = [(k, f"{10.0**k:,.0f}") for k in range(math.ceil(x.min() - 1e-9), math.floor(x.max() + 1e-9) + 1)]
    svg = frame.svg(
        dots + f'<polyline points="{path}" fill="none" stroke="var(--red)" stroke-width="2.5"/>'
        f'<line x1="{frame.left}" x2="{frame.right}" y1="{frame.y(0):.1f}" y2="{frame.y(0):.1f}" stroke="var(--soft)" stroke-dasharray="4 3"/>',
        ticks, frame.ticks(), "times a class is a label", "score minus log P (nats)",
        f"Errors of scores from {y.min():+.2f} to {y.max():+.2f} nats",
    )  # fmt: skip
    return f"<figure>{svg}<figcaption>Error of each bin's score at the minimum against the frequency of its classes: above 0, scores are too high. The line is the mean, weighted by P; over all labels the error averages to 0.</figcaption></figure>"


def _numbers(audit: Audit) -> str:
    pairs = audit.by_m
    floor = 1e-8
    xs, ys = [math.log10(m) for m, _ in pairs], [math.log10(max(k, floor)) for _, k in pairs]
    out = ""
    if len(pairs) > 1:
        own = audit.asked
        frame = _Frame((min(xs), max(xs)), (math.floor(min(ys)), max(math.ceil(max(ys)), math.floor(min(ys)) + 1)))
        dots = "".join(
            f'<circle cx="{frame.x(a):.1f}" cy="{frame.y(b):.1f}" r="{6 if m == own else 3.5}" fill="var(--{"red" if m == own else "blue"})"/>'
            for a, b, (m, _) in zip(xs, ys, pairs, strict=True)
        )
        path = " ".join(f"{frame.x(a):.1f},{frame.y(b):.1f}" for a, b in zip(xs, ys, strict=True))
        ticks = [(k, f"{10**k:,}") for k in range(math.ceil(min(xs)), math.floor(max(xs)) + 1)]
        down = [(k, "0" if 10.0**k <= floor else _power(k)) for k in range(math.floor(min(ys)), math.ceil(max(ys)) + 1)]
        svg = frame.svg(f'<polyline points="{path}" fill="none" stroke="var(--blue)" stroke-width="1.5"/>{dots}', ticks, down, "negatives", "KL (nats)",
                        "Divergence by number of negatives: " + ", ".join(f"{m}: {nats(k)}" for m, k in pairs))  # fmt: skip
        out += f"<figure>{svg}<figcaption>Divergence from the truth at the minimum (lower is better) against the number of negatives, for the first example. The large mark is yours; values below 10⁻⁸ are drawn at 0.</figcaption></figure>"
        pulls = "".join(
            f"<tr>{_cell(m, f'{m:,}')}{_cell(loss, nats(loss))}{_cell(spread, digits(spread))}{_cell(bias, nats(bias))}{_cell(noise, digits(noise))}</tr>"
            for (m, loss, spread), (_, bias, noise) in zip(audit.loss_by_m, audit.gradient_by_m, strict=True)
        )
        names = (
            "negatives",
            "loss minus full loss (nats)",
            "its standard deviation",
            "mean gradient",
            "its standard deviation",
        )
        out += (
            "<p>At the true scores: the mean of the sampled loss minus the full loss, and the length of the mean gradient over "
            "the labels, which is 0 for the full loss; each with its standard deviation over samples.</p>"
            f'<div class="wide"><table class="sort" style="width:auto">{_head(*names)}<tbody>{pulls}</tbody></table></div>'
        )
    if audit.by_spread:
        rows = "".join(f"<tr>{_cell(s, f'{s:g}')}{_cell(k, nats(k))}</tr>" for s, k in audit.by_spread)
        out += (
            "<p>Counts do not show how much a context changes the frequencies. The table assumes a spread of log P(y|x)/π(y), in nats:</p>"
            f'<table class="sort" style="width:auto">{_head("spread", "KL (nats)")}<tbody>{rows}</tbody></table>'
        )
    return out


class _Frame:
    """Axes of a figure, in the coordinates of its box."""

    left, right, top, bottom, wide, high = 92.0, 675.0, 12.0, 270.0, 720, 320

    def __init__(self, across: tuple[float, float], up: tuple[float, float]) -> None:
        self.across = across if across[1] > across[0] else (across[0] - 0.5, across[0] + 0.5)
        self.up = up if up[1] - up[0] > 1e-9 else (up[0] - 0.5, up[0] + 0.5)

    def x(self, value: float) -> float:
        return self.left + (self.right - self.left) * (value - self.across[0]) / (self.across[1] - self.across[0])

    def y(self, value: float) -> float:
        return self.bottom - (self.bottom - self.top) * (value - self.up[0]) / (self.up[1] - self.up[0])

    def ticks(self) -> list[tuple[float, str]]:
        span = self.up[1] - self.up[0]
        step = 10 ** math.floor(math.log10(span))
        step = next(s for s in (step / 5, step / 2, step, 2 * step) if span / s <= 7)
        return [
            (k * step, f"{k * step:.6g}".replace("-", "−"))
            for k in range(math.ceil(self.up[0] / step), math.floor(self.up[1] / step) + 1)
        ]

    def svg(
        self,
        inside: str,
        across: Sequence[tuple[float, str]],
        up: Sequence[tuple[float, str]],
        x: str,
        y: str,
        says: str,
    ) -> str:
        grid = "".join(
            f'<line x1="{self.left}" x2="{self.right}" y1="{self.y(v):.1f}" y2="{self.y(v):.1f}" stroke="var(--line)"/>'
            f'<text x="{self.left - 8}" y="{self.y(v) + 4:.1f}" text-anchor="end">{t}</text>' for v, t in up
        )  # fmt: skip
        below = "".join(
            f'<text x="{self.x(v):.1f}" y="{self.bottom + 20}" text-anchor="middle">{t}</text>' for v, t in across
        )
        middle = (self.left + self.right) / 2
        return (
            f'<svg viewBox="0 0 {self.wide} {self.high}" role="img" aria-label="{escape(says)}">{grid}{below}{inside}'
            f'<text x="{middle}" y="{self.bottom + 42}" text-anchor="middle">{x}</text>'
            f'<text transform="translate(16 {(self.top + self.bottom) / 2}) rotate(-90)" text-anchor="middle">{y}</text></svg>'
        )


def _power(k: int) -> str:
    """Ten to the k, in figures or as a power."""
    return f"{10.0**k:g}" if abs(k) <= 4 else "10" + str(k).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
