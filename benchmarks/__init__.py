"""What the book says about speed and memory, measured: `make bench`."""
