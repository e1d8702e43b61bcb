"""Building blocks that several families share: priors, posteriors of weights, bounds, k-means."""
