"""Multimodal softmax and mixtures of experts: models with softmax parts, found by search.

- `multimodal`, `experts`: the estimators, and which sizes each tries; `base`: what they share;
- `training`: one candidate after another, by variational Bayes or maximum likelihood.

Start with `training`.
"""
