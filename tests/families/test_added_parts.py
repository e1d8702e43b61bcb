"""What a user adds outside the package, in one place, keeps the laws and serves the public API.

A covariance type, and a kind of column.
"""

import importlib.util
import inspect
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from found_parts import N_CLASSES, N_FEATURES, N_RESTARTS, N_ROWS, OBJECTIVES, example
from scipy.stats import binom
from sklearn.datasets import load_iris
from tolerances import EQUAL, MAX_RELATIVE_DECREASE

from latentia import GaussianMixtureClassifier, LatentClassificationModel
from latentia.arrays.namespace import asarray_like, namespace
from latentia.engine.rows import ArraySource
from latentia.engine.sweep import Hybrid, Likelihood, RowProblem
from latentia.engine.tree import select_restart
from latentia.families.blocks.bounds import log_two_cosh, logistic_curvature
from latentia.families.gaussian_mixture.covariance import Diagonal
from latentia.families.gaussian_mixture.family import COVARIANCES, GaussianMixtures
from latentia.families.latent_factors.columns import (
    BoundedColumnModel,
    Quadratic,
    example_codes,
    shrink_to_mean,
)
from latentia.families.latent_factors.family import LatentFactors
from latentia.families.latent_factors.importance import importance_scores
from latentia.families.latent_factors.kinds import COLUMN_MODELS, Bernoulli, ColumnLayout
from latentia.solvers import EM


def sweep_laws():
    """The laws that every family of the package is tested by."""
    path = Path(__file__).parents[1] / "engine" / "test_sweep.py"
    spec = importlib.util.spec_from_file_location("sweep_laws", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [getattr(module, name) for name in dir(module) if name.startswith("test_")]


LAWS = sweep_laws()


def check_law(law, family, objective):
    """Run a law as the matrix does: with rows that suit the family, and parameters off any optimum."""
    X, y, params = example(family)
    known = {"family": family, "objective": objective, "rows": ArraySource(X, y), "params": params}
    known["rng"] = np.random.default_rng(17)
    law(**{name: known[name] for name in inspect.signature(law).parameters})


def assert_em_never_falls(family, n_problems=2):
    for seed in range(n_problems):
        rng = np.random.default_rng(seed)
        rows = ArraySource(*family.example_rows(rng, N_ROWS, N_FEATURES))
        solution = EM(8, -np.inf).solve(RowProblem(family, Likelihood(), rows), family.init(rows, rng, N_RESTARTS))
        for curve in solution.curves:
            assert np.diff(curve).min() >= -MAX_RELATIVE_DECREASE * np.abs(curve).max()


class SharedDiagonal(Diagonal):
    """A variance per feature that all components of all classes share, (..., D)."""

    covariance_class_axis = None

    def variances(self, covariance, means):
        return namespace(means).broadcast_to(covariance[..., None, None, :], means.shape)

    def pool(self, a):
        return namespace(a).sum(a, axis=(-3, -2))

    def initial(self, variances):
        return namespace(variances).mean(variances, axis=(-3, -2))

    def transform_noise(self, covariance, c, k, noise):
        return noise * np.sqrt(covariance)

    def n_free(self, n_features, n_gaussians):
        return n_features


@cache
def shared_diagonal():
    return GaussianMixtures(1 + np.arange(N_CLASSES) % 2, SharedDiagonal(1e-3))


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_a_new_covariance_type_keeps_the_laws_of_every_family(law, objective):
    check_law(law, shared_diagonal(), objective)


def test_em_never_falls_with_a_new_covariance_type():
    assert_em_never_falls(shared_diagonal())


def test_a_new_covariance_type_serves_the_classifier(monkeypatch):
    """With one component: linear discriminants of the pooled variances, in the units of X, whatever those are.

    It knows no prior, so it trains points whatever the inference.
    """
    monkeypatch.setitem(COVARIANCES, "shared-diag", SharedDiagonal)
    X, y = load_iris(return_X_y=True)
    units = np.array([1.0, 100.0, 0.01, 7.0])
    options = dict(covariance="shared-diag", marginals="normal")
    model = GaussianMixtureClassifier(var_floor=1e-9, **options).fit(X * units, y)
    assert model.inference == "vb" and not hasattr(model, "log_evidence_")
    pooled = np.mean([X[y == c].var(axis=0) for c in range(3)], axis=0)
    np.testing.assert_allclose(model.covariances_, pooled * units**2, **EQUAL)
    means = np.stack([X[y == c].mean(axis=0) for c in range(3)])
    score = -0.5 * ((X[:, None] - means) ** 2 / pooled).sum(axis=-1)
    proba = np.exp(score - np.logaddexp.reduce(score, axis=1)[:, None])
    np.testing.assert_allclose(model.predict_proba(X * units), proba, **EQUAL)
    assert model.bic(X * units, y) == pytest.approx(-2 * model.objective_curve_[-1] + (2 + 12 + 4) * np.log(150))
    gaps = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X * units)
    two = GaussianMixtureClassifier(2, objective="conditional", random_state=0, **options).fit(gaps, y)
    assert two.score(gaps, y) > 0.9 and not np.isnan(two.impute(gaps)).any()
    drawn, labels = two.sample(50_000, y=1)
    assert (labels == 1).all()
    inner = (two.weights_[1][:, None] * (two.means_[1] - two.weights_[1] @ two.means_[1]) ** 2).sum(axis=0)
    np.testing.assert_allclose(drawn.var(axis=0), two.covariances_ + inner, rtol=0.1)


