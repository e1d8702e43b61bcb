"""Inputs: what users hand in, validated and turned into numbers once, on entry.

- `options`: constructor arguments; `weights`: sample weights, class priors, loss matrices;
- `rows`: numeric rows; `mixed_rows`, `column_encoder`, `column_reader`, `column_kinds`,
  `column_levels`, `dataframes`, `plain_values`: text and categories;
- `labels`, `label_matrix`: classes and multilabel indicators, with unlabeled entries; `outputs`:
  numbers;
- `lazy_tables`, `scanned_tables`, `file_parts`, `dask_tables`, `dask_cluster`, `lazy_answers`:
  tables that are not in memory, and answers to them; `device_tables`: those that stream to a
  device; `small_tables`: those that are brought here;
  `table_digest`, `label_digest`, `target_parts`: what is learned of columns and labels in parts;
- `standardization`, `power_transform`: from raw rows to rows in standard units; `splits`: folds;
- `column_doubts`, `label_doubts`, `value_doubts`: what is refused or warned of.

Every error names the argument, the value and what is allowed. May import `engine` and `numerics`.
Start with `labels`.
"""
