"""The runs that chapters ask for: which the store has, and computing the rest before a build.

The module ``X.grids`` of the package declares the runs of chapter X. `jobs`: the runs of a grid, and which of them a
chapter shows; `filling`: computing them; `results`: those that come with the book.
"""
