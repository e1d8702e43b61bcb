"""Probit embedding: rows are projected to a few dimensions, in which each label is a probit model.

- `family`: the posteriors, their updates and the bound; `values`: its parameters and statistics;
- `label_posterior`: the E-step of rows; `statistics`: what they add to an update;
- `projection`, `kernel_form`: the posterior of the projection, in the form that is cheapest for the
  table; `row_products`: products with rows that are dense or sparse;
- `precision_priors`: which entries share a precision;
- `problem`: sweeps over rows in memory or streamed; `initialization`: starts from label sums.
"""
