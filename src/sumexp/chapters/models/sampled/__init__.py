"""Methods with and without sampled negatives that chapters train and compare, and what theory predicts of them.

- `methods`: what a method is, and its loss on a batch;
- `groups`: which classes are head, torso and tail;
- `prediction`: the task that predicts the methods' order from the label frequencies alone;
- `informed`: what methods add where a picture speaks, which the prediction leaves out;
- `comparison`: what trained methods say.

Nothing is imported here: a run depends on what it needs, not on what reads it.
"""
