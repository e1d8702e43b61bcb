"""Tables in the main memory that are computed on a device, part by part: `on_device` marks them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj

from latentia.arrays.namespace import is_on_cpu, is_sparse, to_numpy
from latentia.engine.device_stream import Device
from latentia.engine.parts import LocalParts
from latentia.engine.rows import RowRange, split_ranges
from latentia.scale.tables import join_answers
from latentia.table.frames import frame_type
from latentia.table.lazy import LazyTable, RawPart, refuse_lazy
from latentia.table.rows import plain_table

#: Rows whose answers are brought back together, in MiB.
PART_MIB = 256


class DeviceTable(LazyTable):
    """A table in the main memory, which `on_device` returns."""

    def __init__(self, X: Any, device: Device):
        self.X, self.device = X, device
        self.meta, self.n_rows = X[:0], X.shape[0]
        self.name = f"a table on its way to {device.name}"

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.X.shape[0], self.X.shape[1]

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def __repr__(self) -> str:
        return f"<{self.name}: {self.shape[0]} rows, {self.shape[1]} columns>"

    def training_parts(self, y: Any, sample_weight: Any) -> LocalParts:
        whole = RawPart(self.X, self._column("y", y), self._column("sample_weight", sample_weight))
        return LocalParts([lambda: whole], fits_memory=True, is_kept=True)

    def map_rows(self, fn: Callable[..., Any], y: Any = None) -> Any:
        """`fn` of all rows, in the main memory."""
        parts = self._cut(y, None)
        return join_answers([fn(part.X) if y is None else fn(part.X, part.y) for part in parts])

    def reduce_rows(self, fn: Callable[..., Any], y: Any, sample_weight: Any) -> list[Any]:
        return [fn(part) for part in self._cut(y, sample_weight)]

    def _column(self, what: str, values: Any) -> Any:
        refuse_lazy(what, values, f"X is {self.name}: pass {what} as an array in the main memory")
        values = to_numpy(values) if is_array_api_obj(values) else values
        if values is not None and len(values) != len(self):
            raise ValueError(f"{what} has {len(values)} entries and X has {len(self)} rows: they must be equal.")
        return values

    def _cut(self, y: Any, weight: Any) -> list[RawPart]:
        """Parts whose answers are brought back together."""
        size = max(1, PART_MIB * 2**20 // (8 * max(1, self.shape[1])))
        ranges = split_ranges([RowRange(0, len(self), None)], size)
        columns = self.X, self._column("y", y), self._column("sample_weight", weight)
        return [RawPart(*(_take(values, rows.as_slice) for values in columns)) for rows in ranges]


def on_device(X: Any, device: str = "cuda", *, memory: float | None = None) -> DeviceTable:
    """A table in the main memory whose rows are computed on a device, where an estimator takes X.

    ``model.fit(on_device(X), y)`` trains on a GPU with a table that need not fit into its memory:
    rows are copied part by part, each while the device works on the one before, and what fits
    stays there. Answers of ``model.predict_proba(on_device(X))`` come back in the main memory.
    The model is that of a fit to a tensor on the device. Needs PyTorch
    (``pip install latentia[torch]``).

    Parameters
    ----------
    X : array, memory map, tensor or data frame of shape (n_samples, n_features)
        In the main memory. Single precision is what devices are fast in; a tensor that is pinned
        (`X.pin_memory()`) is copied fastest.
    device : str, default="cuda"
        The name of a device of PyTorch.
    memory : float, default=None
        How much of the device's memory rows may take, in MiB; by default half of what is free.
        Work on them takes scikit-learn's `working_memory` besides.

    Returns
    -------
    table : DeviceTable

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from latentia import GaussianMixtureClassifier, on_device
    >>> X, y = load_iris(return_X_y=True)
    >>> table = on_device(X, "cpu")
    >>> model = GaussianMixtureClassifier(random_state=0).fit(table, y)
    >>> model.predict_proba(table).shape
    (150, 3)
    """
    _check_device(device)
    if memory is not None and not (isinstance(memory, int | float) and memory > 0):
        raise ValueError(f"memory={memory!r}; allowed are positive numbers (MiB), or None for half of what is free.")
    refuse_lazy("X", X, "on_device takes tables in the main memory and memory maps")
    if is_sparse(X):
        raise TypeError("X is sparse, but on_device takes dense tables: pass X as it is, or X.toarray().")
    X = plain_table(X)
    if is_array_api_obj(X) and not isinstance(X, np.ndarray):
        if not is_on_cpu(X):
            raise ValueError(f"X is on {X.device} already: pass it to the estimator as it is.")
        X = to_numpy(X)
    return DeviceTable(np.asarray(X) if frame_type(X) == "array" else X, Device(device, memory))


def _check_device(device: str) -> None:
    try:
        torch: Any = import_module("torch")
    except ImportError as error:
        raise ImportError("latentia.on_device needs PyTorch: pip install latentia[torch]") from error
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ValueError(f"device={device!r} is no device that PyTorch can use here: {error}") from error


def _take(values: Any, rows: slice) -> Any:
    if values is None:
        return None
    return values.iloc[rows] if hasattr(values, "iloc") else values[rows]
