"""Numbers of free parameters: written out by hand in BIC and AIC, and beside the dimension of the set of models."""

import numpy as np
import pytest
from tolerances import STEP

from latentia import (
    GaussianMixtureClassifier,
    LatentClassificationModel,
    LatentClassificationModelCV,
    MixtureOfExpertsClassifier,
    MixtureOfExpertsRegressor,
    MultimodalSoftmaxClassifier,
)
from latentia.engine.contracts import ConditionalFamily
from latentia.engine.rows import ArraySource, MaskedRows
from latentia.engine.tree import flatten, select_restart, unflatten
from latentia.families.gaussian_mixture.family import GaussianMixtures
from latentia.families.latent_factors.family import LatentFactors
from latentia.families.latent_factors.kinds import Bernoulli, ColumnLayout
from latentia.families.softmax_tree.leaves import LinearLeaves
from latentia.families.softmax_tree.tree import SoftmaxTree, TreeLikelihood, mixture_of_experts, multimodal_softmax

N, D, C = 60, 4, 3  # rows, columns, classes
QUICK = {"n_init": 1, "max_iter": 2, "random_state": 0}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def a_table(*sizes):
    """Rows with columns of so many values, 0 for continuous ones."""
    rng = np.random.default_rng(0)
    columns = [rng.normal(size=N) if size == 0 else rng.permutation(np.arange(N) % size) for size in sizes]
    return np.column_stack(columns).astype(float), np.arange(N) % C


NUMBERS = a_table(0, 0, 0, 0)
BITS = a_table(2, 2, 2, 2)
CODES = a_table(3, 5)
MIXED = a_table(0, 2, 3)
PRIORS = C - 1
CATEGORIES, KINDS = "categorical", ["continuous", "binary", "categorical"]


def mixtures(**options):
    return GaussianMixtureClassifier([1, 2, 3], **options, **QUICK)  # six Gaussians


def factors(*args, **options):
    return LatentClassificationModel(*args, **options, **QUICK)


