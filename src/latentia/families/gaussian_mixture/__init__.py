"""A mixture of Gaussians for each class.

- `family`: the model, `GaussianMixtures`; start reading here.
- `covariance`: the contract of a covariance type, and diagonal covariances;
- `full_covariance`: covariance matrices, on rows with missing cells by `missing_data`;
- `covariance_types`: types that pool variances, and the registry of all types. A new type goes
  there, and its prior to `conjugate_priors`; without one its fits are points.
- `bayesian_family`, `posterior`, `normal_gamma`, `normal_wishart`: posteriors, the default.
- `missingness_patterns`: rows with the same cells missing, taken together; `known_columns`:
  posteriors where a column has no value at all.

May import the engine, numerics and the building blocks of families, no other family.
"""
