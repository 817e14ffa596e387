r"""Two classes and uniform noise on [-1, 1], exactly; :math:`\delta = \theta_1-\theta_2`.

With integers and fractions the results are exact. The tests derive the pieces symbolically.

Source: Cohen Indelman and Hazan, Proposition 5.4, equations (75), (101), (103).
"""

from fractions import Fraction

from sumexp.perturb.discrete import Number


def potential(delta: Number) -> Number:
    r""":math:`\mathbb E\max_i(\theta_i+\gamma_i)-\theta_2`.

    It is :math:`0,\ (\delta+2)^3/24,\ \delta+(2-\delta)^3/24,\ \delta` on the pieces split at -2, 0, 2.
    """
    return _gap(delta) ** 3 * Fraction(1, 24) + max(delta, 0)


def probability(delta: Number) -> Number:
    r""":math:`p_1 = 0,\ (\delta+2)^2/8,\ 1-(2-\delta)^2/8,\ 1`: constant beyond 2, so not one-to-one."""
    tail = _gap(delta) ** 2 * Fraction(1, 8)
    return 1 - tail if delta > 0 else tail


def _gap(delta: Number) -> Number:
    return max(2 - max(delta, -delta), 0)
