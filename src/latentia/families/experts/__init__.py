"""Mixtures of experts: softmax gates over expert models, flat or in two levels.

`variational` and `likelihood` are the two inferences, `expert_models` what an expert is,
`gating_tree` the gates' probabilities along the paths of the tree.
"""
