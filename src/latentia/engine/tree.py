"""Named tuples of arrays as values: add, slice by class or by restart, flatten.

A tree is a (named) tuple whose leaves are arrays; tuples may nest. Every leaf of a tree of
parameters or statistics carries the same leading axes (restarts). A tree of class axes has the
same structure with, in place of each array, the axis that runs over the classes, counted from the
end, or None where the classes share the array.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, cast

import numpy as np

from latentia.arrays.namespace import Array, asarray_like, namespace, to_numpy

Tree = Array | tuple["Tree", ...]
Axes = int | None | tuple["Axes", ...]

T = TypeVar("T", bound=Tree)
V = TypeVar("V")


def tree_map(fn: Callable[..., Array], tree: T, *others: Tree | Axes) -> T:
    """Apply `fn` to corresponding leaves; the result is a tree like the first."""
    if not isinstance(tree, tuple):
        return cast(T, fn(tree, *others))
    parts = [
        tree_map(fn, *part) if isinstance(part[0], tuple) else fn(*part)
        for part in zip(tree, *cast("tuple[tuple[Tree, ...], ...]", others), strict=True)
    ]
    return cast(T, getattr(type(tree), "_make", tuple)(parts))


def leaves(tree: Tree) -> Iterator[Array]:
    """All leaves, in order."""
    if isinstance(tree, tuple):
        for part in tree:
            yield from leaves(part)
    else:
        yield tree


def tree_add(a: V, b: V) -> V:
    """Leafwise sum; leaves may be numbers."""
    return cast(V, tree_map(operator.add, cast(Tree, a), cast(Tree, b)))


def take_restarts(tree: T, index: Sequence[int]) -> T:
    """The chosen entries of the first leading axis."""

    def take(a: Array) -> Array:
        xp = namespace(a)
        return xp.take(a, asarray_like(list(index), a, dtype=xp.int64), axis=0)

    return tree_map(take, tree)


def select_restart(tree: T, index: int) -> T:
    """One entry of the first leading axis, which it drops."""
    return tree_map(lambda a: a[index, ...], tree)


def add_restart_axis(tree: T) -> T:
    """A leading axis of length one."""
    return tree_map(lambda a: a[None, ...], tree)


def stack_restarts(trees: Sequence[T]) -> T:
    """Several trees as one, along a new leading axis."""
    return tree_map(lambda *arrays: namespace(arrays[0]).stack(arrays, axis=0), *trees)


def select_class(tree: T, axes: Axes, label: int) -> T:
    """The part of one class; its class axes keep length one."""

    def select(a: Array, axis: int | None) -> Array:
        if axis is None:
            return a
        return a[(..., slice(label, label + 1)) + (slice(None),) * (-axis - 1)]

    return tree_map(select, tree, axes)


def concat_classes(parts: dict[int, T], axes: Axes, n_classes: int) -> T:
    """Put the parts of the classes together: class axes side by side, the rest added."""
    if len(parts) < n_classes:  # classes without a row add nothing
        empty = tree_map(lambda a: namespace(a).zeros_like(a), next(iter(parts.values())))
        parts = dict.fromkeys(range(n_classes), empty) | parts
    ordered = [parts[label] for label in range(n_classes)]

    def join(first: Array, axis: int | None, *others: Array) -> Array:
        if axis is None:
            return sum(others, start=first)
        return namespace(first).concat([first, *others], axis=axis)

    return tree_map(join, ordered[0], axes, *ordered[1:])


def flatten(tree: Tree) -> np.ndarray:
    """All entries in one float64 vector on the host."""
    return _flatten(tree, 0)


def unflatten(vector: np.ndarray, template: T) -> T:
    """The inverse of `flatten`, beside the template's arrays."""
    return _unflatten(vector, template, 0)


def flatten_restarts(tree: Tree) -> np.ndarray:
    """The entries of each restart as one row of a float64 matrix on the host."""
    return _flatten(tree, 1)


def unflatten_restarts(matrix: np.ndarray, template: T) -> T:
    """The inverse of `flatten_restarts`, beside the template's arrays."""
    return _unflatten(matrix, template, 1)


def _flatten(tree: Tree, n_leading: int) -> np.ndarray:
    arrays = [to_numpy(a).astype(np.float64) for a in leaves(tree)]
    return np.concatenate([a.reshape(*a.shape[:n_leading], math.prod(a.shape[n_leading:])) for a in arrays], axis=-1)


def _unflatten(flat: np.ndarray, template: T, n_leading: int) -> T:
    position = 0

    def read(a: Array) -> Array:
        nonlocal position
        size = math.prod(a.shape[n_leading:])
        entries = flat[..., position : position + size].reshape(a.shape)
        position += size
        return asarray_like(entries, a)

    return tree_map(read, template)


def replace_restarts(tree: T, index: np.ndarray, other: T) -> T:
    """`tree` with the restarts at `index` taken from `other`, which holds those alone."""

    def put(a: Array, b: Array) -> Array:
        xp = namespace(a)
        source = np.arange(a.shape[0])
        source[index] = a.shape[0] + np.arange(len(index))
        return xp.take(xp.concat([a, b], axis=0), asarray_like(source, a, dtype=xp.int64), axis=0)

    return tree_map(put, tree, other)
