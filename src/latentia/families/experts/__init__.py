"""Mixtures of experts: p(y | x) = sum_g P(g | x) p(y | x, g), gates in one level or two.

`expert` says what a kind of expert is; `softmax_expert` and `linear_gaussian_expert` are the two
kinds there are, and another is one more file like them. `gating_tree` has the gates; `variational`
and `likelihood` are the two inferences. Imports the engine, the numerics and the building blocks,
and no other family. Start reading in `expert`.
"""
