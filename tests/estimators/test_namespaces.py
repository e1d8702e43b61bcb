"""Other array libraries: the same numbers, in the namespace, on the device and in the dtype of the input.

The laws of a sweep run in array-api-strict for every family and objective; whole fits run there for every estimator, and in torch (marked `matrix`: the slower part,
run by .ci/run).
"""

import array_api_strict
import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_iris
from tolerances import NAMESPACE, SINGLE

from latentia import GaussianMixtureClassifier, LatentClassificationModel, LatentClassifier
from latentia.arrays.namespace import to_numpy
from latentia.engine.contracts import DampedFamily, EMFamily, SmoothFamily
from latentia.engine.rows import ArraySource
from latentia.engine.sweep import RowProblem
from latentia.engine.tree import flatten, leaves, select_restart, tree_map
from latentia.estimators.latent_classifier import candidates, classifier
from latentia.families.latent_factors.importance import importance_scores

#: Arrays on array-api-strict's second device meet neither those on its first nor NumPy's.
DEVICE = array_api_strict.Device("device1")


def sweep_in(xp, dtype, family, objective, rows, params, device=None):
    """A sweep, an M-step and a gradient in another namespace, as NumPy arrays."""
    X = xp.asarray(np.array(rows.X), dtype=dtype, device=device)  # a copy: torch wants no read-only memory
    problem = RowProblem(family, objective, ArraySource(X, rows.y))
    moved = tree_map(lambda a: xp.asarray(np.array(a), dtype=dtype, device=device), params)
    sweep, family = problem.sweep(moved), problem.family
    assert all(a.dtype == dtype for a in leaves(sweep.stats)), "the dtype has changed"
    out = list(leaves(sweep))
    if objective.rises_under_em:
        if isinstance(family, EMFamily):
            updated = family.update(moved, sweep.stats)
        elif isinstance(family, DampedFamily):
            updated = family.damped_update(moved, sweep.stats, 0.3)
        else:
            updated = family.gradient(moved, sweep.stats)
        assert all(a.dtype == dtype for a in leaves(updated)), "the dtype has changed"
        out += list(leaves(updated))
    if isinstance(family, SmoothFamily):
        one = select_restart(moved, 0)
        out += [flatten(family.gradient(one, problem.sweep(one).stats))]
    return [to_numpy(a).astype(float) for a in out]


def test_strict_namespace_agrees(family, objective, rows, params):
    expected = sweep_in(np, np.float64, family, objective, rows, params)
    strict = sweep_in(array_api_strict, array_api_strict.float64, family, objective, rows, params, DEVICE)
    for a, b in zip(strict, expected, strict=True):
        np.testing.assert_allclose(a, b, **NAMESPACE)


@pytest.mark.families("factors")
def test_importance_sampling_agrees_in_the_strict_namespace(family, rows, params, rng):
    params, draws = select_restart(params, 0), rng.standard_normal((5, family.n_latent))
    moved = tree_map(lambda a: array_api_strict.asarray(a, device=DEVICE), params)
    X = array_api_strict.asarray(rows.X, device=DEVICE)
    strict = importance_scores(family, moved, rows.preprocess(X), draws)
    assert strict.device == DEVICE
    np.testing.assert_allclose(
        to_numpy(strict), importance_scores(family, params, rows.preprocess(rows.X), draws), **NAMESPACE
    )


