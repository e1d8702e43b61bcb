"""Helpers of numerics and the building blocks of families, called by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentia.arrays import linalg
from latentia.arrays import linalg as entrywise_spd
from latentia.arrays import linalg as matmul
from latentia.arrays import linalg as packed_symmetric
from latentia.arrays import namespace as logspace
from latentia.arrays import namespace as special
from latentia.arrays.linalg import normal_qmc_points
from latentia.families.blocks import bounds as expected_softmax
from latentia.families.blocks import bounds as logsumexp_bound
from latentia.families.blocks import bounds as truncated_normal
from latentia.families.blocks import starts as kmeans
from latentia.families.blocks.bounds import GammaPrior
from latentia.families.softmax_tree import leaves as gaussian_weights

from ..digest import tree
from ..registry import Group

SCENARIOS = Group()


def spd(n: int, *lead: int, seed: int = 0) -> np.ndarray:
    a = np.random.RandomState(seed).normal(size=(*lead, n, n + 2))
    return a @ np.swapaxes(a, -1, -2) + 0.1 * np.eye(n)


@SCENARIOS
def logarithms() -> dict[str, Any]:
    a = np.random.RandomState(0).normal(size=(3, 4, 5)) * 40
    a[0, :, 1] = -np.inf
    whole, unnormalized, top = logspace.logsumexp_and_unnormalized(a, 1)
    return {
        "logsumexp": [logspace.logsumexp(a, axis) for axis in (0, 1, 2)],
        "log_softmax": logspace.log_softmax(a, 2),
        "softmax": logspace.softmax(a[1:], 1),
        "both": tree(logspace.logsumexp_and_softmax(a[1:], 1)),
        "unnormalized": tree((whole, unnormalized, top)),
        "flushed": logspace.exp_flush_underflow(np.array([-1000.0, -700.0, -3.0, 0.0, -np.inf])),
        "safe_log": logspace.safe_log(np.array([0.0, 1e-300, 0.5, 2.0])),
        "single": np.round(
            logspace.softmax(np.array([[-1e5, -1e5 + 1, -1e5 - 2]], dtype=np.float32), 1).astype(float), 4
        ),
    }


@SCENARIOS
def inverses() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for n, lead in ((1, (7,)), (2, (3, 2)), (4, (40,)), (9, (5,)), (30, ())):
        matrix = spd(n, *lead)
        inverse, log_det = linalg.spd_inverse(matrix)
        many, of_many = entrywise_spd.invert_many(matrix)
        root, root_det = linalg.spd_inverse_root(matrix)
        found[f"{n}"] = {"inverse": inverse, "log_det": log_det, "many": many, "of_many": of_many}
        found[f"{n} root"] = {"square": root @ np.swapaxes(root, -1, -2), "log_det": root_det}
    systems, right = spd(4, 9), np.random.RandomState(7).normal(size=(4, 2, 9))
    triangles = packed_symmetric.pack(systems).T.copy()
    found["systems"] = tree(entrywise_spd.solve_entrywise(triangles, right))
    bad = np.diag([1.0, 2.0, -0.5, 0.0]) + 0.01
    found["bad"] = {
        "definite": linalg.positive_definite(bad),
        "floored": linalg.floor_eigenvalues(bad, 0.2),
        "symmetric": linalg.symmetric(np.arange(9.0).reshape(3, 3)),
    }
    found["flat"] = linalg.flat_matmul(spd(3, 2), np.arange(12.0).reshape(3, 4))
    return found


@SCENARIOS
def products() -> dict[str, Any]:
    rng = np.random.RandomState(1)
    rows, params, weight = rng.normal(size=(7, 3)), rng.normal(size=(2, 4, 3)), rng.normal(size=(2, 4, 7))
    a, square = rng.normal(size=(2, 4)), spd(4, 2)
    packed = packed_symmetric.pack(square)
    found = {
        "packed_outer": packed_symmetric.packed_outer(a),
        "quadratic": packed_symmetric.quadratic_features(a),
        "pack": packed,
        "unpack": packed_symmetric.unpack(packed, 4),
        "doubled": packed_symmetric.with_doubled_offdiagonal(packed, 4),
        "at_rows": matmul.params_at_rows(params, rows),
        "row_sums": matmul.weighted_row_sums(weight, rows),
    }
    return found | {"long": packed_symmetric.packed_outer(rng.normal(size=(300, 5)))}


@SCENARIOS
def special_functions() -> dict[str, Any]:
    x = np.array([-8.0, -1.0, 0.0, 0.3, 2.0, 30.0])
    return {
        "erfcx": special.erfcx(x),
        "digamma": special.digamma(np.array([0.2, 1.0, 7.5, 90.0])),
        "log_gamma": special.log_gamma(np.array([0.2, 1.0, 7.5, 90.0])),
        "points": normal_qmc_points(32, 3),
    }


@SCENARIOS
def bounds() -> dict[str, Any]:
    rng = np.random.RandomState(2)
    mean, variance = 2 * rng.normal(size=(3, 4, 6)), rng.uniform(0.1, 2.0, (3, 4, 6))
    eta, xi = np.array([-6.0, -0.5, 0.0, 0.8, 5.0]), np.array([0.0, 1e-4, 0.7, 30.0])
    near = logsumexp_bound.softmax_bound(mean, variance)
    return {
        "bound": tree(near),
        "near": tree(logsumexp_bound.softmax_bound_near(mean + 0.1, variance, near.center)),
        "single": tree(logsumexp_bound.softmax_bound(mean[:, :1], variance[:, :1])),
        "two": expected_softmax.log_expected_softmax(mean[:, :2], variance[:, :2]),
        "averaged": expected_softmax.log_expected_softmax(mean, variance),
        "approximate": tree(logsumexp_bound.approximate_bound(mean, variance, near.center + 0.2)),
        "curvature": logsumexp_bound.logistic_curvature(xi, np.tanh(xi / 2)),
        "two_cosh": logsumexp_bound.log_two_cosh(xi),
        "expected": expected_softmax.log_expected_softmax(mean, None),
        "logit": expected_softmax.logit_expected_sigmoid(mean[0, 0], variance[0, 0]),
        "half_line": tree(truncated_normal.positive_half_line(eta)),
        "truncated": tree(truncated_normal.truncate(eta, np.array([1.0, -1.0, 1.0, -1.0, 0.0]), 0.0)),
        "with_margin": tree(truncated_normal.truncate(eta, np.array([1.0, -1.0, 0.0, 0.0, 0.0]), 0.7)),
    }


@SCENARIOS
def priors() -> dict[str, Any]:
    prior, rate, square = GammaPrior(1.7, 0.4), np.array([0.5, 2.0, 9.0]), np.array([0.1, 3.0, 8.0])
    mean = np.random.RandomState(3).normal(size=(2, 3, 4))
    weights = gaussian_weights.posterior_around(mean, 0.3, prior)
    return {
        "shape": [prior.posterior_shape(3), prior.posterior_shape(3, 0.5)],
        "precision": [prior.precision(rate, 4), prior.precision(rate, 4, 0.5)],
        "log_prior": [prior.log_prior(rate, 4, square), prior.log_prior(rate, 4, square, 0.5)],
        "weights": tree(weights),
        "weights_prior": [gaussian_weights.weights_log_prior(weights, prior, beta) for beta in (1.0, 0.4)],
        "accelerated": tree(gaussian_weights.to_accelerated(weights)),
        "augmented": gaussian_weights.augment(mean[0]),
    }


@SCENARIOS
def clusters() -> dict[str, Any]:
    rng = np.random.RandomState(4)
    X = np.concatenate([rng.normal(size=(12, 2)), rng.normal(size=(9, 2)) + 5, rng.normal(size=(4, 2)) - [6, 0]])
    weight = rng.uniform(0.2, 2.0, 25)
    return {
        "two": tree(kmeans.cluster_restarts(X, 2, 3, np.random.default_rng(0))),
        "weighted": tree(kmeans.cluster_restarts(X, 4, 2, np.random.default_rng(1), weight)),
        "equal_rows": tree(kmeans.cluster_restarts(np.round(X / 4), 5, 2, np.random.default_rng(2), weight)),
        "no_rows": tree(kmeans.cluster_restarts(X[:0], 2, 1, np.random.default_rng(0))),
        "one_row": tree(kmeans.cluster_restarts(X[:1], 2, 1, np.random.default_rng(0))),
    }


@SCENARIOS
def large_products() -> dict[str, Any]:
    """Many rows, in both layouts, which are cut into tiles."""
    rng = np.random.RandomState(5)
    found = {}
    for n, d, k in ((701, 9, 3), (1500, 40, 2), (130, 300, 4)):
        rows, params, weight = rng.normal(size=(n, d)), rng.normal(size=(2, k, d)), rng.normal(size=(2, k, n))
        for layout, table in (("C", rows), ("F", np.asfortranarray(rows))):
            found[f"{n} {layout}"] = tree(
                (matmul.params_at_rows(params, table), matmul.weighted_row_sums(weight, table))
            )
    return found


@SCENARIOS
def extremes() -> dict[str, Any]:
    """Very large and very small numbers."""
    mean = np.array(
        [
            [-800.0, -40.0, -1e-9, 0.0, 1e-9, 40.0, 800.0],
            [0.0, 40.0, 0.0, 0.0, -1e-9, 39.0, 790.0],
            [5.0, -40.0, 1.0, 0.0, 0.0, 41.0, -800.0],
        ]
    )
    variance = np.array(
        [
            [0.0, 1e-12, 1.0, 0.0, 100.0, 4.0, 1e4],
            [1.0, 0.0, 1e-6, 0.0, 1.0, 0.0, 1e4],
            [2.0, 9.0, 1.0, 0.0, 3.0, 1.0, 1.0],
        ]
    )
    eta = np.array([-40.0, -9.0, -1e-8, 0.0, 1e-8, 9.0, 40.0])
    return {
        "three": expected_softmax.log_expected_softmax(mean, variance),
        "two": expected_softmax.log_expected_softmax(mean[:2], variance[:2]),
        "one": expected_softmax.log_expected_softmax(mean[:1], variance[:1]),
        "logit": expected_softmax.logit_expected_sigmoid(mean[0], variance[0]),
        "logit_back": expected_softmax.logit_expected_sigmoid(-mean[0], variance[0]),
        "bound": tree(logsumexp_bound.softmax_bound(mean, variance + 1e-3)),
        "half_line": tree(truncated_normal.positive_half_line(eta)),
        "present": tree(truncated_normal.truncate(eta, np.ones(7), 0.0)),
        "absent": tree(truncated_normal.truncate(eta, -np.ones(7), 0.0)),
        "unknown": tree(truncated_normal.truncate(eta, np.zeros(7), 1.3)),
        "logsumexp": logspace.logsumexp(mean, 0),
        "softmax": logspace.softmax(mean, 0),
        "log_softmax": logspace.log_softmax(mean, 0),
        "erfcx": special.erfcx(np.array([-20.0, -5.0, 5.0, 50.0, 1e8])),
        "curvature": logsumexp_bound.logistic_curvature(
            np.array([1e-12, 1e-5, 1e-2, 1.0, 100.0]), np.tanh(np.array([1e-12, 1e-5, 1e-2, 1.0, 100.0]) / 2)
        ),
    }
