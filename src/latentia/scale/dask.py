"""Arrays and data frames of Dask (https://dask.org): parts on the workers of a cluster, or in the
threads of this process.

Parts as they come are `dask.delayed` values, so whatever runs Dask runs them. Encoded rows are kept
on the workers of the `distributed.Client` if there is one, else in this process.

Left to itself, the scheduler moves parts between workers in mid-fit: they arrive without what a
worker has computed for them, and may all gather on one. So each part has a home, in even shares,
and work on it goes there. If a home is lost, the scheduler makes its parts anew elsewhere.

A task costs about a millisecond, and what it needs from another worker some more. So a sum over all
parts is one task for each home, which adds up the parts that live there. The client sends at most
one message in ten milliseconds: so the tasks of a sum are one message, and it is not told that the
sums of the last may be dropped before it has sent those of the next.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from latentia.arrays.namespace import Array
from latentia.arrays.parallel import n_threads, one_thread
from latentia.engine.parts import LocalParts, Parts
from latentia.engine.rows import ArraySource
from latentia.scale.tables import Answer, Column, LazyAnswer, LazyTable, RawPart, Weights, is_dask
from latentia.table.frames import DataFrame
from latentia.table.labels import LabelsLike

if TYPE_CHECKING:
    import dask.array
    import dask.dataframe
    import pandas
    from dask.delayed import Delayed
    from distributed import Client, Future

R = TypeVar("R")

#: What is a table.
Collection: TypeAlias = "dask.array.Array | dask.dataframe.DataFrame"


class DaskTable(LazyTable):
    """An array or a data frame of Dask."""

    def __init__(self, X: Collection):
        self.collection = X
        self.is_frame = hasattr(X, "columns")
        self.name = f"a Dask {type(X).__name__}"
        if not self.is_frame and not (hasattr(X, "chunks") and hasattr(X, "rechunk")):
            raise TypeError(f"X is {self.name}; allowed are arrays and data frames of Dask.")
        if self.is_frame:
            self.meta, self.n_rows = X._meta, None
            self._check_categories()
            self.blocks = list(X.to_delayed())
            return
        if X.ndim != 2:
            raise ValueError(f"X is a Dask array of shape {X.shape}: allowed are two axes, rows and columns.")
        if X.dtype.kind not in "biuf":
            raise TypeError(
                f"X is a Dask array of dtype {X.dtype}: allowed are numbers; pass a Dask DataFrame for text, whose "
                "columns have dtypes of their own."
            )
        if X.numblocks[1] > 1:
            self.collection = X = X.rechunk({1: -1})
        self.meta = np.empty((0, X.shape[1]), dtype=X.dtype)
        self.n_rows = None if np.isnan(X.shape[0]) else int(X.shape[0])
        self.blocks = list(X.to_delayed().ravel())

    def _check_categories(self) -> None:
        for name, column in self.collection._meta.items():
            if str(column.dtype) == "category" and not _categories_known(column):
                raise ValueError(
                    f"column {name!r} of X is a category whose values Dask does not know yet: call "
                    f"X.categorize(columns=[{name!r}]) first."
                )

    @property
    def n_places(self) -> int:  # type: ignore[override]
        client = _running_client()
        return n_threads() if client is None else max(1, sum(client.nthreads().values()))

    def gather(self, fn: Callable[[RawPart], R], y: Column = None, sample_weight: Weights = None) -> list[R]:
        send = _sent(fn)
        return _compute([_call(apply_alone, send, part) for part in self._parts(y, sample_weight)])

    def make(
        self,
        fn: Callable[[list[RawPart]], ArraySource],
        groups: Sequence[Sequence[int]],
        y: Column,
        sample_weight: Weights,
    ) -> Parts:
        send, parts = _sent(fn), self._parts(y, sample_weight)
        made = [_call(apply_alone, send, [parts[k] for k in group]) for group in groups]
        client = _running_client()
        return LocalParts.keep(_compute(made), True) if client is None else ClusterParts.settle(client, made)

    def _parts(self, y: Column, sample_weight: Weights) -> list[Delayed]:
        """Delayed parts with their labels and weights."""
        columns = self.blocks, self._column(y, "y", 2), self._column(sample_weight, "sample_weight")
        return [_call(RawPart, *part) for part in zip(*columns, strict=True)]

    def _column(self, values: Column, what: str, max_axes: int = 1) -> list[Delayed | None]:
        """The parts of labels or weights, as X is divided."""
        if values is None:
            return [None] * len(self.blocks)
        if not is_dask(values):
            raise TypeError(
                f"{what} is a {type(values).__name__}, but X is {self.name}: pass {what} as a column or an array of "
                "Dask that is divided like X, for example dask.array.from_array(y, chunks=X.chunks[0])."
            )
        if getattr(values, "ndim", 1) > max_axes:
            raise ValueError(f"{what} has {values.ndim} axes; allowed is one number or label for each row of X.")
        if hasattr(values, "chunks"):
            blocks = self._array_blocks(values, what)
        else:
            blocks = self._series_blocks(values)
        if len(blocks) != len(self.blocks):
            raise ValueError(
                f"{what} has {len(blocks)} partitions and X has {len(self.blocks)}, of unknown divisions: they cannot "
                f"be matched. Take {what} and X from one data frame, or repartition both alike."
            )
        return blocks

    def _array_blocks(self, values: dask.array.Array, what: str) -> list[Delayed]:
        known = not np.isnan(values.shape[0])
        if known and not self.is_frame and not np.isnan(self.collection.shape[0]):
            if values.shape[0] != self.collection.shape[0]:
                n_rows = self.collection.shape[0]
                raise ValueError(f"{what} has {values.shape[0]} entries and X has {n_rows} rows: they must be equal.")
            values = values.rechunk({0: self.collection.chunks[0]})
        return list(values.rechunk({axis: -1 for axis in range(1, values.ndim)}).to_delayed().ravel())

    def _series_blocks(self, values: dask.dataframe.Series) -> list[Delayed]:
        if self.is_frame and values.known_divisions and self.collection.known_divisions:
            if values.divisions != self.collection.divisions:
                values = values.repartition(divisions=self.collection.divisions, force=True)
        return list(values.to_delayed())

    def map_rows(self, fn: Callable[..., Answer], y: Column = None) -> LazyAnswer:
        template = self._template(fn, y)
        send, nothing = _sent(fn), _sent(template)
        labels = self._column(y, "y")
        parts = [_call(_predict, send, nothing, *part) for part in zip(self.blocks, labels, strict=True)]
        if not isinstance(template, tuple):
            return self._collect(parts, template)
        return tuple(
            self._collect([_call(_item, part, k) for part in parts], piece) for k, piece in enumerate(template)
        )

    def _template(self, fn: Callable[..., Answer], y: Column) -> Answer:
        """What `fn` returns for no rows."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            labels = () if y is None else (np.array([None], dtype=object),)
            try:
                result = fn(_made_up_row(self.meta), *labels)
            except (TypeError, ValueError):  # no row can be made up: the first will do
                first = self.collection.head(1) if self.is_frame else np.asarray(self.collection[:1])
                result = fn(first, *labels)
        return tuple(_no_rows(r) for r in result) if isinstance(result, tuple) else _no_rows(result)

    def _collect(self, parts: list[Delayed], template: Array | DataFrame) -> LazyAnswer:
        if hasattr(template, "columns"):
            import dask.dataframe as dd

            divisions = self.collection.divisions if self.is_frame else None
            return dd.from_delayed(parts, meta=template, divisions=divisions, verify_meta=False)
        import dask.array as da

        sizes = [np.nan] * len(parts) if self.is_frame else self.collection.chunks[0]
        arrays = [
            da.from_delayed(part, (size, *template.shape[1:]), dtype=template.dtype, meta=template)
            for part, size in zip(parts, sizes, strict=True)
        ]
        return da.concatenate(arrays, axis=0, allow_unknown_chunksizes=True)


