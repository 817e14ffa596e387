"""What the figures that a hand can move are drawn from: for each, exact curves over a grid of settings.

A module for each chapter, so that a chapter runs again for its own figures only.
"""
