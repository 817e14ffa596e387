"""What a notebook calls: `figures`, `results`, `sources`, `classifiers`, `measurements`, and cached `runs`."""
