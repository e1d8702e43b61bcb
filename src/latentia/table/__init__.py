"""Tables: what users hand in, validated and turned into numbers once, on entry.

- `options`: constructor arguments; `weights`: sample weights, class priors, loss matrices, folds;
- `frames`: data frames of any library; `rows`: numeric and mixed rows, and warnings of what can be
  read and is yet unlikely to be meant;
- `columns`: what is learned from columns, their kinds, values and order; `encoder`: text and
  categories as numbers, and back; `cells`: numbers, amounts and dates in text;
- `labels`: classes, multilabel indicators and outputs, with unlabeled entries;
- `standardization`: from raw rows to rows in standard units, by a power transform where it helps.

Every error names the argument, the value and what is allowed. May import `engine` and `arrays`.
Start with `labels`.
"""
