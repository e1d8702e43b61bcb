"""Latent classification models: class -> factors z -> columns, through a mixture of components.

- `family`: the model and its M-step; `values`: its parameters, statistics and posteriors;
- `column_models`: what one kind of column adds to a row (E-step), samples and imputes;
- `complete_rows`: the E-step of complete continuous rows; `row_posteriors`: that of all others;
- `statistics`, `m_step`, `initialization`, `sampling`, `importance_sampling`: as they say;
- `structure_search`: which factors feed which columns; `canonical_form`: order, sign and scale.
"""
