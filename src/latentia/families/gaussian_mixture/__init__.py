"""A mixture of Gaussians for each class.

- `family`: the model, `GaussianMixtures`, and the registry of covariance types; start here.
- `covariance`: the contract of a covariance type, diagonal covariances and covariance matrices.
- `gaps`: covariance matrices on rows with missing cells.
- `posterior`: posteriors of the parameters, the default: normal-gamma and normal-Wishart.

May import the engine, the arrays and the blocks of families, no other family.
"""
