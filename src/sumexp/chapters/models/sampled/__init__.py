"""Methods with and without sampled negatives that chapters train and compare, and what theory predicts of them."""
