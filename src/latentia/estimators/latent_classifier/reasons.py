"""What cells add to the log odds of each class, in the form of the rows that were asked about."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentia.arrays.namespace import Array, to_numpy
from latentia.table.frames import column_names, frame_type


def as_reasons(added: Array, X: Any, classes: np.ndarray) -> Any:
    """Contributions (rows, columns, classes) as an array or, for a data frame X, as a frame with a
    part for each class: `reasons[label]` has the columns of X.
    """
    kind = frame_type(X)
    if kind in ("array", "pyarrow"):
        return added
    numbers, names, labels = to_numpy(added), column_names(X), classes.tolist()
    if kind == "polars":
        import polars

        parts = [polars.DataFrame(numbers[:, :, k], schema=names) for k in range(len(labels))]
        return polars.DataFrame([part.to_struct(str(label)) for part, label in zip(parts, labels, strict=True)])
    import pandas

    columns = pandas.MultiIndex.from_product([labels, names], names=["class", "column"])
    cells = np.moveaxis(numbers, 2, 1).reshape(len(numbers), -1)
    return pandas.DataFrame(cells, index=X.index, columns=columns)


def reasons_array(reasons: Any) -> np.ndarray:
    """Contributions (rows, columns, classes) of any form as an array."""
    kind = frame_type(reasons)
    if kind == "array":
        return to_numpy(reasons)
    if kind == "polars":
        return np.stack([part.struct.unnest().to_numpy() for part in reasons.get_columns()], axis=2)
    n_classes = reasons.columns.levshape[0]
    return np.moveaxis(reasons.to_numpy().reshape(len(reasons), n_classes, -1), 1, 2)