def check_in_the_strict_namespace(model, X, y):
    """All that a model is asked comes back on its device, and is what NumPy says; few steps, so that the ways of rounding do not part.

    Of the first device, where mistakes can hide, are the checks that scikit-learn has of every estimator.
    """
    model.set_params(n_init=1, max_iter=4)
    question = "predict_proba" if hasattr(model, "predict_proba") else "predict"
    expected = getattr(clone(model).fit(X, y), question)(X)
    with config_context(array_api_dispatch=True):
        X, y = (array_api_strict.asarray(a, device=DEVICE) for a in (X, y))
        model = clone(model).fit(X, y)
        names = ["predict", "predict_proba", "predict_log_proba", "score_samples", "impute", "transform"]
        answers = {name: getattr(model, name)(X) for name in names if hasattr(model, name)}
    assert {name: a.device for name, a in answers.items()} == dict.fromkeys(answers, DEVICE)
    np.testing.assert_allclose(to_numpy(answers[question]), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.matrix
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_whole_fits_in_the_strict_namespace(case, quick, data, y):
    X = data.X.copy()
    if quick.__sklearn_tags__().input_tags.allow_nan:
        X[::7, 2] = np.nan
    check_in_the_strict_namespace(quick, X, y)


@pytest.mark.matrix
@pytest.mark.parametrize("refine", [None, "importance"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_whole_fits_of_mixed_columns_in_the_strict_namespace(refine, rng):
    y = np.arange(40) % 2
    codes = np.column_stack(
        [rng.integers(2, size=40), rng.integers(3, size=40), rng.poisson(2, 40), rng.integers(4, size=40)]
    )
    X = np.column_stack([rng.normal(size=40) + 2 * y, codes[:, 0], rng.normal(size=40) - y, codes[:, 1:]])
    X[::7, 2:] = np.nan
    kinds = ["continuous", "binary", "continuous", "categorical", "count", "ordinal"]
    model = LatentClassificationModel(2, kinds=kinds, refine=refine, n_importance_samples=10, random_state=0)
    check_in_the_strict_namespace(model, X, y)


@pytest.mark.matrix
def test_torch_agrees(family, objective, rows, params):
    torch = pytest.importorskip("torch")
    expected = sweep_in(np, np.float64, family, objective, rows, params)
    import array_api_compat.torch as xp

    for a, b in zip(sweep_in(xp, torch.float64, family, objective, rows, params), expected, strict=True):
        np.testing.assert_allclose(a, b, **NAMESPACE)


@pytest.mark.matrix
def test_single_precision_agrees(family, objective, rows, params):
    expected = sweep_in(np, np.float64, family, objective, rows, params)
    single = sweep_in(np, np.float32, family, objective, rows, params)
    for a, b in zip(single, expected, strict=True):
        scale = np.abs(b[np.isfinite(b)]).max(initial=1.0)  # sums cancel: errors are relative to the largest entry
        np.testing.assert_allclose(a, b, rtol=SINGLE["rtol"], atol=SINGLE["atol"] * scale)


@pytest.mark.matrix
@pytest.mark.parametrize("objective_name", ["likelihood", "conditional", "margin", "hybrid"])
@pytest.mark.parametrize("covariance", ["diag", "full", "tied", "spherical"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_whole_fits_in_torch(covariance, objective_name):
    torch = pytest.importorskip("torch")
    X, y = load_iris(return_X_y=True)
    X[::7, 1] = np.nan
    options = dict(
        covariance=covariance, objective=objective_name, random_state=0, max_iter=15, n_init=2, n_components=2
    )
    reference = GaussianMixtureClassifier(**options).fit(X, y)
    with config_context(array_api_dispatch=True):
        X_torch, y_torch = torch.asarray(X), torch.asarray(y)
        model = GaussianMixtureClassifier(**options).fit(X_torch, y_torch)
        outputs = [model.predict_proba(X_torch), model.impute(X_torch), model.score_samples(X_torch), model.means_]
        assert all(isinstance(a, torch.Tensor) and a.dtype == torch.float64 for a in outputs)
        assert isinstance(model.predict(X_torch), torch.Tensor)
        assert isinstance(model.sample(3)[0], torch.Tensor)
    expected = [reference.predict_proba(X), reference.impute(X), reference.score_samples(X), reference.means_]
    for a, b in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(to_numpy(a), b, rtol=1e-5, atol=1e-5)


def test_tensors_are_taken_as_arrays_without_dispatch():
    torch = pytest.importorskip("torch")
    X, y = load_iris(return_X_y=True)
    model = GaussianMixtureClassifier().fit(torch.asarray(X), torch.asarray(y))
    assert isinstance(model.predict_proba(torch.asarray(X)), np.ndarray)


@pytest.mark.matrix
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_sample_of_a_table_on_a_device_is_searched_in_the_main_memory(monkeypatch):
    """It is too small for a device; the models of all rows are on the device."""
    seen, fit_of = [], candidates.GenerativeCandidate.fit

    def fit(self, rows, bases, seed):
        seen.append((rows.weights.shape[1] > 1, type(rows.data.X), type(rows.data.preprocessor.shift)))
        return fit_of(self, rows, bases, seed)

    monkeypatch.setattr(candidates.GenerativeCandidate, "fit", fit)
    monkeypatch.setitem(classifier.MAX_SEARCH_ROWS, "fast", 60)
    X, y = load_iris(return_X_y=True)
    X[::7, 2] = np.nan
    check_in_the_strict_namespace(LatentClassifier(effort="fast", cv=2, random_state=0), X, y)
    strict = type(array_api_strict.asarray(0.0))
    assert {(X, shift) for searches, X, shift in seen if searches} == {(np.ndarray, np.ndarray)}
    assert (False, strict, strict) in seen
