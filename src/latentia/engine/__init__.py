"""Engine: a weight matrix times expected sufficient statistics.

- `contracts`: what families, objectives and problems must offer, and all shapes;
- `normal_cells`: families that know how uncertain the cells are that they fill;
- `source`: rows as all parts see them: masked, in chunks, from a source;
- `problem`: `RowProblem.sweep`, the one place where family, objective and source meet;
- `objectives`: the value of a row and its weight for each class (also of unlabeled rows);
- `array_source`: rows of arrays and memory maps, chunk by chunk on all cores, cut by `row_ranges`;
- `chunked_source`: rows that come part by part, from files or a Dask cluster; `streamed_source`:
  rows in the main memory, computed on a device that they need not fit into;
- `pytree`: named tuples of arrays as values;
- `user_warnings`, `durations`: how every room warns its user, and how it writes times.

May import `numerics` only. Start with the docstring of `contracts`, then read `problem`.
"""
