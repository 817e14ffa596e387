"""Numbers that the prose quotes: recorded by the code that found them, never typed.

A cell calls `record`; the prose says ``{glue:text}`name```; the pipeline collects the values themselves.
"""

import math
import re
from numbers import Integral
from typing import SupportsFloat

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
        rtol: how far, relative to itself, a re-run on another machine may move it. 0 means that the printed digits
            agree: right for exact work; trained numbers need more.

    Raises:
        CompanionError: if the name is malformed, the value is not finite, or the two do not fit the format.
    """
    if not _NAME.fullmatch(name):
        raise CompanionError(f"result {name!r}: a name is lower-case letters, digits and hyphens, such as 'mean-error'")
    if not rtol >= 0:
        raise CompanionError(f"result {name!r}: rtol is {rtol}; it must be 0 or more")
    number = int(value) if isinstance(value, Integral) else float(value)
    if not math.isfinite(number):
        raise CompanionError(f"result {name!r} is {number}: only a finite number can be quoted; mend what computes it")
    try:
        text = typeset(format(number, spec))
    except ValueError as error:
        raise CompanionError(f"result {name!r} = {number}: format {spec!r} does not fit: {error}") from error
    display(  # type: ignore[no-untyped-call]
        # Quoted: myst-nb evaluates what it glues, and would make 49,815 a pair and 1.000 one digit.
        {f"{GLUE_PREFIX}text/plain": repr(text)},
        raw=True,
        metadata={
            "scrapbook": {"name": name, "mime_prefix": GLUE_PREFIX},
            "sumexp": {"result": name, "value": number, "rtol": rtol},
        },
    )


def typeset(text: str) -> str:
    """A formatted number as print has it: ``-2.5e-13`` becomes ``−2.5 × 10⁻¹³``."""
    exponent = _EXPONENT.search(text)
    if exponent:
        text = f"{text[: exponent.start()]} × 10{str(int(exponent[1])).translate(_SUPERSCRIPT)}"
    return text.replace("-", "−", 1) if text.startswith("-") else text
