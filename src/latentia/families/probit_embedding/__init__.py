"""Probit embedding: rows are projected to a few dimensions, in which each label is a probit model.

- `family`: the posteriors, their updates and the bound;
- `label_posterior`: the E-step of rows; `projection`: the posterior of the projection, in the
  form that is cheapest for the table; `precision_priors`: which entries share a precision;
- `problem`: sweeps over rows in memory or streamed; `initialization`: starts from label sums.
"""
