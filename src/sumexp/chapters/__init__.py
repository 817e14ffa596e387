"""The models, training runs and comparisons that only the book's chapters use.

Tasks raise `DataError` if a data set is absent, damaged or undeclared, and `FloatingPointError` if a loss is not
finite.
"""
