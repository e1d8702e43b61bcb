"""What all estimators share.

- `fitting`: the template of `fit`; a failed fit changes nothing;
- `classifier`: predictions from log probabilities, accuracy, BIC and AIC;
- `generative`, `generative_prediction`: training and prediction of models of p(x, c);
- `callbacks`: who hears of the steps of a fit; `delegation`: searches that hold their model.
"""