def test_an_unknown_covariance_type_is_refused_with_the_names_of_all():
    with pytest.raises(ValueError, match="shared-diag") as error:
        GaussianMixtureClassifier(covariance="shared-diag").fit([[0.0], [1.0]], [0, 1])
    assert all(name in str(error.value) for name in COVARIANCES)


class Binomial(BoundedColumnModel):
    """Ratings 0, 1, ..., n: how many of n trials succeed, each with the logistic of the predictor."""

    kind = "rating"
    is_coded = True

    def __init__(self, columns, n_trials):
        super().__init__(columns)
        self.n_trials = tuple(n_trials)

    @classmethod
    def from_columns(cls, columns, n_categories):
        return cls(columns, [max(1, n - 1) for n in n_categories])

    def bound(self, values, observed, mean, variance):
        """The bound of `Bernoulli` for each trial."""
        xp = namespace(mean)
        best = self.approximate_bound(values, observed, mean, variance, {})
        square = mean * mean + variance
        log_cosh = self._trials(values, observed) * log_two_cosh(xp.sqrt(square))
        constant = 0.5 * best.curvature * square - log_cosh + self._log_choices(values, observed)
        return best._replace(constant=xp.sum(constant, axis=-1))

    def approximate_bound(self, values, observed, mean, variance, warm_start):
        xp, n = namespace(mean), self._trials(values, observed)
        xi = xp.sqrt(mean * mean + variance)
        linear = values - 0.5 * n if observed is None else values * observed - 0.5 * n
        return Quadratic(n * logistic_curvature(xi, xp.tanh(xi / 2)), linear, 0.0)

    def log_density(self, values, observed, predictors):
        xp, n = namespace(predictors), self._trials(values, observed)
        softplus = xp.clip(predictors, min=0.0) + xp.log1p(xp.exp(-xp.abs(predictors)))
        seen = values if observed is None else values * observed
        return xp.sum(seen * predictors - n * softplus + self._log_choices(values, observed), axis=-1)

    def expected(self, mean, variance):
        n = asarray_like(self.n_trials, mean)
        return 0.5 * n * (1 + namespace(mean).tanh(shrink_to_mean(mean, variance) / 2))

    def initial_predictors(self, values, observed, weight):
        xp, n = namespace(values), self._trials(values, observed)
        prob = (xp.sum(values * observed * weight, axis=0) + 1.0) / (xp.sum(n * weight, axis=0) + 2.0)
        return xp.log(prob / (1 - prob)), (values * observed - n * prob) / (prob * (1 - prob))

    def impute(self, expected, mode):
        return namespace(expected).round(expected) if mode else expected

    def sample(self, predictors, noise, rng):
        return rng.binomial(self.n_trials, 1 / (1 + np.exp(-predictors))).astype(float)

    def example_cells(self, normal):
        return np.stack([example_codes(normal[:, k], n + 1) for k, n in enumerate(self.n_trials)], axis=1)

    def _trials(self, values, observed):
        n = asarray_like(self.n_trials, values)
        return n + namespace(values).zeros_like(values) if observed is None else n * observed

    def _log_choices(self, values, observed):
        tables = [[binom.logpmf(k, n, 0.5) + n * np.log(2) for k in range(n + 1)] for n in self.n_trials]
        xp = namespace(values)
        codes = xp.astype(values, xp.int64)
        columns = [xp.take(asarray_like(t, values), codes[:, k]) for k, t in enumerate(tables)]
        log_choices = xp.stack(columns, axis=-1)
        return log_choices if observed is None else log_choices * observed


@pytest.fixture
def rating(monkeypatch):
    monkeypatch.setitem(COLUMN_MODELS, Binomial.kind, Binomial)


@cache
def family_with(what):
    """Made while the new kind is known."""
    settled = {"bound_tol": 1e-12, "bound_max_iter": 1000, "ridge": 1.0}
    if what == "ratings":
        layout = ColumnLayout.from_kinds(["rating"] * N_FEATURES, [2 + k for k in range(N_FEATURES)])
        return LatentFactors(layout, N_CLASSES, 2, 2, **settled)
    examples = LatentFactors.examples(N_FEATURES, N_CLASSES)
    (family,) = [f for f in examples if any(isinstance(model, Binomial) for model in f.layout.models)]
    return family


@pytest.fixture(params=["ratings", "all kinds"])
def with_ratings(request, rating):
    return family_with(request.param)


