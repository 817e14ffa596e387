"""What the prose says of a run: numbers are recorded by the code that found them, never typed; sentences are guarded.

A cell calls `record`; the prose says ``{glue:text}`name```; the pipeline collects the values themselves.
"""

import math
import re
from numbers import Integral
from typing import Any, SupportsFloat

from IPython.display import display

from sumexp.companion import CompanionError

# myst-nb takes an output with this prefix for a value to be glued and does not show it where it was made.
GLUE_PREFIX = "application/papermill.record/"

_NAME = re.compile(r"[a-z][a-z0-9-]*")
_EXPONENT = re.compile(r"e([+-]\d+)$")
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def record(name: str, value: SupportsFloat, spec: str = ".3g", rtol: float = 0.0) -> None:
    """Record a number under a name that prose, pipeline and tests can ask for.

    Args:
        name: lower-case letters, digits and hyphens, once in a notebook.
        value: a finite number, or anything that is one (a tensor or array without dimensions).
        spec: how the prose prints it, as for `format`; integers keep all their digits under ``"d"`` or ``","``.
        rtol: how far, relative to itself, a re-run on another machine may move it. 0 means that six digits agree,
            however many are printed: right for exact work; trained numbers need more.

    Raises:
        CompanionError: if the name is malformed, the value is not finite, or the two do not fit the format.
    """
    _check(name)
    if not rtol >= 0:
        raise CompanionError(f"result {name!r}: rtol is {rtol}; it must be 0 or more")
    number = int(value) if isinstance(value, Integral) else float(value)
    if not math.isfinite(number):
        raise CompanionError(f"result {name!r} is {number}: only a finite number can be quoted; fix what computes it")
    try:
        text = typeset(format(number, spec))
    except ValueError as error:
        raise CompanionError(f"result {name!r} = {number}: format {spec!r} does not fit: {error}") from error
    # Quoted: myst-nb evaluates what it glues, and would make 49,815 a pair and 1.000 one digit.
    _glue(name, {"text/plain": repr(text)}, {"result": name, "value": number, "rtol": rtol})


def typeset(text: str) -> str:
    """A formatted number as print has it: ``-2.5e-13`` becomes ``−2.5 × 10⁻¹³``."""
    exponent = _EXPONENT.search(text)
    if exponent:
        text = f"{text[: exponent.start()]} × 10{str(int(exponent[1])).translate(_SUPERSCRIPT)}"
    return text.replace("-", "−", 1) if text.startswith("-") else text


def guard(sentence: str, holds: object) -> None:
    """Tie a sentence of the prose, a caption or an alt text to what its truth depends on.

    Args:
        sentence: words of the chapter, as they stand there; the page is refused if it does not have them.
        holds: whether they are true of this run.

    Raises:
        CompanionError: if they are not; the build breaks and names the sentence.
    """
    if not holds:
        raise CompanionError(f"the text says {sentence!r}, and in this run it is not so: fix the text or the run")
    display({"text/plain": ""}, raw=True, metadata={"sumexp": {"guard": sentence}})  # type: ignore[no-untyped-call]


def choose(name: str, *cases: tuple[object, str]) -> str:
    """Record under ``name`` the first of several sentences that is true of this run, and return it.

    The prose shows it, typeset as Markdown, by ``{glue:md}`name:myst```; captions and alt texts take what is returned.
    For where more than one outcome is honest.

    Args:
        name: as for `record`.
        cases: pairs of a condition and the sentence that holds if it does, which may have ``$...$`` and be several.

    Raises:
        CompanionError: if the name is malformed, or no condition holds.
    """
    _check(name)
    for holds, sentence in cases:
        if holds:
            _glue(name, {"text/markdown": sentence}, {"sentence": name, "text": sentence})
            return sentence
    raise CompanionError(f"none of the sentences of {name!r} is true of this run: {' | '.join(s for _, s in cases)}")


def _glue(name: str, data: dict[str, str], mark: dict[str, Any]) -> None:
    """Put out what the prose shows under a name."""
    glued = {f"{GLUE_PREFIX}{kind}": text for kind, text in data.items()}
    metadata = {"scrapbook": {"name": name, "mime_prefix": GLUE_PREFIX}, "sumexp": mark}
    display(glued, raw=True, metadata=metadata)  # type: ignore[no-untyped-call]


def _check(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise CompanionError(f"result {name!r}: a name is lower-case letters, digits and hyphens, such as 'mean-error'")
