"""Parts that several families share: bounds and averages of softmax scores and truncated normals
(`bounds`), Gaussian posteriors of weights under gamma priors (`weights`), clusters to begin with
(`starts`). Imports the engine and the arrays alone.
"""
