"""The minimum of the exact sampled risk over bins of classes, by Newton's method with the whole matrix."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from sumexp.audit._risks import Binned, State

Floats = NDArray[np.float64]

STRIDE = 4.0
"""The largest change of a score per step, in nats."""


def minimise(problem: Binned, start: Floats | None = None, tol: float = 1e-5) -> State:
    """The state at the scores of least risk, whose mean over the labels is that of log p.

    Args:
        problem: the loss.
        start: [K] initial scores; log p by default.
        tol: largest change of a score by the last step, in nats.

    Raises:
        ValueError: if the steps stay above ``tol``: the minimum may be at infinity.
    """
    mass = problem.count * problem.p
    root = np.sqrt(mass)
    flat = root / np.linalg.norm(root)
    truth = np.log(problem.p)
    current = State(problem, truth if start is None else start)
    for _ in range(80):
        gradient, matrix = current.derivatives()
        step = -_solve(matrix / np.outer(root, root) + np.outer(flat, flat), gradient / root) / root
        change = float(np.abs(step).max())
        if change <= tol:  # quadratic convergence: after this step the quadrature's error is larger
            current = current.moved(step)
            break
        step *= min(1.0, STRIDE / change)
        risk = current.risk
        for halvings in range(40):
            trial = current.moved(0.5**halvings * step)
            if trial.risk <= risk + current.noise * abs(risk):
                break
        current = trial
    else:
        raise ValueError(f"the search still moves a score by {change:.1e} nats; is the minimum finite?")
    return current.moved(np.full(len(mass), -float(mass @ (current.scores - truth) / mass.sum())))


def _solve(matrix: Floats, right: Floats) -> Floats:
    try:
        return np.asarray(cho_solve(cho_factor(matrix), right))
    except np.linalg.LinAlgError:  # rounding: a little of the diagonal makes it positive again
        return np.asarray(cho_solve(cho_factor(matrix + 1e-9 * np.diag(np.diag(matrix))), right))
