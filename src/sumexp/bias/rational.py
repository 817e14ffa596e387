"""Checks of exact numbers, and linear algebra over the rationals."""

import numbers
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from typing import TypeAlias

Rational: TypeAlias = Fraction | int
Point: TypeAlias = tuple[Fraction, ...]
Matrix: TypeAlias = list[list[Fraction]]


def exact(value: Rational | float) -> Fraction:
    """The number as a fraction of Python's whole numbers; those of NumPy would overflow."""
    ratio = Fraction(value if isinstance(value, numbers.Rational | Decimal) else float(value))
    return Fraction(int(ratio.numerator), int(ratio.denominator))


def positive(name: str, values: Sequence[Rational], zero: bool = False) -> Point:
    r"""The values as fractions, :math:`a_i = e^{\hat y^-_i - \hat y^+} > 0`; a logit of :math:`-\infty` is the value 0.

    Raises:
        ValueError: if there is no value, or a value is negative, or 0 without ``zero``.
    """
    if len(values) == 0:
        raise ValueError(f"{name} is empty; give one number for each negative")
    for i, value in enumerate(values):
        if not (value > 0 or (zero and value == 0)):
            wanted = "not be negative" if zero else "be positive"
            raise ValueError(f"{name}[{i}] is {value}; it must {wanted}: a = exp(logit of a negative - positive)")
    return tuple(map(exact, values))


def box(lower: Sequence[Rational], upper: Sequence[Rational]) -> tuple[Point, Point]:
    """Both ends of a box, checked.

    Raises:
        ValueError: if the lengths differ, an end is not positive, or some side has no length.
    """
    u, v = positive("lower", lower), positive("upper", upper)
    if len(u) != len(v):
        raise ValueError(f"lower has {len(u)} entries and upper {len(v)}; give both ends of each side")
    for i, (low, high) in enumerate(zip(u, v, strict=True)):
        if low >= high:
            raise ValueError(f"side {i} of the box runs from {low} to {high}; it needs lower < upper")
    return u, v


def fewer_reads(n: int, k: int) -> None:
    """Check 0 <= k < n, whole numbers."""
    if not (isinstance(n, numbers.Integral) and isinstance(k, numbers.Integral)):
        raise ValueError(f"n is {n!r} and k is {k!r}; both must be whole numbers")
    if n < 1:
        raise ValueError(f"n is {n}; there must be at least one negative")
    if k < 0:
        raise ValueError(f"k is {k}; the number of negatives read cannot be negative")
    if k >= n:
        raise ValueError(f"k is {k} and n is {n}: reading all negatives gives the softmax itself; take k < n")


def softmax(a: Sequence[Rational]) -> Fraction:
    r""":math:`F(a) = 1/(1 + \sum_i a_i)`, the softmax of the target (Lin, Liu, Lin, equation (9))."""
    return Fraction(1) / (1 + sum(a, start=Fraction(0)))


def pivot(rows: Matrix, row: int, column: int) -> None:
    """Make ``column`` the unit vector of ``row``, in place."""
    scale = rows[row][column]
    rows[row] = [entry / scale for entry in rows[row]]
    for i, other in enumerate(rows):
        if i != row and (factor := other[column]):
            rows[i] = [x - factor * y if y else x for x, y in zip(other, rows[row], strict=True)]


def maximise(
    objective: Sequence[Fraction], matrix: Sequence[Sequence[Fraction]], right: Sequence[Fraction]
) -> tuple[Fraction, list[Fraction]]:
    """The maximum of objective·x over x >= 0 with matrix x = right >= 0, and a solution, in exact arithmetic.

    The two-phase simplex method with Bland's rule, which terminates.

    Raises:
        ValueError: if the program is infeasible or unbounded.
    """
    m, width = len(matrix), len(objective)
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    basis = list(range(width, width + m))  # the artificial variables; those that leave never return
    rows.append([-sum((row[j] for row in rows), Fraction(0)) for j in range(width + 1)])
    _improve(rows, basis, width)
    if rows[-1][-1] != 0:
        raise ValueError("the linear program has no feasible point")
    for i in [i for i, column in enumerate(basis) if column >= width]:
        column = next((j for j in range(width) if rows[i][j]), None)
        if column is not None:  # otherwise the equation is redundant, and its row stays zero
            pivot(rows, i, column)
            basis[i] = column
    costs = {column: objective[column] for column in basis if column < width}
    last = [*(-value for value in objective), Fraction(0)]
    for i, column in enumerate(basis):
        if cost := costs.get(column, Fraction(0)):
            last = [x + cost * y for x, y in zip(last, rows[i], strict=True)]
    rows[-1] = last
    _improve(rows, basis, width)
    solution = [Fraction(0)] * width
    for i, column in enumerate(basis):
        if column < width:
            solution[column] = rows[i][-1]
    return rows[-1][-1], solution


def _improve(rows: Matrix, basis: list[int], width: int) -> None:
    """Pivot until no column has a negative reduced cost in the last row."""
    while (column := next((j for j in range(width) if rows[-1][j] < 0), None)) is not None:
        limits = [(row[-1] / row[column], basis[i], i) for i, row in enumerate(rows[:-1]) if row[column] > 0]
        if not limits:
            raise ValueError("the linear program is unbounded")
        leaving = min(limits)[2]
        pivot(rows, leaving, column)
        basis[leaving] = column


def subsets(n: int) -> list[tuple[int, ...]]:
    """All subsets of {0..n-1}, by size."""
    return [chosen for size in range(n + 1) for chosen in combinations(range(n), size)]
