"""The machinery of the book: register, cached runs, notebook execution, figures, command line."""


class CompanionError(Exception):
    """An error of the person's input or surroundings: its message says what, where and what to do."""
