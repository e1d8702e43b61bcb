"""The probit embedding's estimator: `classifier`, with its `training` and `prediction`."""
