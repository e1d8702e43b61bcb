"""LatentClassifier: several models of the table, weighted by how well they predict held-out labels.

- `classifier`: the estimator, what it answers, and why;
- `candidates`: who is held out when, which models are tried, completed rows and fitted members;
  `features`: completed rows for models of p(y | x);
- `search`: every candidate on every fold, and the chosen ones on all rows;
- `stacking`: temperatures, weights, and what to expect of new rows;
- `multilabel`: label matrices, which go to the probit embedding.

Start with `search`, then `stacking`.
"""

from latentia.estimators.latent_classifier.classifier import LatentClassifier

__all__ = ["LatentClassifier"]
