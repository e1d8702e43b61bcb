"""Pieces of a table that live anywhere, and how work gets to them.

`Parts` is all that the rest of the library knows of files and of clusters: a function goes to every
piece, wherever it is, and only its result comes back.
"""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any


class Parts(ABC):
    """Pieces in an order. Functions must be values that can travel: they see one piece alone."""

    @property
    def n_places(self) -> int | None:
        """How many work at a time, if pieces stay with them; None where each is read anew."""
        return None

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def map(self, fn: Callable[..., Any], args: Sequence[Any] | None = None) -> Parts:
        """The pieces that `fn` makes of these, and of an argument of its own for each if given;
        made where they are and when they are needed.
        """

    @abstractmethod
    def keep(self) -> Parts:
        """The same pieces, made once and kept where they are, if there is room."""

    @abstractmethod
    def join(self, groups: Sequence[Sequence[int]], fn: Callable[[list[Any]], Any]) -> Parts:
        """The pieces that `fn` makes of the pieces of each group."""

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

    What does not fit into memory is kept in a temporary folder: there it is read again faster than
    where it came from, and takes as much disk as its numbers do.

    Parameters
    ----------
    readers : sequence of callables without arguments
        What reads each piece.
    fits_memory : bool
        Whether `keep` may hold all pieces at once.
    is_kept : bool
        Whether the pieces are at hand already, but for what is quickly done with them.
    """

    def __init__(self, readers: Sequence[Callable[[], Any]], fits_memory: bool = False, is_kept: bool = False):
        self.readers = list(readers)
        self.fits_memory, self.is_kept = fits_memory, is_kept

    def __len__(self) -> int:
        return len(self.readers)

    def map(self, fn: Callable[..., Any], args: Sequence[Any] | None = None) -> LocalParts:
        own = [()] * len(self) if args is None else [(arg,) for arg in args]
        readers = [_Chain(read, fn, arg) for read, arg in zip(self.readers, own, strict=True)]
        return LocalParts(readers, self.fits_memory, self.is_kept)

    def keep(self) -> LocalParts:
        if self.fits_memory:
            return LocalParts([_Kept(read()) for read in self.readers], True, True)
        if self.is_kept:
            return self
        folder = TemporaryFolder()
        return LocalParts([_Stored(read(), folder, k) for k, read in enumerate(self.readers)], False, True)

    def join(self, groups: Sequence[Sequence[int]], fn: Callable[[list[Any]], Any]) -> LocalParts:
        readers = [_Chain(_All([self.readers[k] for k in group]), fn, ()) for group in groups]
        return LocalParts(readers, self.fits_memory, self.is_kept)

    def select(self, index: Sequence[int]) -> LocalParts:
        return LocalParts([self.readers[k] for k in index], self.fits_memory, self.is_kept)

    def gather(self, fn: Callable[..., Any], args: Sequence[Any] | None = None) -> list[Any]:
        return list(self._each(fn, args))

    def total(self, fn: Callable[..., Any], add: Callable[[list[Any]], Any], args: Sequence[Any] | None = None) -> Any:
        return reduce(lambda a, b: add([a, b]), self._each(fn, args))

    def _each(self, fn: Callable[..., Any], args: Sequence[Any] | None) -> Iterator[Any]:
        for k, read in enumerate(self.readers):
            yield fn(read()) if args is None else fn(read(), args[k])


def group_small(sizes: Sequence[int], limit: int) -> list[list[int]]:
    """Neighbors together, as long as their sizes add up to no more than a limit."""
    groups: list[list[int]] = []
    total = 0
    for k, size in enumerate(sizes):
        total += size
        if groups and total <= limit:
            groups[-1].append(k)
        else:
            groups.append([k])
            total = size
    return groups


class _Chain:
    """A reader followed by a function."""

    def __init__(self, read: Callable[[], Any], fn: Callable[..., Any], args: tuple[Any, ...]):
        self.read, self.fn, self.args = read, fn, args

    def __call__(self) -> Any:
        return self.fn(self.read(), *self.args)


class _All:
    """Several readers as one."""

    def __init__(self, readers: list[Callable[[], Any]]):
        self.readers = readers

    def __call__(self) -> list[Any]:
        return [read() for read in self.readers]


class _Kept:
    """A piece that has been read."""

    def __init__(self, piece: Any):
        self.piece = piece

    def __call__(self) -> Any:
        return self.piece


class TemporaryFolder:
    """A folder that is deleted with the last that refers to it, or at exit."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="latentia-")
        weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)


class _Stored:
    """A piece that lies in a temporary folder."""

    def __init__(self, piece: Any, folder: TemporaryFolder, number: int):
        self.folder, self.path = folder, os.path.join(folder.name, f"{number}.part")
        try:
            with open(self.path, "wb") as file:
                pickle.dump(piece, file, protocol=5)
        except OSError as error:
            raise OSError(
                f"no working copy of the rows can be written to {folder.name}: {error}. The environment variable "
                "TMPDIR names another folder."
            ) from error

    def __call__(self) -> Any:
        with open(self.path, "rb") as file:
            return pickle.load(file)
