"""The probit embedding's estimator: `classifier`, with its `reading`, `training` and `prediction`."""
