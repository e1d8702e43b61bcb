"""Probit embedding: rows are projected to a few dimensions, in which each label is a probit model.

- `family`: the posteriors, their updates and the bound; start here;
- `projection`: the weights that project rows, in the space of columns or of rows;
- `labels`: the E-step of rows.

May import the engine, the arrays and the blocks of families, no other family.
"""