def _call(fn: Callable[..., object], *args: object) -> Delayed:
    import dask

    return dask.delayed(fn, pure=False, traverse=False)(*args)


def _sent(value: object) -> Delayed:
    """A value that travels to each worker once."""
    import dask

    return dask.delayed(Sent(value), pure=False, traverse=False)


def _running_client() -> Client | None:
    """The client that Dask would use now; None for the local scheduler."""
    if "distributed" not in sys.modules:
        return None
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None


def _compute(values: Sequence[Delayed]) -> list[Any]:
    import dask

    return list(dask.compute(*values))


def _predict(fn: Sent, nothing: Sent, X: pandas.DataFrame | np.ndarray, y: LabelsLike | None) -> Answer:
    if X.shape[0] == 0:
        return nothing.value
    with one_thread():
        return fn.value(X) if y is None else fn.value(X, y)


def _item(values: tuple[Array, ...], k: int) -> Array:
    return values[k]


def _no_rows(result: Array | DataFrame) -> np.ndarray | DataFrame:
    return result.iloc[:0] if hasattr(result, "iloc") else np.asarray(result)[:0]


def _made_up_row(meta: pandas.DataFrame | np.ndarray) -> pandas.DataFrame | np.ndarray:
    """A row like those of a table: zeros, and missing cells where there is no zero."""
    if isinstance(meta, np.ndarray):
        return np.zeros((1, meta.shape[1]), dtype=meta.dtype)
    return meta.reindex([0]).fillna({c: 0 for c in meta.columns if meta[c].dtype.kind in "biuf"}).astype(meta.dtypes)


def _categories_known(column: pandas.Series) -> bool:
    from dask.dataframe.utils import has_known_categories

    return bool(has_known_categories(column))


#: Sums that are added by one task on their way to the client; so many are added there.
FAN_IN = 8

