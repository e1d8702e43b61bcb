"""Softmax trees: p(y | x) by softmax scores of subclasses, gates and experts.

- `subclasses`: multimodal softmax, whose classes are unions of softmax subclasses;
- `tree`: mixtures of experts, p(y | x) = sum_g P(g | x) p(y | x, g), gates in one level or two;
- `experts`: what a kind of expert is, and the two there are, softmax and linear Gaussian.

Each by the posterior of weights under a quadratic bound and by point estimates. May import the
engine, the arrays and the blocks of families, no other family. Start with `subclasses`.
"""
