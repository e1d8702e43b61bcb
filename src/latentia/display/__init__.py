"""Displays: plots of fitted models in scikit-learn's convention (`...Display.from_estimator`).

`completion` shows rows completed step by step, `embedding` the dimensions of a probit embedding.
Needs matplotlib, which is imported when a plot is drawn.
"""
