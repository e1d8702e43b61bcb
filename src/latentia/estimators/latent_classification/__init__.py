"""Latent classification models: `model` is the estimator, `cross_validated` searches its sizes."""
