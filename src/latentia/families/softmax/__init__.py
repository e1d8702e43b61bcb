"""Multimodal softmax: each class is a union of subclasses in one softmax.

`variational` is the posterior under the quadratic bound, `likelihood` the point estimate,
`initialization` the starts of both.
"""
