"""The minimum of the exact sampled risk over bins of classes, by Newton's method with the whole matrix."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from sumexp.audit._risks import Binned, SetState, State, state

Floats = NDArray[np.float64]

STRIDE = 4.0
"""The most by which a step may move a score, in nats."""

STEEP = 1e-6
"""Length of a gradient, in the metric of the second derivatives, at which a search without them ends.

Its square is what is left to gain."""


def minimise(problem: Binned, start: Floats | None = None, tol: float = 1e-5) -> State:
    """The state at the scores of least risk, whose mean over the labels is that of log p.

    Args:
        problem: the loss.
        start: [K] scores to start at; log p if not given.
        tol: largest change of a score by the last step, in nats; of a set a thousand times as much where that step
            gains less than the error of the risk.

    Raises:
        ValueError: if the steps do not come below ``tol``: the minimum may lie at infinity.
    """
    mass = problem.count * problem.p
    root = np.sqrt(mass)
    flat = root / np.linalg.norm(root)
    truth = np.log(problem.p)
    if start is None and problem.fixed is not None and not problem.fixed.arrival:
        start = minimise(replace(problem, fixed=None), start).scores
    if problem.fixed is not None and problem.fixed.tries:
        current = _search(problem, truth if start is None else start, flat)
        return current.moved(np.full(len(mass), -float(mass @ (current.scores - truth) / mass.sum())))
    current = state(problem, truth if start is None else start)
    for _ in range(80):
        gradient, matrix = current.derivatives()
        scaled = matrix / np.outer(root, root) + np.outer(flat, flat)
        step = -_solve(scaled, gradient / root) / root
        change = float(np.abs(step).max())
        # a bin that hardly weighs may still move by what the sums leave out
        gain = -float(gradient @ step) / 2
        if change <= tol or (
            change <= current.slack * tol and gain < current.noise / 10
        ):  # the steps square their size, so that this last one leaves the error of the quadrature
            current = current.moved(step)
            break
        step *= min(1.0, STRIDE / change)
        risk = current.risk
        for halvings in range(40):
            trial = state(problem, current.scores + 0.5**halvings * step)
            trial.prepare()
            if trial.risk <= risk + current.noise * abs(risk):
                break
        current = trial
    else:
        raise ValueError(f"the search still moves a score by {change:.1e} nats; is the minimum finite?")
    return current.moved(np.full(len(mass), -float(mass @ (current.scores - truth) / mass.sum())))


def _search(problem: Binned, start: Floats, flat: Floats) -> State:
    """The least risk by gradients alone, measured by the second derivatives of the same sets under a fixed table.

    What the number of tries changes there is small, so that the search takes few steps.

    Raises:
        ValueError: if it stops where the gradient is not nothing.
    """
    assert problem.fixed is not None
    table = replace(problem, fixed=replace(problem.fixed, tries=False))
    root = np.sqrt(problem.count * problem.p)
    matrix = state(table, start).derivatives()[1]
    factor = np.linalg.cholesky(matrix / np.outer(root, root) + np.outer(flat, flat))
    latest: list[SetState] = []

    def scores(x: Floats) -> Floats:
        return np.asarray(start + solve_triangular(factor, x, lower=True, trans=1) / root)

    def risk(x: Floats) -> tuple[float, Floats]:
        latest[:] = [SetState(problem, scores(x))]
        gradient = latest[0].gradient()
        return latest[0].risk, np.asarray(solve_triangular(factor, gradient / root, lower=True))

    solution = optimize.minimize(risk, np.zeros(len(start)), jac=True, method="BFGS", options={"gtol": STEEP})
    if not np.abs(solution.jac).max() < 100 * STEEP:
        raise ValueError(
            f"the search stops where the gradient is still {np.abs(solution.jac).max():.1e}: {solution.message}"
        )
    if not np.array_equal(latest[0].scores, scores(solution.x)):
        risk(solution.x)
    return latest[0]


def _solve(matrix: Floats, right: Floats) -> Floats:
    try:
        return np.asarray(cho_solve(cho_factor(matrix), right))
    except np.linalg.LinAlgError:  # rounding: a little of the diagonal makes it positive again
        return np.asarray(cho_solve(cho_factor(matrix + 1e-9 * np.diag(np.diag(matrix))), right))