#: Up to so many homes are sent a function each; more get it from each other.
MAX_SENT = 4

GONE = (
    "The Dask client was closed, or its tasks were cancelled, before the computation ended; the estimator is as it "
    "was. Fit again with a running client."
)


class Home(NamedTuple):
    """A thread of a worker."""

    number: int
    address: str


class ClusterParts(Parts):
    """Parts that are futures of a `distributed.Client`, and where they are at home."""

    def __init__(self, client: Client, parts: Sequence[Future], homes: Sequence[Home]):
        self.client, self.parts, self.homes = client, list(parts), list(homes)
        self._last_sums: list[Future] = []

    @classmethod
    def settle(cls, client: Client, values: Sequence[Delayed]) -> ClusterParts:
        """Values of Dask, made and kept on the workers, in even shares of neighbors."""
        addresses = [address for address, n in sorted(client.nthreads().items()) for _ in range(n)]
        if not addresses:
            raise RuntimeError("The Dask client has no worker: start some before fit.")
        shares = [k * len(addresses) // len(values) for k in range(len(values))]
        homes = [Home(share, addresses[share]) for share in shares]
        options = {"allow_other_workers": True, "optimize_graph": True}
        made = [
            client.compute(value, workers=[home.address], **options) for value, home in zip(values, homes, strict=True)
        ]
        return cls(client, made, homes)

    def __len__(self) -> int:
        return len(self.parts)

    def select(self, index: Sequence[int]) -> ClusterParts:
        return ClusterParts(self.client, [self.parts[k] for k in index], [self.homes[k] for k in index])

    def make(self, fn: Callable[..., ArraySource], args: Sequence[object] | None = None) -> ClusterParts:
        return ClusterParts(self.client, self._each(fn, args), self.homes)

    def gather(self, fn: Callable[..., R], args: Sequence[object] | None = None) -> list[R]:
        return self._fetch(self._each(fn, args))

    def total(self, fn: Callable[..., R], add: Callable[[list[R]], R], args: Sequence[object] | None = None) -> R:
        at_home = [(home, list(places)) for home, places in groupby(range(len(self)), lambda k: self.homes[k])]
        send = self._send(fn) if len(at_home) > MAX_SENT else Sent(fn)
        own = [None if args is None else Sent([args[k] for k in places]) for _, places in at_home]
        parts = [[self.parts[k] for k in places] for _, places in at_home]
        addresses = sorted({home.address for home, _ in at_home})
        options = {"pure": False, "workers": addresses, "allow_other_workers": True}
        with _running(self.client):
            sums = self.client.map(total_alone, [send] * len(own), [Sent(add)] * len(own), parts, own, **options)
        self._last_sums = sums
        while len(sums) > FAN_IN:
            sums = [
                self._submit(None, apply_alone, Sent(add), sums[k : k + FAN_IN]) for k in range(0, len(sums), FAN_IN)
            ]
        return add(self._fetch(sums))

    def _each(self, fn: Callable[..., object], args: Sequence[object] | None) -> list[Future]:
        send = self._send(fn)
        own = [()] * len(self) if args is None else [(Sent(arg),) for arg in args]
        return [
            self._submit(home, apply_alone, send, part, *arg)
            for home, part, arg in zip(self.homes, self.parts, own, strict=True)
        ]

    def _send(self, value: object) -> Future:
        """A value that goes to the cluster once, and from worker to worker."""
        return self._submit(None, _itself, Sent(value))

    def _submit(self, home: Home | None, fn: Callable[..., object], *args: object) -> Future:
        place = {} if home is None else {"workers": [home.address], "allow_other_workers": True}
        with _running(self.client):
            return self.client.submit(fn, *args, pure=False, **place)

    def _fetch(self, futures: list[Future]) -> list[Any]:
        with _running(self.client):
            return list(self.client.gather(futures))


@contextmanager
def _running(client: Client) -> Iterator[None]:
    """Say so if the client is gone."""
    try:
        yield
    except BaseException as error:
        if client.status != "running" or "Cancelled" in type(error).__name__:
            raise RuntimeError(GONE) from error
        raise


class Sent:
    """A value as a constant: Dask must not look into it."""

    def __init__(self, value: Any):
        self.value = value


def apply_alone(fn: Sent, part: object, *args: Sent) -> object:
    """A function of a part, on one thread: Dask has given this task one."""
    with one_thread():
        return fn.value(part, *(arg.value for arg in args))


def total_alone(fn: Sent, add: Sent, parts: list[ArraySource], args: Sent | None) -> object:
    """The sum over several parts, one after the other."""
    own = [()] * len(parts) if args is None else [(arg,) for arg in args.value]
    with one_thread():
        found = (fn.value(part, *arg) for part, arg in zip(parts, own, strict=True))
        return reduce(lambda a, b: add.value([a, b]), found)


def _itself(value: Sent) -> Sent:
    return value
