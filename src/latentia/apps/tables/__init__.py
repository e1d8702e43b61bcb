"""Tables and models from files, as the applications read them.

- `text_tables`: CSV and the like, strictly; `table_files`: all formats; `typed_columns`: kinds of
  columns, found or as a model knows them; `number_forms`: text as numbers; `class_labels`: classes;
- `models`: models from files; `failures`: what is wrong with a file, in one line.

Needs pandas, and pyarrow for binary formats.
"""
