"""What a user adds outside the package, in one place, keeps the laws and serves the public API: a covariance type."""

import importlib.util
import inspect
from pathlib import Path

import numpy as np
import pytest
from conftest import N_CLASSES, N_FEATURES, N_RESTARTS, N_ROWS
from sklearn.datasets import load_iris
from tolerances import EQUAL, MAX_RELATIVE_DECREASE

from latentia import GaussianMixtureClassifier
from latentia.engine.array_source import ArraySource
from latentia.engine.objectives import Likelihood
from latentia.engine.problem import RowProblem
from latentia.families.gaussian_mixture.covariance import Diagonal
from latentia.families.gaussian_mixture.covariance_types import COVARIANCES
from latentia.families.gaussian_mixture.family import GaussianMixtures
from latentia.numerics.array_api import namespace
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
    rng = np.random.default_rng(17)
    rows = ArraySource(*family.example_rows(rng, N_ROWS, N_FEATURES))
    params = EM(2, -np.inf).solve(RowProblem(family, Likelihood(), rows), family.init(rows, rng, N_RESTARTS)).params
    known = {"family": family, "objective": objective, "rows": rows, "params": params, "rng": rng}
    law(**{name: known[name] for name in inspect.signature(law).parameters})


def assert_em_never_falls(family, n_problems=5):
    for seed in range(n_problems):
        rng = np.random.default_rng(seed)
        rows = ArraySource(*family.example_rows(rng, N_ROWS, N_FEATURES))
        solution = EM(20, -np.inf).solve(RowProblem(family, Likelihood(), rows), family.init(rows, rng, N_RESTARTS))
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


def shared_diagonal():
    return GaussianMixtures(1 + np.arange(N_CLASSES) % 2, SharedDiagonal(1e-3))


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_a_new_covariance_type_keeps_the_laws_of_every_family(law, objective):
    check_law(law, shared_diagonal(), objective)


def test_em_never_falls_with_a_new_covariance_type():
    assert_em_never_falls(shared_diagonal())


def test_a_new_covariance_type_serves_the_classifier(monkeypatch):
    """With one component: linear discriminants of the pooled variances, in the units of X, whatever those are."""
    monkeypatch.setitem(COVARIANCES, "shared-diag", SharedDiagonal)
    X, y = load_iris(return_X_y=True)
    units = np.array([1.0, 100.0, 0.01, 7.0])
    model = GaussianMixtureClassifier(covariance="shared-diag", var_floor=1e-9).fit(X * units, y)
    pooled = np.mean([X[y == c].var(axis=0) for c in range(3)], axis=0)
    np.testing.assert_allclose(model.covariances_, pooled * units**2, **EQUAL)
    means = np.stack([X[y == c].mean(axis=0) for c in range(3)])
    score = -0.5 * ((X[:, None] - means) ** 2 / pooled).sum(axis=-1)
    proba = np.exp(score - np.logaddexp.reduce(score, axis=1)[:, None])
    np.testing.assert_allclose(model.predict_proba(X * units), proba, **EQUAL)
    assert model.bic(X * units, y) == pytest.approx(-2 * model.objective_curve_[-1] + (2 + 12 + 4) * np.log(150))
    gaps = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X * units)
    two = GaussianMixtureClassifier(2, covariance="shared-diag", objective="conditional", random_state=0).fit(gaps, y)
    assert two.score(gaps, y) > 0.9 and not np.isnan(two.impute(gaps)).any()
    drawn, labels = two.sample(50_000, y=1)
    assert (labels == 1).all()
    inner = (two.weights_[1][:, None] * (two.means_[1] - two.weights_[1] @ two.means_[1]) ** 2).sum(axis=0)
    np.testing.assert_allclose(drawn.var(axis=0), two.covariances_ + inner, rtol=0.1)


def test_an_unknown_covariance_type_is_refused_with_the_names_of_all():
    with pytest.raises(ValueError, match="shared-diag") as error:
        GaussianMixtureClassifier(covariance="shared-diag").fit([[0.0], [1.0]], [0, 1])
    assert all(name in str(error.value) for name in COVARIANCES)
