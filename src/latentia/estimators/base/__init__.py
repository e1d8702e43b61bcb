"""What all estimators share.

- `fitting`: the template of `fit`; a failed fit changes nothing;
- `classifier`: predictions from log probabilities, accuracy, BIC and AIC;
- `generative`, `generative_prediction`, `component_methods`: training and prediction of models of
  p(x, c); `generative_input`, `table_reading`: what they are given, in memory or in parts;
  `number_tables`: the same for models of p(y | x), which take numbers alone; `generative_options`,
  `generative_losses`: what they are told, and how restarts are compared;
- `unlabeled_weight`: chooses how much unlabeled rows count (`ArraySource.with_unlabeled_weight`
  applies it); `tempering`: how sure class probabilities may be; `learned_options`: when either
  is left to the rows;
- `weight_columns`: folds and all rows in one batch; `streaming`: `partial_fit`;
- `callbacks`, `progress_line`: who hears of the steps of a fit, and the line of a slow one;
- `training_record`, `summary`: what a fit was given, and a fitted estimator in a page;
- `delegation`: searches that hold their model.
"""
