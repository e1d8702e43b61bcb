"""Gaussian mixtures per class: `family` is the model, `covariance` and `full_covariance` its types.

`missing_data` groups rows by which cells they miss, for covariance matrices.
"""
