"""Parts that several families share.

Bounds and averages of softmax scores (`logsumexp_bound`, `expected_softmax`), Gaussian posteriors
of weights under gamma priors (`gaussian_weights`, `gamma_prior`), truncated normals
(`truncated_normal`), clusters to begin with (`kmeans`), and rows for tests (`example_data`).
Imports the engine and the numerics alone.
"""
