"""Multimodal softmax: p(y | x) whose classes are unions of softmax subclasses.

`subclass_family` has what both inferences share; `variational` is the posterior of the weights
under a quadratic bound, `likelihood` their point estimate; `initialization` makes weights to begin
with. Imports the engine, the numerics and the building blocks, and no other family. Start reading
in `likelihood`.
"""
