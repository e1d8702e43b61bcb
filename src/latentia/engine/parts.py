"""Pieces of a table that live anywhere, and how work gets to them.

`Parts` is all that the rest of the library knows of files and of clusters: a function goes to every
piece, wherever it is, and only its result comes back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any


class Parts(ABC):
    """Pieces in an order. Functions must be values that can travel: they see one piece alone."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def map(self, fn: Callable[[Any], Any]) -> Parts:
        """The pieces that `fn` makes of these, made where they are and when they are needed."""

    @abstractmethod
    def keep(self) -> Parts:
        """The same pieces, made once and kept where they are, if there is room."""

    @abstractmethod
    def select(self, index: Sequence[int]) -> Parts:
        """Some of the pieces."""

    @abstractmethod
    def gather(self, fn: Callable[..., Any], args: Sequence[Any] | None = None) -> list[Any]:
        """`fn` of every piece, and of an argument of its own if given, in order, here: it must be
        small.
        """

    @abstractmethod
    def total(self, fn: Callable[..., Any], add: Callable[[list[Any]], Any], args: Sequence[Any] | None = None) -> Any:
        """The same, added up by `add` on the way, in order: no more than the sum comes here."""


class LocalParts(Parts):
    """Pieces that are read one after the other in this process, and then forgotten.

    Parameters
    ----------
    readers : sequence of callables without arguments
        What reads each piece.
    fits_memory : bool
        Whether `keep` may hold all pieces at once.
    """

    def __init__(self, readers: Sequence[Callable[[], Any]], fits_memory: bool = False):
        self.readers = list(readers)
        self.fits_memory = fits_memory

    def __len__(self) -> int:
        return len(self.readers)

    def map(self, fn: Callable[[Any], Any]) -> LocalParts:
        return LocalParts([_Chain(read, fn) for read in self.readers], self.fits_memory)

    def keep(self) -> LocalParts:
        return LocalParts([_Kept(read()) for read in self.readers], True) if self.fits_memory else self

    def select(self, index: Sequence[int]) -> LocalParts:
        return LocalParts([self.readers[k] for k in index], self.fits_memory)

    def gather(self, fn: Callable[..., Any], args: Sequence[Any] | None = None) -> list[Any]:
        return list(self._each(fn, args))

    def total(self, fn: Callable[..., Any], add: Callable[[list[Any]], Any], args: Sequence[Any] | None = None) -> Any:
        return reduce(lambda a, b: add([a, b]), self._each(fn, args))

    def _each(self, fn: Callable[..., Any], args: Sequence[Any] | None) -> Iterator[Any]:
        for k, read in enumerate(self.readers):
            yield fn(read()) if args is None else fn(read(), args[k])


class _Chain:
    """A reader followed by a function."""

    def __init__(self, read: Callable[[], Any], fn: Callable[[Any], Any]):
        self.read, self.fn = read, fn

    def __call__(self) -> Any:
        return self.fn(self.read())


class _Kept:
    """A piece that has been read."""

    def __init__(self, piece: Any):
        self.piece = piece

    def __call__(self) -> Any:
        return self.piece
