"""What a notebook calls: `figures`, `interactive`, `parameters`, `results`, `tables`, and cached `runs`."""
