"""Multimodal softmax and mixtures of experts: models with softmax parts, found by search.

- `multimodal`, `experts_classifier`, `experts_regressor`: the estimators; `base`, `classifier`,
  `experts_base`: what they share;
- `subclass_spec`, `expert_tree_spec`: which model is meant, in the terms of `model_specs`;
- `inference`: variational Bayes and maximum likelihood; `exact_posterior`: the posterior without
  the quadratic bound; `training`: one candidate after another; `fitted`: candidates as values;
- `subclass_search`: which numbers of subclasses to try; `parted_score`: the score of regressors.

Start with `training`.
"""
