"""Softmax trees: gates that send a row on until it comes to a leaf. Multimodal softmax and mixtures
of experts, for classes and for numbers, flat or in levels.

- `tree`: which model is meant, the passes up and down it, points of likelihood, predictions;
- `leaves`: weight vectors with their posteriors, and leaves: classes, or linear models;
- `posterior`: variational Bayes under a quadratic bound, and under the exact likelihood.

May import the engine, the arrays and the blocks of families, no other family. Start with `tree`.
"""
