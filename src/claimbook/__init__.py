"""The machinery of the book: the store, building, the register, what notebooks call, grids, the command line.

Wrong input or surroundings raise `BookError` everywhere here; docstrings name only what else is raised.
"""


class BookError(Exception):
    """An error of the person's input or surroundings: its message says what, where and what to do."""
