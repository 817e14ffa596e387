"""What the figures that a hand can move are drawn from: for each, exact curves over a grid of settings.

A module is one chapter's, and no two chapters share one, so that a chapter runs again for its own figures only. Most
are named after their chapter; `draws` is of `expectations`, `failures` and `promises` are of `ranking`.
"""
