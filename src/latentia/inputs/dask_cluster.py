"""Parts that live on the workers of a Dask cluster, each on a worker of its own choosing.

Left to itself, the scheduler moves parts between workers in mid-fit: they arrive without what a
worker has computed for them, and may all gather on one. So each part has a home, in even shares,
and work on it goes there. If a home is lost, the scheduler makes its parts anew elsewhere.

A task costs about a millisecond, and what it needs from another worker some more. So a sum over all
parts is one task for each home, which adds up the parts that live there. The client sends at most
one message in ten milliseconds: so the tasks of a sum are one message, and it is not told that the
sums of the last may be dropped before it has sent those of the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import groupby
from typing import Any, NamedTuple

from latentia.arrays.parallel import one_thread
from latentia.engine.parts import Parts

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
    """Pieces that are futures of a `distributed.Client`, and where they are at home."""

    def __init__(self, client: Any, pieces: Sequence[Any], homes: Sequence[Home]):
        self.client, self.pieces, self.homes = client, list(pieces), list(homes)
        self._last_sums: list[Any] = []

    @classmethod
    def settle(cls, client: Any, pieces: Sequence[Any]) -> ClusterParts:
        """Values of Dask, made and kept on the workers, in even shares of neighbors."""
        addresses = [address for address, n in sorted(client.nthreads().items()) for _ in range(n)]
        if not addresses:
            raise RuntimeError("The Dask client has no worker: start some before fit.")
        shares = [k * len(addresses) // len(pieces) for k in range(len(pieces))]
        homes = [Home(share, addresses[share]) for share in shares]
        options = {"allow_other_workers": True, "optimize_graph": True}
        made = [
            client.compute(piece, workers=[home.address], **options) for piece, home in zip(pieces, homes, strict=True)
        ]
        return cls(client, made, homes)

    def __len__(self) -> int:
        return len(self.pieces)

    def map(self, fn: Callable[..., Any], args: Sequence[Any] | None = None) -> ClusterParts:
        return ClusterParts(self.client, self._each(fn, args), self.homes)

    def keep(self) -> ClusterParts:
        return self

    def join(self, groups: Sequence[Sequence[int]], fn: Callable[[list[Any]], Any]) -> ClusterParts:
        homes, send = [self.homes[group[0]] for group in groups], self._send(fn)
        joined = [
            self._submit(home, apply_alone, send, [self.pieces[k] for k in group])
            for group, home in zip(groups, homes, strict=True)
        ]
        return ClusterParts(self.client, joined, homes)

    def select(self, index: Sequence[int]) -> ClusterParts:
        return ClusterParts(self.client, [self.pieces[k] for k in index], [self.homes[k] for k in index])

    def gather(self, fn: Callable[..., Any], args: Sequence[Any] | None = None) -> list[Any]:
        return self._fetch(self._each(fn, args))

    def total(self, fn: Callable[..., Any], add: Callable[[list[Any]], Any], args: Sequence[Any] | None = None) -> Any:
        at_home = [(home, list(places)) for home, places in groupby(range(len(self)), lambda k: self.homes[k])]
        send = self._send(fn) if len(at_home) > MAX_SENT else Sent(fn)
        own = [None if args is None else Sent([args[k] for k in places]) for _, places in at_home]
        pieces = [[self.pieces[k] for k in places] for _, places in at_home]
        addresses = sorted({home.address for home, _ in at_home})
        sums = self._map(addresses, total_alone, [send] * len(own), [Sent(add)] * len(own), pieces, own)
        self._last_sums = sums
        while len(sums) > FAN_IN:
            groups = [sums[k : k + FAN_IN] for k in range(0, len(sums), FAN_IN)]
            sums = [self._submit(None, apply_alone, Sent(add), group) for group in groups]
        return add(self._fetch(sums))

    def _each(self, fn: Callable[..., Any], args: Sequence[Any] | None) -> list[Any]:
        send = self._send(fn)
        own = [()] * len(self) if args is None else [(Sent(arg),) for arg in args]
        return [
            self._submit(home, apply_alone, send, piece, *arg)
            for home, piece, arg in zip(self.homes, self.pieces, own, strict=True)
        ]

    def _send(self, value: Any) -> Any:
        """A value that goes to the cluster once, and from worker to worker."""
        return self._submit(None, _itself, Sent(value))

    def _submit(self, home: Home | None, fn: Callable[..., Any], *args: Any) -> Any:
        place = {} if home is None else {"workers": [home.address], "allow_other_workers": True}
        try:
            return self.client.submit(fn, *args, pure=False, **place)
        except Exception as error:
            raise self._explain(error) from error

    def _map(self, addresses: list[str], fn: Callable[..., Any], *args: list[Any]) -> list[Any]:
        """Several tasks at once, each where most of what it needs is."""
        try:
            place = {"workers": addresses, "allow_other_workers": True}
            return list(self.client.map(fn, *args, pure=False, **place))
        except Exception as error:
            raise self._explain(error) from error

    def _fetch(self, futures: list[Any]) -> list[Any]:
        try:
            return list(self.client.gather(futures))
        except BaseException as error:
            explained = self._explain(error)
            if explained is error:
                raise
            raise explained from error

    def _explain(self, error: BaseException) -> BaseException:
        is_gone = self.client.status != "running" or "Cancelled" in type(error).__name__
        return RuntimeError(GONE) if is_gone else error


class Sent:
    """A value as a constant: Dask must not look into it."""

    def __init__(self, value: Any):
        self.value = value


def apply_alone(fn: Sent, piece: Any, *args: Sent) -> Any:
    """A function of a piece, on one thread: Dask has given this task one."""
    with one_thread():
        return fn.value(piece, *(arg.value for arg in args))


def total_alone(fn: Sent, add: Sent, pieces: list[Any], args: Sent | None) -> Any:
    """The sum over several pieces, one after the other."""
    own = [()] * len(pieces) if args is None else [(arg,) for arg in args.value]
    with one_thread():
        found = (fn.value(piece, *arg) for piece, arg in zip(pieces, own, strict=True))
        return reduce(lambda a, b: add.value([a, b]), found)


def _itself(value: Any) -> Any:
    return value
