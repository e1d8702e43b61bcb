"""What `fit` was given, in a few numbers: kept for `summary`.

A record is a dict of plain values, so that it is saved by any means and needs no trust.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np


class DescribedInput(Protocol):
    """The part of a training input that is recorded."""

    @property
    def label_codes(self) -> np.ndarray | None: ...
    @property
    def missing_shares(self) -> np.ndarray | None: ...


def training_record(n_rows: int, data: DescribedInput, seconds: float) -> dict[str, Any]:
    """Rows, labels, gaps and time.

    Label codes (N,) are class numbers, codes (N, L) say which labels are present; -1 is unknown.
    They may lack rows without a label.
    """
    record: dict[str, Any] = {"n_rows": int(n_rows), "seconds": float(seconds)}
    codes, missing = data.label_codes, data.missing_shares
    if codes is not None and codes.ndim == 1:
        labeled = codes >= 0
        record["label_counts"] = np.bincount(codes[labeled]).tolist()
        record["n_unlabeled"] = int(n_rows - labeled.sum())
    elif codes is not None:
        record["label_counts"] = (codes == 1).sum(axis=0).tolist()
        record["n_unlabeled"] = int((codes < 0).all(axis=1).sum())
    if missing is not None:
        record["missing"] = [float(share) for share in missing]
    return record
