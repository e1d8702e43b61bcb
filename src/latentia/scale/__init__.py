"""Tables that are not in memory.

- `files`: CSV, Parquet and Arrow files, part by part; `dask`: collections of Dask, where they are;
- `tables`: labels and columns learned in parts, answers in parts, and small tables brought here.

May import `table`, `engine` and `arrays`.
"""
