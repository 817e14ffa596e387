"""The runs that chapters ask for, declared by the modules ``X.grids`` of the package.

`jobs`: the runs of a grid, and computing them before a build; `results`: those that come with the book.
"""
