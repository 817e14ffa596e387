"""The machinery of the book: register, cached runs, notebook execution, figures, command line."""
