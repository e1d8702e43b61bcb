"""What all estimators share.

- `estimator`: the template of `fit`, callbacks and progress; a failed fit changes nothing;
- `classifier`: predictions from log probabilities, accuracy, label matrices;
- `reading`: tables in memory or in parts, as rows to train on;
- `generative`: classifiers by models of p(x, c); `training`: the steps of their fits, and streams;
  `fitted_model`: what was learned, as predictions ask it, and how sure they may be;
- `summary`: a fitted estimator in a page.
"""
