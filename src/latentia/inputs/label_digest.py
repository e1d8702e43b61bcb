"""Labels of a table in parts: its classes, from the distinct labels of each part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from latentia.arrays.namespace import to_numpy
from latentia.inputs.dataframes import is_missing
from latentia.inputs.labels import (
    NO_Y,
    Mark,
    encode_labels,
    holds_lists,
    warn_of_assumed,
    warn_of_empty_texts,
)


class LabelDigest(NamedTuple):
    """The distinct labels of some rows."""

    labels: np.ndarray
    counts: np.ndarray
    n_missing: int  # rows whose label is None or NaN


def digest_labels(y: Any) -> LabelDigest:
    """The distinct labels of the rows of a part."""
    if y is None:
        raise ValueError(NO_Y)
    labels = np.asarray(to_numpy(y) if hasattr(y, "__dlpack__") else y)
    if labels.ndim != 1 or holds_lists(y):
        raise ValueError(f"y has shape {labels.shape} in one of its parts; allowed is one label for each row.")
    missing = is_missing(labels)
    known = labels[~missing]
    if known.dtype != object:
        return LabelDigest(*np.unique(known, return_counts=True), int(missing.sum()))
    counts = Counter(known.tolist())
    distinct = np.empty(len(counts), dtype=object)
    distinct[:] = list(counts)
    return LabelDigest(distinct, np.array(list(counts.values()), dtype=np.int64), int(missing.sum()))


def read_classes(parts: Sequence[LabelDigest], unlabeled: Mark) -> np.ndarray:
    """The classes of all parts, by the rules for labels in memory; the user is told what was
    assumed.
    """
    kinds = {str(part.labels.dtype) for part in parts if part.labels.size}
    if len({"number" if kind.startswith(("int", "uint", "float")) else "text" for kind in kinds}) > 1:
        raise ValueError(f"y has labels of the dtypes {', '.join(sorted(kinds))} in its parts; allowed is one dtype.")
    distinct = np.concatenate([part.labels for part in parts])
    if any(part.n_missing for part in parts):
        distinct = np.append(distinct.astype(object), [None])
    # each label twice: a table of labels that are all different would be doubted
    some = np.concatenate([distinct, distinct])
    encoded = encode_labels(some, some.size, unlabeled)
    if encoded.n_assumed:
        n_assumed = sum(int(part.counts[part.labels == -1].sum()) for part in parts)
        warn_of_assumed(n_assumed, sum(int(part.counts.sum()) + part.n_missing for part in parts))
    in_parts = [[int(part.counts[part.labels == label].sum()) for part in parts] for label in encoded.classes.tolist()]
    warn_of_empty_texts(encoded.classes, np.sum(in_parts, axis=1))
    return encoded.classes
