"""Evaluation: comparing classifiers and scoring multilabel predictions.

- `compare`: cross-validated scores of several classifiers, and corrected t-tests;
- `multilabel`: scores over the entries that are known.

Works with any scikit-learn classifier; may import `table` and `arrays`, no estimator.
"""
