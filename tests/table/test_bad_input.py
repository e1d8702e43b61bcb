"""Bad input: one clear error that names the argument, the value and what is allowed."""

import re
import warnings
from datetime import date

import numpy as np
import pytest

from latentia import (
    GaussianMixtureClassifier,
    LatentClassificationModel,
    LatentClassifier,
    MixtureOfExpertsClassifier,
    MixtureOfExpertsRegressor,
    MultimodalSoftmaxClassifier,
    ProbitEmbeddingClassifier,
)
from latentia.table.labels import output_units
from latentia.table.options import name_hint

X = np.random.default_rng(0).normal(size=(20, 3))
y = np.arange(20) % 2


@pytest.mark.parametrize(
    "options, message",
    [
        ({"covariance": "round"}, r"covariance='round'; allowed are 'auto', 'diag', 'full', 'tied', 'spherical'"),
        ({"inference": "map"}, r"inference='map'; allowed are 'vb', 'ml'"),
        ({"marginals": "rank"}, r"marginals='rank'; allowed are 'power', 'normal'"),
        ({"unlabeled_weight": -0.5}, r"unlabeled_weight=-0.5; allowed is a finite number >= 0"),
        ({"unlabeled_weight": "none"}, r"unlabeled_weight='none'; allowed are 'auto' and numbers >= 0"),
        ({"n_init": "many"}, r"n_init='many'; allowed are 'auto' and integers >= 1"),
        ({"objective": "auc"}, r"objective='auc'; allowed are 'likelihood', 'conditional', 'margin', 'hybrid'"),
        ({"margin": 0}, r"margin=0; allowed is a finite number > 0"),
        ({"ramp": 0}, r"ramp=0; allowed is a finite number > 0"),
        ({"n_components": 0}, r"n_components=0; allowed is an integer >= 1, one for each class, or 'bic'\."),
        ({"n_components": 1.5}, r"n_components=1.5; allowed is an integer >= 1"),
        ({"n_components": "aic"}, r"n_components='aic'; allowed are 'bic'"),
        ({"n_components": [1, 2, 3]}, r"n_components=\[1, 2, 3\] has 3 entries, but y has 2 classes"),
        ({"var_floor": 0}, r"var_floor=0; allowed is a finite number > 0"),
        ({"validation_fraction": 1.0}, r"validation_fraction=1.0; allowed is a finite number > 0 and < 1"),
        ({"priors": "equal"}, r"priors='equal'; allowed are 'empirical', 'uniform'"),
        ({"priors": [0.2, 0.3, 0.5]}, r"priors has shape \(3,\), but y has 2 classes"),
        ({"priors": [1.0, -1.0]}, r"priors=\[1.0, -1.0\]; allowed are"),
        ({"priors": {0: 0.5, 7: 0.5}}, r"priors names the class 7, which has no row in y"),
        ({"priors": {0: 0.5}}, r"priors has no entry for class 1"),
        ({"loss_matrix": [[0, 1, 2]]}, r"loss_matrix has shape \(1, 3\); expected is a finite 2 x 2 matrix"),
        ({"loss_matrix": [[0, np.nan], [1, 0]]}, r"loss_matrix holds nan; expected is a finite 2 x 2 matrix"),
        ({"max_iter": 10**400}, r"max_iter=10+; allowed is an integer >= 1"),
    ],
)
def test_options(options, message):
    with pytest.raises(ValueError, match=message):
        GaussianMixtureClassifier(**options).fit(X, y)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LatentClassificationModel(1, 0), "n_components=0; allowed is an integer >= 1, or 'auto'"),
        (ProbitEmbeddingClassifier(0), "n_latent=0; allowed is an integer >= 1, 'auto' or 'evidence'"),
        (MultimodalSoftmaxClassifier(0), "n_subclasses=0; allowed is an integer >= 1, one for each class, or 'auto'"),
        (MixtureOfExpertsClassifier(0), "n_experts=0; allowed is an integer >= 1, one for each level, or 'auto'"),
        (GaussianMixtureClassifier(temperature=0), "temperature=0; allowed is a finite number > 0, or 'auto'"),
        (GaussianMixtureClassifier(n_init=0), "n_init=0; allowed is an integer >= 1, or 'auto'"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_words_that_stand_for_numbers_are_among_what_is_allowed(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)


def test_the_number_of_factors():
    for bad, allowed in (
        ("all", "allowed are 'auto' and integers >= 0"),
        (-1, "allowed is an integer >= 0, or 'auto'"),
    ):
        with pytest.raises(ValueError, match=f"n_latent={bad!r}; {allowed}"):
            LatentClassificationModel(bad).fit(X, y)


@pytest.mark.parametrize(
    "labels, message",
    [
        (np.full(20, -1), "y has no label"),
        ([None] * 20, "y has no label"),
        (np.full(20, np.nan), "y has no label"),
        (y[:19], r"y has 19 entries and X has 20 rows"),
        (None, "requires y to be passed"),
        (np.linspace(0, 1, 20), r"Unknown label type: continuous. y holds 0\.0526.*MixtureOfExpertsRegressor"),
    ],
)
def test_labels(labels, message):
    with pytest.raises(ValueError, match=message):
        GaussianMixtureClassifier().fit(X, labels)


@pytest.mark.parametrize(
    "weight, message",
    [
        (np.full(20, -1.0), "sample_weight holds -1.0"),
        (np.zeros(20), "sample_weight is zero for every row;"),
        (np.where(y == 1, 0.0, 1.0), "sample_weight is zero for every row of class 1"),
        (np.ones(19), r"sample_weight has shape \(19,\), but there are 20 rows"),
        (np.full(20, np.inf), "sample_weight holds inf"),
        (np.full(20, 1 + 1j), r"(?s)sample_weight=array.*1\.\+1\.j.*; allowed are one number per row, or None"),
        (np.full(20, 1e308), r"sample_weight sums to more than 2e\+308, the largest number of float64"),
    ],
)
def test_weights(weight, message):
    with pytest.raises(ValueError, match=message):
        GaussianMixtureClassifier().fit(X, y, sample_weight=weight)


def test_errors_do_not_repeat_a_column_of_text():
    with pytest.raises(ValueError, match=r"sample_weight=\['heavy', .*\.\.\.; allowed are one number per row") as found:
        GaussianMixtureClassifier().fit(np.tile(X, (50, 1)), np.tile(y, 50), sample_weight=["heavy"] * 1000)
    assert len(str(found.value)) < 200


def test_rows():
    for bad, message in [
        (np.where(X > 1, np.inf, X), "infinity"),
        (X[:, 0], "Expected 2D array"),
        (np.full((20, 2), "text"), "X holds text in column 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            GaussianMixtureClassifier().fit(bad, y)
    model = GaussianMixtureClassifier().fit(X, y)
    with pytest.raises(ValueError, match="X has 2 features, but GaussianMixtureClassifier is expecting 3"):
        model.predict(X[:, :2])
    with pytest.raises(ValueError, match=r"y holds the class 5, which was not seen in fit. The classes are \[0, 1\]"):
        model.bic(X, np.full(20, 5))
    with pytest.raises(ValueError, match="which was not seen in fit"):
        model.sample(3, y=5)
    for method in (model.bic, model.aic, model.score):
        with pytest.raises(ValueError, match="y=None: a classifier requires y"):
            method(X, None)


@pytest.mark.filterwarnings("ignore:score leaves out")
@pytest.mark.parametrize(
    "names, others, shown",
    [
        ([0, 1], ["0", "1"], "'0'"),
        (["a", "b"], [0, 1], "0"),
        (["a", "b"], [False, True], "False"),
        ([False, True], ["no", "yes"], "'no'"),
        ([0, 1], [0.5, 1.0], "0.5"),
        (["a", "b"], [date(2026, 1, 1), date(2026, 1, 2)], "datetime.date(2026, 1, 1)"),
    ],
)
def test_classes_that_cannot_be_those_of_fit_are_named_by_score(names, others, shown):
    model = GaussianMixtureClassifier(random_state=0).fit(X, np.array(names)[y])
    labels = [others[k] for k in y]
    message = re.escape(f"y holds the class {shown}, which was not seen in fit. The classes are {names}.")
    for given in (labels, [*labels[:-1], None]):
        with pytest.raises(ValueError, match=message):
            model.score(X, given)


def test_other_classes_of_their_kind_are_mistakes():
    """A training part may lack a class that a test part has."""
    model = GaussianMixtureClassifier(random_state=0).fit(X, np.array(["a", "b"])[y])
    assert model.score(X, np.full(20, "c")) == 0


@pytest.mark.parametrize("dtype, large, allowed", [(np.float32, 4e18, "2e[+]17"), (np.float64, 1e154, "1e[+]152")])
def test_columns_whose_squares_overflow(dtype, large, allowed):
    wide = X.astype(dtype)
    wide[:, 1] *= large
    with pytest.raises(ValueError, match=f"column 1 .* overflow .* a standard deviation below {allowed}"):
        GaussianMixtureClassifier().fit(wide, y)
    wide[:, 1] /= large / float(allowed.replace("[+]", "")) * 3
    assert np.isfinite(GaussianMixtureClassifier().fit(wide, y).covariances_).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "model",
    [
        GaussianMixtureClassifier(random_state=0),
        LatentClassifier(effort="fast", random_state=0),
        ProbitEmbeddingClassifier(1),
        MultimodalSoftmaxClassifier(1),
        MixtureOfExpertsRegressor(1),
    ],
    ids=lambda model: type(model).__name__,
)
def test_weights_that_are_shares_are_told_once(model):
    """They count rows: shares of one would leave every posterior at its prior."""
    with pytest.warns(UserWarning, match="sample_weight sums to 1 over 20 rows. A row of weight 2") as found:
        model.fit(X, y, sample_weight=np.full(20, 1 / 20))
    assert sum("sample_weight sums" in str(w.message) for w in found) == 1
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "sample_weight sums")
        model.fit(X, y, sample_weight=np.full(20, 0.2))


def test_a_label_matrix_of_signs_is_told_what_minus_one_means():
    signs = np.where(np.eye(2)[y] == 1, 1, -1)
    with pytest.warns(UserWarning, match="no negative entry in column 0, 1.*If -1 stands for no, write 0"):
        ProbitEmbeddingClassifier(1).fit(X, signs)


@pytest.mark.parametrize("criterion", ["bic", "aic"])
def test_criteria_of_a_label_matrix_say_what_is_missing(criterion):
    labels = np.column_stack([y, np.arange(20) % 3 == 0])
    model = LatentClassifier(effort="fast", cv=2, random_state=0).fit(X, labels)
    with pytest.raises(ValueError, match=f"{criterion} needs the density of rows with their classes; this model was"):
        getattr(model, criterion)(X, labels)


def test_a_constant_output_has_the_unit_one_however_its_mean_is_rounded():
    constant = np.full((7, 2), [0.1, 1e8 + 0.1])
    units = output_units(constant, np.full(7, 0.3), False, 1e300)
    np.testing.assert_array_equal(units.scale, 1.0)
    assert (constant - units.shift).any()  # or nothing was rounded
    varies = output_units(constant + 1e-3 * np.arange(7)[:, None], None, False, 1e300)
    np.testing.assert_allclose(varies.scale, 2e-3, rtol=1e-4)


def test_a_hint_is_about_the_first_name_that_is_unknown():
    known = ["n_latent", "priors", "model"]
    assert name_hint(["model__alpha", "n_factors"], known) == " Did you mean 'n_latent'?"
    assert name_hint(["priors", "prior"], known) == " Did you mean 'priors'?"
    assert name_hint(["n_latents"], known) == " Did you mean 'n_latent'?"
    assert name_hint(["priors"], known) == name_hint(["zzz"], known) == ""
