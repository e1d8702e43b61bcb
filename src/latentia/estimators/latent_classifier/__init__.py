"""LatentClassifier: several models of the table, weighted by how well they predict held-out labels.

- `classifier`: the estimator; `prediction`: what it answers, `explanation`: why;
- `candidates`: which models are tried; `members`: a fitted one, as it votes; `features`: completed
  rows for models of p(y | x);
- `folds`: who is held out when; `search`: every candidate on every fold;
- `stacking`: temperatures, weights, and what to expect of new rows;
- `multilabel`: label matrices, which go to the probit embedding.

Start with `search`, then `stacking`.
"""

from latentia.estimators.latent_classifier.classifier import LatentClassifier

__all__ = ["LatentClassifier"]
