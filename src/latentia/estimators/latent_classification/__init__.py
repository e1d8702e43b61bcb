"""Latent classification models: `model` is the estimator, `cross_validated` searches its sizes.

`factor_methods` are the predictions that only these models have, `learned_attributes` what they
show of their parameters, `restart_selection` which restart wins. The search is in `size_grid`
(what is tried) and `size_search` (how it is scored).
"""
