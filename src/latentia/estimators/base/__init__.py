"""What all estimators share.

- `estimator`: the template of `fit`, callbacks and progress; a failed fit changes nothing;
- `classifier`: predictions from log probabilities, accuracy, BIC and AIC, label matrices;
- `generative`, `generative_prediction`: training and prediction of models of p(x, c); how sure
  class probabilities may be;
- `tuning`: the weight of unlabeled rows and the temperature, where they are left to the rows;
- `reading`: tables in memory or in parts; `streaming`: `partial_fit`;
- `summary`: a fitted estimator in a page.
"""
