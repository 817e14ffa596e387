"""Methods with and without sampled negatives that chapters train and compare, and what theory predicts of them.

- `methods`: the methods, and their losses on a batch;
- `groups`: which classes are head, torso and tail;
- `prediction`: the task that predicts the methods' order from the label frequencies alone;
- `informed`: the offset of a method for an informative image;
- `comparison`: differences and orders of trained methods.
"""
