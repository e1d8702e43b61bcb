"""Latent classification models: latent factors and components that columns of all kinds depend on.

- `family`: the model, `LatentFactors`; start reading here. `values`: its parameters, statistics,
  posteriors.
- `column_contract`, `column_models`, `column_layout`: a kind of column as an object, the kinds and
  their registry, the columns of a table. A new kind goes to `column_models`; the E-step of a kind
  is its `bound`.
- `e_step_rows`: the latents of rows with missing cells or bounded columns; `e_step_complete`: of
  complete continuous rows, and `class_moments`: EM that does not see them.
- `m_step`: EM's update; `free_coordinates`: the gradient for L-BFGS; `initialization`;
  `structure_search`: which latents feed which columns.
- `sampling`, `importance_sampling`, `canonical_form`: what a fitted model is asked.

May import the engine, numerics and the building blocks of families, no other family.
"""
