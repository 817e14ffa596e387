"""What a notebook calls: `figures`, `results`, `data_note`, `classifiers`, `measurements`, and cached `runs`."""
