"""Multimodal softmax and mixtures of experts: models with softmax parts, found by search.

`multimodal`, `experts_classifier` and `experts_regressor` are the estimators; `training` fits one
model, `model_specs` says which, `exact_posterior` corrects its posterior, `subclass_search` searches.
"""
