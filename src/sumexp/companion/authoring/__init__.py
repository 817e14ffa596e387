"""What a notebook calls: `figures`, `results`, `classifiers`, `measurements`, and cached `runs`."""
