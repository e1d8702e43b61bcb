"""A family defined outside the package, in one file, passes the laws that the package's own families pass."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import test_sweep
from found_parts import N_CLASSES, N_FEATURES, N_RESTARTS, N_ROWS
from tolerances import MAX_RELATIVE_DECREASE

from latentia.arrays.linalg import params_at_rows, weighted_row_sums
from latentia.arrays.namespace import asarray_like, namespace, safe_log
from latentia.engine.contracts import EMFamily, SmoothFamily
from latentia.engine.rows import ArraySource
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.solvers import EM


class RateParams(NamedTuple):
    log_prior: Any  # (..., C)
    log_rate: Any  # (..., C, D)


class RateStats(NamedTuple):
    count: Any  # (..., C)
    n_observed: Any  # (..., C, D)
    total: Any  # (..., C, D)


class RatePosterior(NamedTuple):
    log_joint: Any  # (..., C, N)


class RateFree(NamedTuple):
    log_rate: Any


class Exponentials(EMFamily, SmoothFamily):
    """Positive columns, exponentially distributed given the class: log p(x) = log r - r x."""

    params_class_axes = RateParams(-1, -2)
    stats_class_axes = RateStats(-1, -2, -2)

    def __init__(self, n_classes):
        self.n_classes = n_classes

    def init(self, source, rng, n_restarts):
        like = source.sample_rows(10, rng).rows.values
        log_rate = rng.normal(scale=0.3, size=(n_restarts, self.n_classes, source.n_features))
        log_prior = np.full((n_restarts, self.n_classes), -np.log(self.n_classes))
        return RateParams(asarray_like(log_prior, like), asarray_like(log_rate, like))

    def infer(self, params, rows, y=None, memo=None):
        xp = namespace(params.log_rate)
        observed = xp.ones_like(rows.values) if rows.observed is None else rows.observed
        score = params_at_rows(params.log_rate, observed) - params_at_rows(xp.exp(params.log_rate), rows.values)
        return RatePosterior(score + params.log_prior[..., None])

    def statistics(self, params, rows, posterior, weight):
        xp = namespace(weight)
        observed = xp.ones_like(rows.values) if rows.observed is None else rows.observed
        totals = weighted_row_sums(weight, observed), weighted_row_sums(weight, rows.values)
        return RateStats(xp.sum(weight, axis=-1), *totals)

    def update(self, params, stats):
        xp = namespace(stats.count)
        log_prior = safe_log(stats.count / xp.sum(stats.count, axis=-1, keepdims=True))
        return RateParams(log_prior, xp.log(stats.n_observed / stats.total))

    def floats_per_row(self, params):
        return 3 * params.log_rate.shape[-1] + 3 * int(np.prod(params.log_prior.shape))

    def to_free(self, params):
        return RateFree(params.log_rate)

    def from_free(self, free, params):
        return RateParams(params.log_prior, free.log_rate)

    def gradient(self, params, stats):
        return RateFree(stats.n_observed - namespace(stats.total).exp(params.log_rate) * stats.total)

    def example_rows(self, rng, n_rows, n_features):
        X, y = super().example_rows(rng, n_rows, n_features)
        return np.abs(X) + 0.1, y


LAWS = [getattr(test_sweep, name) for name in dir(test_sweep) if name.startswith("test_")]


@pytest.fixture
def problem_parts():
    rng = np.random.default_rng(3)
    family = Exponentials(N_CLASSES)
    X, y = family.example_rows(rng, N_ROWS, N_FEATURES)
    rows = ArraySource(X, y)
    start = family.init(rows, rng, N_RESTARTS)
    params = EM(2, -np.inf).solve(RowProblem(family, Likelihood(), rows), start).params
    return {"family": family, "rows": rows, "params": params, "rng": rng}


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_a_family_from_outside_passes_the_laws_of_the_sweep(law, objective, problem_parts):
    parts = problem_parts | {"objective": objective}
    law(**{name: parts[name] for name in law.__code__.co_varnames[: law.__code__.co_argcount]})


def test_em_never_lowers_a_family_from_outside(problem_parts):
    family, rows, rng = problem_parts["family"], problem_parts["rows"], problem_parts["rng"]
    solution = EM(50, 0.0).solve(RowProblem(family, Likelihood(), rows), family.init(rows, rng, 4))
    for curve in solution.curves:
        assert np.diff(curve).min() >= -MAX_RELATIVE_DECREASE * np.abs(curve).max()
