"""Evaluation: comparing classifiers and scoring multilabel predictions.

- `comparison`: `compare`, cross-validated scores of several classifiers and corrected t-tests;
- `comparison_inputs`, `comparison_result`: what it takes, and how it prints;
- `multilabel_metrics`: scores over the entries that are known.

Works with any scikit-learn classifier; may import `inputs` and `numerics`, no estimator.
"""
