"""Latent classification models: latent factors z that all columns share, class by class.

- `parameters`: what the model has to learn, its M-step, and free coordinates;
- `columns`: the contract of a kind of column; `kinds`: the kinds there are, and their registry;
- `latents`: the posterior of z; `e_step`: that of rows with gaps and bounds; `e_step_gaussian`:
  that of continuous rows, complete or with gaps, and of class sums;
- `family`: the model, `LatentFactors`; `posterior`: posteriors of its parameters, the default;
- `structure`: which factors feed which column; `importance`: densities by importance sampling.

May import the engine, the arrays and the blocks of families, no other family. Start with
`family`.
"""
