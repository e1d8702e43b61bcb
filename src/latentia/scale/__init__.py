"""Tables that are not in memory, behind one protocol: `LazyTable`.

- `tables`: the protocol, how such a table is read for a fit, and small ones brought here;
- `answers`: methods of estimators on tables wherever they are, part by part;
- `files`: CSV, Parquet and Arrow files; `dask`: collections of Dask, where they are.

May import `table`, `engine` and `arrays`. Start with `tables`.
"""
