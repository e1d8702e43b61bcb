"""softmax."""
