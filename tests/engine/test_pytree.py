"""Laws of trees of arrays: what is flattened comes back, restarts and classes are cut and put together."""

from typing import Any, NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from latentia.engine.tree import (
    add_restart_axis,
    concat_classes,
    flatten,
    flatten_restarts,
    leaves,
    replace_restarts,
    select_class,
    select_restart,
    stack_restarts,
    take_restarts,
    tree_add,
    tree_map,
    unflatten,
    unflatten_restarts,
)


class Pair(NamedTuple):
    first: Any
    second: Any


def trees(n_restarts=None):
    """Nested tuples of float arrays, all with the same first axis if asked."""
    shapes = array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
    if n_restarts is not None:
        shapes = shapes.map(lambda shape: (n_restarts, *shape))
    leaf = st.tuples(shapes, st.sampled_from([np.float32, np.float64])).flatmap(
        lambda how: arrays(how[1], how[0], elements=st.floats(-8, 8, width=16))
    )
    return st.recursive(
        leaf, lambda inner: st.builds(Pair, inner, inner) | st.tuples(inner, inner, inner), max_leaves=6
    )


def assert_equal(a, b):
    assert type(a) is type(b)
    for x, y in zip(leaves(a), leaves(b), strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        np.testing.assert_array_equal(x, y)
    assert_same_structure(a, b)


def assert_same_structure(a, b):
    assert isinstance(a, tuple) == isinstance(b, tuple)
    if isinstance(a, tuple):
        assert type(a) is type(b)
        for x, y in zip(a, b, strict=True):
            assert_same_structure(x, y)


@settings(max_examples=40)
@given(trees())
def test_what_is_flattened_comes_back(tree):
    vector = flatten(tree)
    assert vector.dtype == np.float64 and vector.shape == (sum(a.size for a in leaves(tree)),)
    assert_equal(unflatten(vector, tree), tree)
    np.testing.assert_array_equal(flatten(unflatten(2 * vector, tree)), 2 * vector)


@settings(max_examples=40)
@given(st.integers(1, 4).flatmap(trees))
def test_restarts_are_flattened_row_by_row(tree):
    matrix = flatten_restarts(tree)
    assert_equal(unflatten_restarts(matrix, tree), tree)
    for k, row in enumerate(matrix):
        np.testing.assert_array_equal(row, flatten(select_restart(tree, k)))


@settings(max_examples=40)
@given(st.integers(1, 4).flatmap(trees), st.data())
def test_restarts_are_taken_and_put_back(tree, data):
    n_restarts = next(leaves(tree)).shape[0]
    assert_equal(stack_restarts([select_restart(tree, k) for k in range(n_restarts)]), tree)
    assert_equal(select_restart(add_restart_axis(tree), 0), tree)
    index = np.array(data.draw(st.permutations(range(n_restarts))))[: data.draw(st.integers(1, n_restarts))]
    some = take_restarts(tree, index.tolist())
    assert_equal(replace_restarts(tree, index, some), tree)
    doubled = replace_restarts(tree, index, tree_add(some, some))
    factor = np.where(np.isin(np.arange(n_restarts), index), 2.0, 1.0)
    np.testing.assert_array_equal(flatten_restarts(doubled), factor[:, None] * flatten_restarts(tree))


@settings(max_examples=40)
@given(st.integers(1, 4), st.integers(1, 3))
def test_classes_are_cut_and_put_together(n_classes, n_features):
    rng = np.random.default_rng(n_classes + 10 * n_features)
    tree = Pair(
        rng.normal(size=(2, n_classes, n_features)), (rng.normal(size=(2, n_features)), rng.normal(size=(2, n_classes)))
    )
    axes = Pair(-2, (None, -1))
    cut = {c: select_class(tree, axes, c) for c in range(n_classes)}
    together = concat_classes(cut, axes, n_classes)
    assert_equal(Pair(together.first, together.second[1]), Pair(tree.first, tree.second[1]))
    np.testing.assert_allclose(together.second[0], n_classes * tree.second[0])  # what classes share is added
    zero = tree_map(np.zeros_like, cut[0])
    without_last = concat_classes({c: cut[c] for c in range(n_classes - 1)} or {0: zero}, axes, n_classes)
    assert not without_last.first[:, -1].any()  # a class without rows adds nothing
