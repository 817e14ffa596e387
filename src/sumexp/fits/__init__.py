"""Perturb-Softmax fitted to discrete laws: the published way with samples, and the exact one without."""
