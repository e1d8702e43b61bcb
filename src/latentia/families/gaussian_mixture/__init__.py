"""A mixture of Gaussians for each class.

- `family`: the model, `GaussianMixtures`; start reading here.
- `covariance`: the contract of a covariance type, and diagonal covariances;
- `full_covariance`: covariance matrices, on rows with missing cells by `missing_data`;
- `covariance_types`: types that pool variances, and the registry of all types. A new type goes
  there.

May import the engine, numerics and the building blocks of families, no other family.
"""
