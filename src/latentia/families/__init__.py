"""Families: what p(x, c) or p(y | x) looks like, one folder each.

- `gaussian_mixture`: a mixture of Gaussians per class, four types of covariance, missing cells;
- `latent_factors`: latent classification models of continuous, binary, categorical, ordinal and
  count columns, each kind one column model;
- `probit_embedding`: Bayesian multilabel learning with a coupled embedding;
- `softmax_tree`: multimodal softmax and mixtures of experts, flat and hierarchical, by variational
  Bayes and by maximum likelihood;
- `blocks`: priors, bounds and starts that several families share.

A family imports `engine`, `arrays` and `blocks`, never another family. Start with
`gaussian_mixture.family`, the simplest; docs/add_a_family.md builds one from scratch.
"""
