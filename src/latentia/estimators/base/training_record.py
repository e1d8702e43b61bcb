"""What `fit` was given, in a few numbers: kept for `summary`.

A record is a dict of plain values, so that it is saved by any means and needs no trust.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from latentia.engine.rows import LabelTotals


class LabelCounts(NamedTuple):
    """Rows of each class, or with each label, and rows that have any."""

    counts: list[int]
    n_labeled: int
    n_known: list[int] | None = None  # rows in which each label of a matrix is known

    @classmethod
    def of_codes(cls, codes: np.ndarray) -> LabelCounts:
        """Codes (N,) are class numbers, codes (N, L) say which labels are present; -1 is
        unknown.
        """
        known = codes >= 0
        if codes.ndim == 1:
            return cls(np.bincount(codes[known]).tolist(), int(known.sum()))
        return cls((codes == 1).sum(axis=0).tolist(), int(known.any(axis=1).sum()), known.sum(axis=0).tolist())

    @classmethod
    def of_totals(cls, totals: dict[int, LabelTotals]) -> LabelCounts:
        """From the totals of class codes."""
        counts = [totals[code].n_rows for code in sorted(totals) if code >= 0]
        return cls(counts, sum(counts))


class DescribedInput(Protocol):
    """The part of a training input that is recorded."""

    @property
    def label_counts(self) -> LabelCounts | None: ...
    @property
    def missing_shares(self) -> np.ndarray | None: ...


def training_record(n_rows: int, data: DescribedInput, seconds: float) -> dict[str, Any]:
    """Rows, labels, gaps and time."""
    record: dict[str, Any] = {"n_rows": int(n_rows), "seconds": float(seconds)}
    labels, missing = data.label_counts, data.missing_shares
    if labels is not None:
        record["label_counts"] = labels.counts
        record["n_unlabeled"] = int(n_rows - labels.n_labeled)
        if labels.n_known is not None:
            record["known_counts"] = labels.n_known
    if missing is not None:
        record["missing"] = [float(share) for share in missing]
    return record
