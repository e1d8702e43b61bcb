"""Latent classification models: latent factors and components that columns of all kinds depend on.

- `family`: the model, `LatentFactors`; start reading here. `values`: its parameters, statistics,
  posteriors.
- `column_contract`, `column_models`, `column_layout`: a kind of column as an object, the kinds
  (`logistic_column`, `categorical_column`, `count_column`, `ordinal_column`) and their registry,
  the columns of a table. The E-step of a kind is its `bound`.
- `e_step`: which E-step serves which rows; `e_step_rows`: the latents of rows with missing cells or
  bounded columns, whose columns `e_step_forms` adds up and `bound_iteration` brings to rest;
  `e_step_by_label`: of training rows, with a label or without; `e_step_complete`: of complete
  continuous rows, and `class_moments`: EM that does not see them; `e_step_no_latents`: no factors.
- `bayesian_family`, `posterior`, `bayesian_m_step`: the posterior of all this, the default.
- `m_step`: EM's update; `free_coordinates`: the gradient for L-BFGS; `initialization`;
  `structure_search`: which latents feed which columns.
- `sampling`, `importance_sampling`, `canonical_form`: what a fitted model is asked.

May import the engine, numerics and the building blocks of families, no other family.
"""
