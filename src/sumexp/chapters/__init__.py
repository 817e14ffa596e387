"""What only the book's chapters use: their models, training runs and comparisons.

One module or package for each chapter that trains, and `models`, which several of them share, `intervals` over
seeds, and `jobs`, the runs that a chapter asks for. Nothing outside the book needs to import it.
"""