def is_slow(objective):
    """A likelihood and the objective with the most parts are tried always, others in the matrix."""
    return objective not in (Likelihood(), Hybrid.examples()[-1])


@pytest.mark.parametrize(
    "what, aim",
    [
        pytest.param(what, o, id=f"{what}-{o!r}", marks=[pytest.mark.matrix] if is_slow(o) else [])
        for what in ("ratings", "all kinds")
        for o in OBJECTIVES
    ],
)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_a_new_kind_of_column_keeps_the_laws_of_every_family(law, what, aim, rating):
    check_law(law, family_with(what), aim)


def test_em_never_falls_with_a_new_kind_of_column(with_ratings):
    assert_em_never_falls(with_ratings)


def test_one_trial_is_a_binary_column(rng):
    """The new kind meets the old one, in every value that the family asks for."""
    old, new = Bernoulli([0, 1]), Binomial([0, 1], [1, 1])
    values, observed = rng.integers(0, 2, (9, 2)).astype(float), (rng.random((9, 2)) < 0.7).astype(float)
    mean, variance = rng.normal(size=(3, 9, 2)), rng.random((3, 9, 2))
    for seen in (None, observed):
        for a, b in zip(old.bound(values, seen, mean, variance), new.bound(values, seen, mean, variance), strict=True):
            np.testing.assert_allclose(a, b, **EQUAL)
        np.testing.assert_allclose(old.log_density(values, seen, mean), new.log_density(values, seen, mean), **EQUAL)
    np.testing.assert_allclose(old.expected(mean, variance), new.expected(mean, variance), **EQUAL)


def test_samples_completions_and_densities_of_a_new_kind(with_ratings, rng):
    family = with_ratings
    rows = ArraySource(*family.example_rows(rng, N_ROWS, N_FEATURES))
    params = select_restart(family.init(rows, rng, 1), 0)
    cells = rows.preprocess(rows.X)
    bound, n_draws = family.infer(params, cells).log_joint, 400
    estimate = importance_scores(family, params, cells, rng.standard_normal((n_draws, family.n_latent)))
    assert (estimate > bound - 0.3).all()  # a lower bound of the density, up to the error of the estimate
    assert 0 < (estimate - bound).mean() < 1.0
    drawn = family.sample(params, np.zeros(20_000, int), rng)
    no_cells = rows.preprocess(np.full((1, N_FEATURES), np.nan))
    expected = family.impute(params, no_cells, np.eye(N_CLASSES)[:, :1])[0]
    for model in family.layout.models:
        if isinstance(model, Binomial):
            for column, n in zip(model.columns, model.n_trials, strict=True):
                assert set(np.unique(drawn[:, column])) <= set(range(n + 1))
                assert abs(drawn[:, column].mean() - expected[column]) < 0.05 * n
    filled = family.impute(params, cells, np.full((N_CLASSES, N_ROWS), 1 / N_CLASSES), mode=True)
    np.testing.assert_array_equal(filled[cells.observed > 0], cells.values[cells.observed > 0])


def test_a_new_kind_of_column_serves_the_classifier(rating):
    """Marks of four questions that a skill explains, some missing, beside a number."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    skill = rng.normal(size=400) + 1.5 * y
    marks = rng.binomial([3, 5, 3, 9], 1 / (1 + np.exp(1 - skill[:, None]))).astype(float)
    X = np.c_[marks, 100 * skill + 50 * rng.normal(size=400)]
    X[rng.random(X.shape) < 0.1] = np.nan
    kinds = ["rating"] * 4 + ["auto"]
    model = LatentClassificationModel(1, kinds=kinds, n_init=2, random_state=0).fit(X, y)
    assert model.kinds_ == ("rating",) * 4 + ("continuous",)
    assert model.score(X, y) > 0.7
    filled = model.impute(X, method="mode")
    assert not np.isnan(filled).any() and (filled[:, :4] == np.round(filled[:, :4])).all()
    hidden = X.copy()
    hidden[:, 3] = np.nan
    right = ~np.isnan(X[:, 3])
    error = np.abs(model.impute(hidden)[right, 3] - X[right, 3]).mean()
    assert error < 0.8 * np.abs(X[right, 3].mean() - X[right, 3]).mean()  # the other marks tell of this one
    drawn, _ = model.sample(2000)
    assert set(np.unique(drawn[:, 0])) <= {0.0, 1.0, 2.0, 3.0}
    np.testing.assert_allclose(drawn[:, :4].mean(axis=0), np.nanmean(X[:, :4], axis=0), rtol=0.15)
    assert np.isfinite(model.bic(X, y))


def test_an_unknown_kind_is_refused_with_the_names_of_all():
    with pytest.raises(ValueError, match="rating") as error:
        LatentClassificationModel(kinds="rating").fit([[0.0], [1.0]], [0, 1])
    assert all(name in str(error.value) for name in COLUMN_MODELS)
