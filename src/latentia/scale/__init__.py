"""Tables that are not in memory, behind one protocol: `LazyTable`.

- `tables`: the protocol, how estimators answer and read such tables, and small ones brought here;
- `files`: CSV, Parquet and Arrow files; `dask`: collections of Dask, where they are.

May import `table`, `engine` and `arrays`. Start with `tables`.
"""
