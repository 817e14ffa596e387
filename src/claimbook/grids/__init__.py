"""The runs that chapters ask for: which the store has, what the rest costs, and computing them before a build.

The module ``X.grids`` of the package declares the runs of chapter X. `jobs`: the runs of a grid, and which of them a
chapter shows; `labels`: what tells them apart; `costs`: what they take; `filling`: computing them; `results`: those
that come with the book.
"""
