r"""The laws that bounded scores can represent, and the scores to serve for a metric.

**Cosines.** Scores :math:`s_y/T` with :math:`s_y\in[-1,1]` span at most 2/T, so that they are :math:`g_y` up to a
constant if and only if

.. math:: T\le T_{\max} = \frac2{\max_yg_y-\min_yg_y}.

"If" is for one context and vectors that may be anything, of two dimensions or more: contexts share the vectors of the
classes, and few dimensions hold fewer laws. With g = log P(y|x) one context needs :math:`\log(\pi_a/\pi_b)` of the most
and the least frequent class, whatever P(y|x) is: were :math:`P(a|x)/P(b|x)<\pi_a/\pi_b` for each x, so would be the
ratio of the means, which is :math:`\pi_a/\pi_b`. So no model of cosines holds :math:`\log P` of all contexts with
:math:`T>2/\log(\pi_a/\pi_b)`; for smaller T that depends on P(y|x).

**What a larger T costs.** Among scores that span R = 2/T the least divergence is that of clipped ones,
:math:`f_y=\min(R,\max(0,\log P_y+z))`, with z their :math:`\log\sum_ye^{f_y}`: the condition of Karush, Kuhn and
Tucker, and the problem is convex.

**Which scores to serve.** With one label of a context, a metric that counts w of the label by its place, w times a gain
that falls with the place (recall@k, MRR, NDCG), has its greatest mean where classes are sorted by w P(y|x) (an exchange
of two neighbours shows it): by log P where w = 1, by log P - log pi where w = 1/pi, as propensity-scored metrics weigh.
That is a theorem of the true P(y|x); what a network learns of it is another matter, and runs decide.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from sumexp.audit._setup import Setup, positive_number
from sumexp.audit._text import digits
from sumexp.audit.results import Line

Floats = NDArray[np.float64]


def largest_temperature(target: Floats) -> float:
    r"""The largest T at which cosines over T can be ``target`` g [classes] up to a constant: :math:`2/(\max g-\min g)`.

    >>> import numpy as np
    >>> from sumexp.audit.serving import largest_temperature
    >>> round(largest_temperature(np.log([0.5, 0.3, 0.2])), 4)  # 2 / log 2.5
    2.1827
    """
    span = float(np.ptp(target))
    return 2 / span if span > 0 else math.inf


def clipped(log_p: Floats, span: float) -> tuple[Floats, float]:
    """The scores of least divergence from a law among those that span so many nats, and that divergence in nats."""
    log_p = log_p - np.logaddexp.reduce(log_p)
    if np.ptp(log_p) <= span:
        return log_p - log_p.min(), 0.0

    def excess(z: float) -> float:
        return float(np.logaddexp.reduce(np.clip(log_p + z, 0, span)) - z)

    size = math.log(len(log_p))
    z = brentq(excess, -1.0, size + span + 1, xtol=1e-14)
    scores = np.clip(log_p + z, 0, span)
    error = log_p - (scores - np.logaddexp.reduce(scores))
    return scores, max(0.0, float(np.exp(log_p) @ error))


def cosines(prior: Floats, setup: Setup, temperature: float | None) -> Line:
    r"""Whether cosines over a temperature can represent log P, by the counts, as a line of an audit.

    It is a fault if no model of cosines represents log P in all contexts at that temperature. The cost is the least
    divergence for contexts without information. Log P/q, the minimum without a correction and with kept hits, may have
    a smaller range; log q is then added to the served scores.

    ``prior`` [classes] has the shares of the labels; the temperature of the training is None if unknown.
    """
    temperature = None if temperature is None else positive_number("temperature", temperature)
    part = (prior > 0) & (setup.q.max(0) > 0)
    log_p = np.log(prior[part])
    ratio = log_p - setup.log_q[part]
    most, most_ratio = (math.inf if np.ptp(x) < 1e-9 else largest_temperature(x) for x in (log_p, ratio))
    of_ratio = "any T" if math.isinf(most_ratio) else f"T <= {digits(most_ratio)}"
    need = f"log P of these counts needs T <= {digits(most)}, log P/q {of_ratio}"
    if temperature is None or temperature <= most:
        known = "" if temperature is None else f"; the counts do not rule out T = {temperature:g}"
        return Line("cosines", False, need + known)
    kl = clipped(log_p, 2 / temperature)[1]
    says = f"{need}: at T = {temperature:g} the best scores cost {digits(kl)} nats of KL where P(y|x) is the popularity"
    if temperature > most_ratio or setup.is_set:
        return Line("cosines", True, says, f"lower T to {digits(most)} or less", kl)
    plain = setup.weights == "none" and setup.hits == "keep"
    fix = "" if plain else "subtract nothing from the logits, keep accidental hits, and "
    return Line("cosines", True, says, f"{fix}add log q to the scores that you serve", kl, instead=True)


def served(setup: Setup, log_p: bool) -> str:
    """The scores to serve by metric; empty if the minimum is neither log P (``log_p``, for every truth) nor log P/q."""
    by_metric = "recall@k, MRR and NDCG of one label"
    weighted = "where a label of frequency pi counts 1/pi"
    if log_p:
        return f"for {by_metric}: the scores as they are, log P; {weighted}: minus log pi"
    if setup.is_set or len(setup.m) > 1 or (setup.weights, setup.hits) != ("none", "keep"):
        return ""
    rare = "as they are" if setup.name.startswith(("within-batch", "cross-")) else "plus log q, minus log pi"
    return f"for {by_metric}: the scores, log P/q, plus log q; {weighted}: {rare}"
