"""The grids of runs that chapters ask for: what the cache has of them, what the rest costs, and how to compute it.

A chapter asks for the runs of its grid one by one (`claimbook.authoring.runs`); here the same runs are computed
before the book is built, on this machine or on a cluster, in any order and in as many processes as there are. Which
runs there are each ``sumexp.chapters.X.grids`` declares. The modules: `jobs` (the runs of a grid, and which a chapter
shows), `labels` (what tells them apart, in few words), `costs` (what they take), `filling` (having them computed).
"""
