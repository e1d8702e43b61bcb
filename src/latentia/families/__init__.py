"""Families: what p(x, c) or p(y | x) looks like, one folder each.

- `gaussian_mixture`: a mixture of Gaussians per class, four types of covariance, missing cells;
- `latent_factors`: latent classification models of continuous, binary and categorical columns,
  each kind one column model;
- `probit_embedding`: Bayesian multilabel learning with a coupled embedding;
- `softmax`: multimodal softmax, by variational Bayes and by maximum likelihood;
- `experts`: mixtures of experts, flat and hierarchical, in both inferences;
- `building_blocks`: priors, bounds and starts that several families share.

A family imports `engine`, `numerics` and `building_blocks`, never another family.
Start with `gaussian_mixture.family`, the simplest; docs/add_a_family.md builds one from scratch.
"""
