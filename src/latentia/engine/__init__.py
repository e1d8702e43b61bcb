"""Engine: a weight matrix times expected sufficient statistics.

- `contracts`: what families, objectives and problems must offer, and all shapes;
- `sweep`: `RowProblem.sweep`, the one place where family, objective and rows meet; the objectives:
  the value of a row and its weight for each class (also of unlabeled rows);
- `rows`: rows as all parts see them: masked, in chunks, from a source; arrays and memory maps,
  chunk by chunk on all cores;
- `parts`: rows that come part by part, from files or a Dask cluster;
- `tree`: named tuples of arrays as values;
- `messages`: how every room warns its user, and how it writes times.

May import `arrays` only. Start with the docstring of `contracts`, then read `sweep`.
"""
