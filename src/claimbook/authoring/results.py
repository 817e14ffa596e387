"""What the prose says of a run: numbers are recorded by the code that computes them; sentences are guarded."""

import math
import re
from numbers import Integral
from typing import Any, SupportsFloat

from IPython.display import display

from claimbook import BookError

# myst-nb takes an output with this prefix for a value to be glued and does not show it where it was made.
GLUE_PREFIX = "application/papermill.record/"

_AS_IT_IS, _MINUS, _EXPONENT = r"(\$[^$]*\$|`[^`]*`)", r"(?<![\w.)])-(?=\d)", r"(?<=\d)e([+-]\d+)\b"
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def record(name: str, value: SupportsFloat, spec: str = ".3g", rtol: float = 0.0) -> None:
    """Record a finite number under a name, once in a notebook; the prose shows it by ``{glue:text}`name```.

    It is printed by ``spec``, as `format` does. ``rtol`` is how far, relative to itself, a run on another machine may
    move it. 0 means that six digits agree, however many are printed: right for exact work; trained numbers need more.
    """
    check_name("result", name, "mean-error")
    number = int(value) if isinstance(value, Integral) else float(value)
    if not (math.isfinite(number) and 0 <= rtol < math.inf):
        raise BookError(f"result {name!r} is {number}, rtol {rtol}: both must be finite, and rtol at least 0")
    try:  # quoted: myst-nb evaluates what it glues, and would make 49,815 a pair and 1.000 one digit
        text = repr(typeset(format(number, spec)))
    except ValueError as error:
        raise BookError(f"result {name!r} is {number}, format {spec!r}: {error}") from None
    _glue(name, {"text/plain": text}, {"result": name, "value": number, "rtol": rtol})


def typeset(text: str) -> str:
    """A text with its numbers as print has them, but in formulas and code: ``-2.5e-13`` becomes ``−2.5 × 10⁻¹³``."""

    def in_print(match: re.Match[str]) -> str:
        if exponent := match[2]:
            return f" × 10{str(int(exponent)).translate(_SUPERSCRIPT)}" if int(exponent) else ""
        return match[1] or "−"

    return re.sub(f"{_AS_IT_IS}|{_MINUS}|{_EXPONENT}", in_print, text)


def guard(words: str, holds: object) -> None:
    """Tie words of the prose, a caption or an alt text to the condition that makes them true in every run, or break.

    For what is exact, or bounded for every seed. The build also breaks if the page does not have these words.
    """
    if not holds:
        raise BookError(f"the text says {words!r}, and in this run it is not so: fix the text or the run")
    display({"text/plain": ""}, raw=True, metadata={"sumexp": {"guard": words}})  # type: ignore[no-untyped-call]


def sentence(name: str, text: str) -> str:
    """Record a sentence in Markdown for the prose, ``{glue:md}`name:myst```; returns it for captions and alt texts."""
    check_name("result", name, "mean-error")
    text = typeset(text)
    _glue(name, {"text/markdown": text}, {"sentence": name, "text": text})
    return text


def _glue(name: str, data: dict[str, str], mark: dict[str, Any]) -> None:
    """Put out what the prose shows under a name."""
    glued = {f"{GLUE_PREFIX}{kind}": text for kind, text in data.items()}
    metadata = {"scrapbook": {"name": name, "mime_prefix": GLUE_PREFIX}, "sumexp": mark}
    display(glued, raw=True, metadata=metadata)  # type: ignore[no-untyped-call]


def check_name(what: str, name: str, example: str) -> None:
    """Refuse a name that a page cannot have as an id."""
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise BookError(f"{what} {name!r}: a name is lower-case letters, digits and hyphens, such as {example!r}")
