"""Plots of fitted models in scikit-learn's convention (`...Display.from_estimator`).

- `general`: calibration, objective curves, search results;
- `factors`: latent maps, loadings, structure, rows completed step by step;
- `embedding`: the dimensions of a probit embedding.

Each holds what it draws as plain arrays (``plot=False`` stops there); the HTML report uses them.
Needs matplotlib, which is imported when a plot is drawn.
"""
