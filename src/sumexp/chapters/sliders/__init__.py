"""Exact curves over a grid of settings, for the figures with sliders.

Each function takes the module ``claimbook.authoring.interactive``, whose `Control`, `Panel` and `Line` it fills in. A
chapter runs again for its own figures only: `draws` is of `expectations`, `failures` of `ranking`.
"""
