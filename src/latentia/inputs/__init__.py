"""Inputs: what users hand in, validated and turned into numbers once, on entry.

- `options`: constructor arguments; `weights`: sample weights, class priors, loss matrices;
- `rows`: numeric rows; `mixed_rows`, `column_encoder`, `column_reader`, `column_kinds`,
  `column_levels`, `dataframes`, `plain_values`: text and categories;
- `labels`, `label_matrix`: classes and multilabel indicators, with unlabeled entries; `outputs`:
  numbers;
- `standardization`: from raw rows to rows in standard units; `splits`: folds and held-out rows.

Every error names the argument, the value and what is allowed. May import `engine` and `numerics`.
Start with `labels`.
"""
