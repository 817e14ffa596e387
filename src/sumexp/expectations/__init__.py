r"""Exact expectations of functions of a sum of random exponentials.

For a sum :math:`X \ge 0` of independent terms with Laplace transform :math:`L(t) = \mathbb E e^{-tX}`,

.. math::
    \mathbb E\frac1{1+X} = \int_0^\infty e^{-t} L(t)\,dt, \qquad
    \mathbb E\log(1+X) = \int_0^\infty \frac{e^{-t}}{t}\,(1 - L(t))\,dt .

:math:`L` is a product over the terms, so both are one-dimensional integrals whatever the number of terms, and with
:math:`t = e^u` a plain trapezoid rule of about 200 nodes gives them to machine precision.

A *law* says how :math:`X` is drawn (:func:`with_replacement`, :func:`without_replacement`, :func:`independent`,
:func:`laplace`, and :func:`product` of any of these); :func:`expect` integrates it. A term is given by its logarithm
:math:`\log x = f_{\text{negative}} - f_{\text{positive}} + \log w`, a logit difference plus a log weight.
A law takes all rows at once; under ``torch.func`` it raises a NotImplementedError.
"""

from sumexp.expectations._integrals import Expectations, expect, integrate
from sumexp.expectations._laws import Law, independent, laplace, product, with_replacement, without_replacement
from sumexp.expectations._sampled_softmax import sampled_softmax
from sumexp.expectations.quadrature import Rule, discretisation_bound, rule

__all__ = [
    "sampled_softmax",
    "Expectations",
    "expect",
    "integrate",
    "independent",
    "product",
    "with_replacement",
    "without_replacement",
    "laplace",
    "Law",
    "rule",
    "Rule",
    "discretisation_bound",
]
