"""Multimodal softmax and mixtures of experts: models with softmax parts, found by search.

- `multimodal`, `experts`: the estimators; `base`: what they share;
- `models`: which model is meant, and candidates as values;
- `training`: one candidate after another, by variational Bayes or maximum likelihood;
- `exact_posterior`: the posterior without the quadratic bound.

Start with `training`.
"""
