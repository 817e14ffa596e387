"""Numbers as the audit prints them: significant digits, and no exponents where a reader expects none."""

import math


def digits(value: float, number: int = 3) -> str:
    """A number in significant digits. ``.2g`` makes 1e+02 of 99.6; here that is 100."""
    text = f"{value:,.{number}g}"
    return f"{float(text):,.0f}" if "e+" in text else text


def percent(share: float, number: int = 3) -> str:
    """A share in per cent, in up to six digits where fewer make 100 of less: .996 is 99.6 %, not 100 %."""
    value = 100 * share
    while value < 100 and number < 6 and float(f"{value:.{number}g}") == 100:
        number += 1
    return f"{digits(value, number)} %"


def nats(value: float) -> str:
    """A number of nats in three digits, 0 for what rounding leaves."""
    if math.isinf(value):
        return "infinite"
    return "0" if abs(value) < 1e-7 else digits(value) if abs(value) >= 1e-3 else f"{value:.1e}"


def signed(value: float) -> str:
    """An error of a score in nats, with its sign."""
    if abs(value) < 5e-4:
        return "0"
    return f"{value:+.3f}" if abs(value) < 0.01 else "+" * (value > 0) + digits(value)
