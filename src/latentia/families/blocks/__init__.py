"""Parts that several families share: bounds and averages of softmax scores, truncated normals and
gamma priors (`bounds`), clusters to begin with (`starts`). Imports the engine and the arrays alone.
"""
