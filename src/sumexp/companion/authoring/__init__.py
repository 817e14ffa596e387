"""What a notebook calls: `figures`, `results`, `data_note`, `classifiers`, `measurements`, and cached `runs`."""

PROVENANCE = "<!-- provenance -->"
"""Where in a figure the build writes what it was made from: content key, profile, device, seed."""
