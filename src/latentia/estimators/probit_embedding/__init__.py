"""The probit embedding's estimator: `classifier`, with `reading`, `training`, `prediction`."""