@pytest.mark.parametrize(
    "model, table, n_free",
    [
        (mixtures(covariance="diag"), NUMBERS, PRIORS + (0 + 1 + 2) + 6 * 4 + 6 * 4),
        (mixtures(covariance="spherical"), NUMBERS, PRIORS + (0 + 1 + 2) + 6 * 4 + 6),
        (mixtures(covariance="full"), NUMBERS, PRIORS + (0 + 1 + 2) + 6 * 4 + 6 * (4 + 3 + 2 + 1)),
        (mixtures(covariance="tied"), NUMBERS, PRIORS + (0 + 1 + 2) + 6 * 4 + (4 + 3 + 2 + 1)),
        (mixtures(covariance="diag", priors="uniform"), NUMBERS, (0 + 1 + 2) + 6 * 4 + 6 * 4),
        # two factors: means and variances of all classes but one; loadings and offsets of the columns; noise
        (factors(2), NUMBERS, PRIORS + 2 * (2 + 2) + (8 + 4) + 4),
        (factors(2, priors="uniform"), NUMBERS, 2 * (2 + 2) + (8 + 4) + 4),
        (factors(2, 3, noise="tied"), NUMBERS, PRIORS + C * 2 + 2 * (2 + 2) + 3 * (8 + 4) + 4),
        (factors(2, 3), NUMBERS, PRIORS + C * 2 + 2 * (2 + 2) + 3 * (8 + 4 + 4)),
        (factors(0, 3, noise="tied"), NUMBERS, PRIORS + C * 2 + 3 * 4 + 4),
        # more factors than a mean and a covariance for each class can tell of
        (factors(12), NUMBERS, PRIORS + C * (4 + 10)),
        (factors(1), BITS, PRIORS + 2 * (1 + 1) + (4 + 4)),
        (factors(2, 2), BITS, PRIORS + C * 1 + 2 * (2 + 2) + 2 * (8 + 4)),
        # a softmax of k categories has k - 1 free heads
        (factors(1, kinds=CATEGORIES), CODES, PRIORS + 2 * (1 + 1) + (2 + 4) * (1 + 1)),
        (factors(2, 2, kinds=CATEGORIES), CODES, PRIORS + C * 1 + 2 * (2 + 2) + 2 * (2 + 4) * (2 + 1)),
        (factors(1, 2, kinds=KINDS, noise="tied"), MIXED, PRIORS + C * 1 + 2 * (1 + 1) + 2 * (1 + 1 + 2) * (1 + 1) + 1),
        (factors(1, 2, kinds=KINDS), MIXED, PRIORS + C + 2 * 2 + 2 * (1 + 1 + 2) * 2 + 2),
        (LatentClassificationModelCV([2], [1], cv=2, **QUICK), NUMBERS, PRIORS + 2 * (2 + 2) + (8 + 4) + 4),
        # all softmax scores but one, each a weight for every column and a bias
        (MultimodalSoftmaxClassifier([1, 2, 2], inference="ml", **QUICK), NUMBERS, (5 - 1) * 5),
        (MultimodalSoftmaxClassifier([1, 2, 2], **QUICK), NUMBERS, (5 - 1) * 5),
        (MixtureOfExpertsClassifier(2, inference="ml", **QUICK), NUMBERS, (2 - 1) * 5 + 2 * (C - 1) * 5),
        (
            MixtureOfExpertsClassifier([2, 3], depth=2, **QUICK),
            NUMBERS,
            (2 - 1) * 5 + 2 * (3 - 1) * 5 + 2 * 3 * (C - 1) * 5,
        ),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else "",
)
def test_bic_and_aic_count_what_is_free(model, table, n_free):
    X, y = table
    model.fit(X, y)
    aic, bic = model.aic(X, y), model.bic(X, y)
    assert (bic - aic) / (np.log(N) - 2) == pytest.approx(n_free, abs=1e-6)
    if hasattr(model, "predict_joint_log_proba"):
        own = model.predict_joint_log_proba(X)[np.arange(N), y]
    else:  # of the point estimate
        own = model.set_params(averaging="plugin").predict_log_proba(X)[np.arange(N), y]
    assert aic == pytest.approx(-2 * own.sum() + 2 * n_free)


def test_a_learned_structure_counts_the_edges_that_are_left():
    X, y = NUMBERS
    model = LatentClassificationModel(2, 2, structure="learn", **QUICK).fit(X, y)
    assert 0 < model.edges_.sum() < 8
    n_free = PRIORS + C * 1 + 2 * (2 + 2) + 2 * (model.edges_.sum() + 4) + 4
    assert (model.bic(X, y) - model.aic(X, y)) / (np.log(N) - 2) == pytest.approx(n_free, abs=1e-6)


@pytest.mark.filterwarnings("ignore:Column")
@pytest.mark.parametrize("model", [mixtures(covariance="full"), factors(2, 3)], ids=lambda model: type(model).__name__)
def test_a_column_without_values_counts_nothing(model):
    X, y = NUMBERS
    wider = np.column_stack([X, np.full(N, np.nan)])
    plain = model.fit(X, y).bic(X, y) - model.aic(X, y)
    assert model.fit(wider, y).bic(wider, y) - model.aic(wider, y) == pytest.approx(plain)


@pytest.mark.parametrize("inference", ["vb", "ml"])
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_linear_experts_count_their_noise(inference, n_outputs):
    X, Y = NUMBERS[0][:, :2], NUMBERS[0][:, 2 : 2 + n_outputs]
    table = MixtureOfExpertsRegressor(3, inference=inference, **QUICK).fit(X, Y).search_results_
    n_free = (table["bic"] + 2 * table["log_likelihood"]) / np.log(N)
    np.testing.assert_allclose(n_free, (3 - 1) * 3 + 3 * n_outputs * (3 + 1))


BINARY = LatentFactors(ColumnLayout([Bernoulli(range(D))]), C, 1, 2, bound_tol=1e-12, bound_max_iter=1000)
CONTINUOUS = ColumnLayout.continuous_columns(D)
SUBCLASSES, LINEAR = multimodal_softmax((1, 2, 2)), SoftmaxTree((2,), LinearLeaves(2))
FLAT, DEEP = (mixture_of_experts(branches, C) for branches in ((2,), (2, 2)))


@pytest.mark.parametrize(
    "n_free, model",
    [
        *((family.n_free(D) - PRIORS, family) for family in GaussianMixtures.examples(D, C)),
        *(
            (family.n_free(D) - PRIORS, family)
            for family in (LatentFactors(CONTINUOUS, C, q, 2, tied=tied) for q in (0, 1, 2) for tied in (True, False))
        ),
        (BINARY.n_free(D) - PRIORS, BINARY),
        *((tree.n_free(D + 1), TreeLikelihood(tree)) for tree in (SUBCLASSES, FLAT, DEEP, LINEAR)),
    ],
    ids=lambda value: value if isinstance(value, int) else type(value).__name__,
)
def test_the_count_is_the_dimension_of_the_set_of_models(n_free, model, rng):
    """The rank of the slopes of many log densities in the family's coordinates, of which class priors are none."""
    X = rng.normal(size=(300, D)) if model is not BINARY else rng.integers(2, size=(300, D)).astype(float)
    y = rng.normal(size=(300, 2)) if model == TreeLikelihood(LINEAR) else np.arange(300) % C
    params = select_restart(model.init(ArraySource(X, y), rng, 1), 0)
    free = model.to_free(params)
    here = flatten(free)
    used = np.isfinite(here)  # classes with fewer components have logits of -inf
    here[used] += 0.5 * rng.normal(size=used.sum())

    def log_density(vector):
        there = model.from_free(unflatten(vector, free), params)
        return model.infer(
            there, MaskedRows(X, None), y if isinstance(model, ConditionalFamily) else None
        ).log_joint.ravel()

    slopes = [log_density(here + step) - log_density(here - step) for step in STEP * np.eye(here.size)[used]]
    directions = np.stack([slope / max(np.linalg.norm(slope), STEP**2) for slope in slopes])
    assert np.linalg.matrix_rank(directions, tol=1e-6) == n_free
