"""LatentClassificationModel as users meet it: tables of text and numbers, gaps, completion, sampling, refinement, bad input."""

import warnings

import numpy as np
import pandas as pd
import pytest
from estimator_cases import POINTS
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from tolerances import EQUAL

from latentia import CompletionDisplay, LatentClassificationModel, LatentClassificationModelCV
from latentia.engine.rows import ArraySource
from latentia.estimators.base.estimator import StepNotifier
from latentia.estimators.latent_classification import stratified_sample
from latentia.scale import tables as small_tables

QUICK = {"n_init": 2, "tol": 1e-2, "random_state": 0}


@pytest.fixture
def table(rng):
    """Two classes that differ in every column: a number, a flag, a color, an integer of two values."""
    n = 120
    y = np.where(np.arange(n) % 2 == 0, "no", "yes")
    hit = y == "yes"
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=n) + 2 * hit,
            "flag": rng.random(n) < 0.2 + 0.6 * hit,
            "color": np.where(rng.random(n) < 0.7, np.where(hit, "red", "blue"), "green"),
            "grade": pd.Categorical(np.where(rng.random(n) < 0.8, np.where(hit, "b", "a"), "c")),
            "legs": 2 + 2 * (rng.random(n) < 0.3 + 0.4 * hit).astype(int),
        }
    )
    return frame, y


def test_kinds_are_read_off_a_frame_and_text_needs_no_encoder(table):
    X, y = table
    model = LatentClassificationModel(1, **QUICK).fit(X, y)
    assert model.kinds_ == ("continuous", "binary", "categorical", "categorical", "binary")
    assert model.categories_[2].tolist() == ["blue", "green", "red"] and model.categories_[4].tolist() == [2, 4]
    assert model.score(X, y) > 0.8
    assert model.feature_names_in_.tolist() == list(X.columns)
    assert model.loadings_.shape == (1, 9, 1) and model.loading_features_.tolist() == [0, 1, 2, 2, 2, 3, 3, 3, 4]
    assert np.isfinite(model.noise_variances_[0, 0]) and np.isnan(model.noise_variances_[0, 1:]).all()


@pytest.mark.parametrize("n_components", [1, 2])
def test_without_factors_the_probabilities_of_categories_are_exact(table, n_components):
    """They sum to one, a missing cell sums over its categories, and one component has the frequencies."""
    X, y = table
    X = X[["color", "grade", "flag"]]
    cells = [sorted(X[name].unique()) for name in X]
    every = pd.DataFrame(np.array(np.meshgrid(*cells, indexing="ij"), dtype=object).reshape(3, -1).T, columns=X.columns)
    tol = 1e-9 if n_components == 1 else 1e-4  # two take long to the last digits
    model = LatentClassificationModel(0, n_components, ridge=0, **POINTS, **QUICK | {"tol": tol}).fit(X, y)
    p = np.exp(model.score_samples(every)).reshape(3, 3, 2)
    assert p.sum() == pytest.approx(1)
    gap = every.iloc[::6].assign(grade=None, flag=None)
    np.testing.assert_allclose(np.exp(model.score_samples(gap)), p.sum(axis=(1, 2)), **EQUAL)
    if n_components == 1:
        np.testing.assert_allclose(p.sum(axis=(1, 2)), X["color"].value_counts(normalize=True)[cells[0]], rtol=1e-4)


def test_polars_gives_what_pandas_gives(table):
    polars = pytest.importorskip("polars")
    X, y = table
    other = polars.DataFrame({k: X[k].astype(str).tolist() if k in ("color", "grade") else X[k].tolist() for k in X})
    one, two = LatentClassificationModel(1, **QUICK).fit(X, y), LatentClassificationModel(1, **QUICK).fit(other, y)
    assert one.kinds_ == two.kinds_
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(other), atol=1e-9)
    assert type(two.sample(2)[0]).__module__.startswith("polars")


def test_columns_with_their_kinds_may_come_in_any_order(table):
    X, y = table
    order = ["grade", "size", "legs", "color", "flag"]
    one, two = (
        LatentClassificationModel(2, 2, **QUICK).fit(X, y),
        LatentClassificationModel(2, 2, **QUICK).fit(X[order], y),
    )
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X[order]), atol=1e-5)


def test_unknown_categories_are_missing_or_an_error(table):
    X, y = table
    unknown, gap = X.copy(), X.copy()
    unknown.loc[0, "color"] = "mauve"
    gap["color"] = gap["color"].astype(object)
    gap.loc[0, "color"] = None
    model = LatentClassificationModel(1, **QUICK).fit(X, y)
    with pytest.warns(UserWarning, match="'color' holds 'mauve'"):
        proba = model.predict_proba(unknown)
    np.testing.assert_allclose(proba, model.predict_proba(gap))
    with pytest.raises(
        ValueError, match="'color' holds 'mauve', which fit did not see, in 1 of its 120 known cells; known are"
    ):
        model.set_params(handle_unknown="error").predict(unknown)


def test_a_row_without_any_cell_gets_the_priors(table):
    X, y = table
    model = LatentClassificationModel(1, priors={"no": 0.3, "yes": 0.7}, **QUICK).fit(X, y)
    row = pd.DataFrame([{name: None for name in X.columns}])
    np.testing.assert_allclose(model.predict_proba(row), [[0.3, 0.7]], atol=1e-9)


def test_completion_fills_the_gaps_and_nothing_else(table, rng):
    X, y = table
    model = LatentClassificationModel(2, **QUICK).fit(X, y)
    gaps = X.astype(object)
    gaps.loc[3, "color"] = None
    gaps.loc[4, "size"] = None
    gaps.loc[5, "legs"] = None
    gaps.loc[6, "flag"] = None
    for condition in (None, "class"):
        full = model.impute(gaps, method="mode", condition=condition)
        assert not full.isna().any().any()
        assert full["color"].iloc[3] in ("blue", "green", "red") and full["legs"].iloc[5] in (2, 4)
        known = gaps.notna()
        assert (full["color"][known["color"]] == X["color"][known["color"]]).all()
        np.testing.assert_allclose(full["size"][known["size"]].astype(float), X["size"][known["size"]])
    assert 2 < model.impute(gaps)["legs"].iloc[5] < 4  # an expectation lies between the values


def test_continuous_completion_is_the_conditional_expectation():
    X, y = load_iris(return_X_y=True)
    model = LatentClassificationModel(2, marginals="normal", temperature=1.0, **QUICK).fit(X, y)
    gaps = X.copy()
    gaps[:, 2] = np.nan
    proba, expected = model.predict_proba(gaps), np.zeros(len(X))
    L, rest = model.loadings_[0], [0, 1, 3]
    for c in range(3):
        mean = L @ model.latent_means_[c] + model.intercepts_[0]
        V = L * model.latent_variances_[c] @ L.T + np.diag(model.noise_variances_[0])
        step = np.linalg.solve(V[np.ix_(rest, rest)], V[rest, 2])
        expected += proba[:, c] * (mean[2] + (X[:, rest] - mean[rest]) @ step)
    np.testing.assert_allclose(model.impute(gaps)[:, 2], expected, atol=1e-8)


def noise_variances(model):
    """Of the continuous columns, (components or 1, columns)."""
    return getattr(model, "noise_variances_", getattr(model, "noise_", None))


def two_components(rng, far):
    """Two groups of rows that no class tells apart, so far from each other and of different noise."""
    group, y = np.arange(240) // 120, np.arange(240) % 2
    X = rng.normal(size=(240, 3)) * np.where(group, 1.5, 0.3)[:, None] + far * group[:, None]
    X[:, 0] += y
    options = dict(noise="untied", n_init=4, selection="likelihood", random_state=0, **POINTS)
    return LatentClassificationModel(1, 2, **options).fit(X, y), X, y, group


def test_probabilities_of_components_are_those_of_bayes_rule(rng):
    model, X, _, _ = two_components(rng, 1.5)
    scores = np.empty((240, 2, 2))
    for c in range(2):
        for m in range(2):
            L = model.loadings_[m]
            mean = L @ model.latent_means_[c] + model.intercepts_[m]
            cov = L * model.latent_variances_[c] @ L.T + np.diag(noise_variances(model)[m])
            share = model.priors_[c] * model.mixing_weights_[c, m]
            scores[:, c, m] = np.log(share) + multivariate_normal(mean, cov).logpdf(X)
    expected = np.exp(logsumexp(scores, axis=1) - logsumexp(scores, axis=(1, 2))[:, None])
    found = model.responsibilities(X)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert ((found > 0.1) & (found < 0.9)).sum() > 10  # or other rules would do, too
    np.testing.assert_allclose(model.predict_joint_log_proba(X), logsumexp(scores, axis=2), atol=1e-8)


def test_samples_of_a_component_have_its_noise(rng):
    model, X, _, group = two_components(rng, 12.0)
    spread = [model.sample(4000, component=m)[0].std(axis=0) for m in range(2)]
    quiet = int(np.argmin([s.mean() for s in spread]))
    np.testing.assert_allclose(spread[quiet], X[group == 0].std(axis=0), rtol=0.1)
    np.testing.assert_allclose(spread[1 - quiet], X[group == 1].std(axis=0), rtol=0.1)


def test_completion_given_the_class_is_that_of_a_model_that_is_sure_of_it(rng):
    X, y = load_iris(return_X_y=True)
    gaps = np.where(rng.random(X.shape) < 0.4, np.nan, X)
    options = dict(n_init=1, max_iter=15, tol=0.0, random_state=0)

    def fit(priors):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return LatentClassificationModel(2, priors=priors, **options).fit(X, y)

    model = fit([0.5, 0.3, 0.2])
    sure = [fit([1.0 if k == c else 1e-200 for k in range(3)]).impute(gaps) for c in range(3)]
    expected = np.stack(sure)[model.predict(gaps), np.arange(150)]
    found = model.impute(gaps, condition="class")
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert np.abs(found - model.impute(gaps)).max() > 0.1


def test_the_mean_of_a_binary_column_averages_over_the_factors(rng):
    """Beside draws from the model: the logistic of the mean factor would be too sure."""
    y = np.arange(300) % 2
    z = rng.normal(size=300) + 0.5 * y
    odds = 4 * z[:, None] + np.array([3.0, 2.0, -2.0, -3.0])
    X = (rng.random((300, 4)) < 1 / (1 + np.exp(-odds))).astype(float)
    model = LatentClassificationModel(1, n_init=1, tol=1e-2, random_state=0).fit(X, y)
    drawn = model.sample(40_000)[0].mean(axis=0)
    np.testing.assert_allclose(model.impute(np.full((1, 4), np.nan))[0], drawn, atol=0.015)
    at_mean = 1 / (1 + np.exp(-(model.loadings_[0] @ model.latent_means_.T + model.intercepts_[0][:, None])))
    assert np.abs(at_mean @ model.priors_ - drawn).max() > 0.05


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_weights_count_where_the_most_accurate_start_wins():
    """On a table where counting rows instead of their weight would choose another start."""
    X, y = make_classification(
        60, 6, n_informative=5, n_redundant=0, n_classes=3, n_clusters_per_class=2, class_sep=0.6, random_state=1
    )
    weight = np.random.default_rng(1).integers(0, 4, 60)
    again = np.repeat(np.arange(60), weight)
    options = dict(n_init=6, max_iter=8, tol=0.0, random_state=0)
    weighted = LatentClassificationModel(2, 2, **options).fit(X, y, sample_weight=weight.astype(float))
    repeated = LatentClassificationModel(2, 2, **options).fit(X[again], y[again])
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), **EQUAL)


def test_samples_have_the_classes_and_the_columns_of_the_model(table):
    X, y = table
    model = LatentClassificationModel(1, 2, **QUICK).fit(X, y)
    rows, labels = model.sample(4000, y="yes", component=1)
    assert set(labels) == {"yes"} and list(rows.columns) == list(X.columns)
    assert set(rows["color"]) <= {"blue", "green", "red"} and set(rows["legs"]) <= {2, 4}
    both, classes = model.sample(4000)
    for column in ("size", "flag"):
        for label in ("no", "yes"):
            drawn, real = both[column][classes == label].astype(float), X[column][y == label].astype(float)
            error = np.sqrt(real.var() / len(real) + drawn.var() / len(drawn))
            assert abs(drawn.mean() - real.mean()) < 5 * error


def test_refinement_lies_above_the_bound_and_changes_no_exact_model(table):
    X, y = table
    model = LatentClassificationModel(2, **QUICK).fit(X, y)
    bound, estimate = model.score_samples(X, refine="importance")
    assert (estimate - bound).mean() > 0 and (estimate - bound).min() > -0.2
    np.testing.assert_allclose(model.score_samples(X), bound)
    refined = model.set_params(refine="importance").predict_proba(X)
    np.testing.assert_allclose(refined.sum(axis=1), 1.0)
    assert ((refined[:, 1] > 0.5) == (y == "yes")).mean() > 0.8
    numbers = X[["size"]].assign(other=X["size"] ** 2)
    exact = LatentClassificationModel(1, **QUICK).fit(numbers, y)
    a, b = exact.score_samples(numbers, refine="importance")
    np.testing.assert_allclose(a, b)


@pytest.mark.parametrize("training", ["conditional", "margin", "hybrid"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_discriminative_training_of_mixed_columns_raises_its_objective(training, table):
    X, y = table
    model = LatentClassificationModel(1, objective=training, max_iter=15, **QUICK).fit(X, y)
    assert model.objective_curve_[-1] > model.objective_curve_[0]
    assert model.score(X, y) > 0.8


def test_unlabeled_rows_help(rng):
    X, y = load_iris(return_X_y=True)
    few = np.full(150, -1)
    few[::15] = y[::15]
    model = LatentClassificationModel(2, unlabeled=-1, **POINTS, **QUICK).fit(X, few)
    assert model.score(X, y) > 0.85


def test_more_factors_than_columns_or_rows(rng):
    model = LatentClassificationModel(7, 3, **QUICK).fit(rng.normal(size=(6, 4)) * 1e8, [0, 1, 0, 1, 0, 1])
    assert np.isfinite(model.objective_curve_).all() and model.transform(np.zeros((2, 4))).shape == (2, 7)


@pytest.mark.parametrize(
    "wrong,message",
    [
        ({"n_latent": 1.5}, "n_latent=1.5"),
        ({"noise": "free"}, "noise='free'; allowed are 'auto', 'tied', 'untied'"),
        ({"kinds": "nominal"}, "kinds='nominal'"),
        ({"kinds": ["binary"]}, "kinds has 1 entries, but X has 4 columns"),
        ({"kinds": "binary"}, "is to be binary, but holds"),
    ],
)
def test_bad_options_are_refused(wrong, message):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        LatentClassificationModel(**wrong).fit(X, y)


def test_text_in_a_continuous_column_is_refused():
    X = np.array([["1.5", "a"], ["2.5", "b"], ["3.5", "a"], ["4", "b"]], dtype=object)
    with pytest.raises(ValueError, match="column 1 of X holds text"):
        LatentClassificationModel(1, kinds="continuous").fit(X, [0, 1, 0, 1])


def test_infinite_numbers_in_a_frame_are_refused(table):
    X, y = table
    X.loc[0, "size"] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        LatentClassificationModel(1).fit(X, y)


def test_the_search_takes_mixed_tables(table):
    X, y = table
    model = LatentClassificationModelCV([0, 1], [1], cv=2, **QUICK).fit(X, y)
    assert model.score(X, y) > 0.8 and model.kinds_[2] == "categorical"
    assert model.impute(X.iloc[:3]).shape == (3, 5)


@pytest.mark.parametrize("training", ["likelihood", "hybrid"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_learned_structures_drop_columns_of_noise_of_every_kind(training, table, rng):
    X, y = table
    X = X.assign(noise=rng.normal(size=len(X)), coin=rng.random(len(X)) < 0.5)
    model = LatentClassificationModel(1, structure="learn", objective=training, max_iter=20, **QUICK).fit(X, y)
    assert not model.edges_[5:].any() and model.edges_[[0, 2]].all()
    by_loading = model.edges_[model.loading_features_]
    assert (model.loadings_[:, ~by_loading] == 0).all() and (model.loadings_[:, by_loading] != 0).all()


@pytest.mark.filterwarnings("ignore:.*stopped before it converged")
def test_selection_says_which_start_wins():
    """By accuracy the winner classifies more training rows rightly, by likelihood it has the higher value."""
    X, y = make_classification(150, 8, n_informative=6, n_classes=3, random_state=0)
    fits = {
        rule: LatentClassificationModel(2, 3, selection=rule, n_init=8, max_iter=20, random_state=0, **POINTS).fit(X, y)
        for rule in ("accuracy", "likelihood")
    }
    assert fits["accuracy"].score(X, y) > fits["likelihood"].score(X, y)
    assert fits["accuracy"].objective_curve_[-1] < fits["likelihood"].objective_curve_[-1]


@pytest.fixture
def typed(table):
    """The table in as many dtypes as there are columns and more, with gaps and an index of its own."""
    X, y = table
    X = X.assign(
        small=X["size"].astype("float32"),
        maybe=X["flag"].astype(object).where(np.arange(len(X)) % 5 > 0, None),
        nullable=pd.array(np.where(X["legs"] > 2, 1, 0), dtype="Int64"),
        text=X["color"].astype(object),
    )
    X["grade"] = X["grade"].cat.add_categories(["never seen"])
    X.index = pd.Index([f"row {k}" for k in range(len(X))], name="who")
    return X, y


def test_pandas_frames_come_back_with_their_dtypes_and_index(typed):
    X, y = typed
    model = LatentClassificationModel(1, **QUICK).fit(X, y)
    gaps = X.copy()
    gaps.iloc[3, X.columns.get_loc("color")] = None
    gaps.iloc[4, X.columns.get_loc("grade")] = None
    gaps.iloc[5, X.columns.get_loc("size")] = None
    whole = {**X.dtypes.to_dict(), "maybe": np.dtype(bool)}  # True and False without gaps need no objects
    full = model.impute(gaps)
    assert full.dtypes.to_dict() == whole
    pd.testing.assert_index_equal(full.index, X.index)
    known = gaps.drop(columns="maybe").notna()
    pd.testing.assert_frame_equal(full.drop(columns="maybe").where(known), X.drop(columns="maybe").where(known))
    assert not full.isna().any().any()
    drawn, _ = model.sample(7)
    assert drawn.dtypes.to_dict() == whole and drawn.columns.tolist() == X.columns.tolist()


def test_integers_become_floats_only_where_an_expectation_lies_between_them(typed):
    X, y = typed
    model = LatentClassificationModel(1, **QUICK).fit(X, y)
    gaps = X.assign(legs=X["legs"].where(np.arange(len(X)) != 2))
    assert model.impute(gaps, method="mode")["legs"].dtype == X["legs"].dtype
    expected = model.impute(gaps)["legs"]
    assert expected.dtype == float and 2 < expected.iloc[2] < 4
    assert (expected.drop(expected.index[2]) == X["legs"].drop(X.index[2])).all()


def test_polars_frames_come_back_with_their_dtypes(table):
    polars = pytest.importorskip("polars")
    X, y = table
    other = polars.DataFrame(
        {
            "size": polars.Series(X["size"].tolist(), dtype=polars.Float32),
            "flag": X["flag"].tolist(),
            "color": X["color"].tolist(),
            "grade": polars.Series(X["grade"].tolist(), dtype=polars.Enum(["a", "b", "c", "d"])),
            "legs": polars.Series(X["legs"].tolist(), dtype=polars.Int16),
        }
    )
    model = LatentClassificationModel(1, **QUICK).fit(other, y)
    gaps = other.with_columns(
        *(
            polars.when(polars.int_range(polars.len()) == 3).then(None).otherwise(polars.col(name)).alias(name)
            for name in other.columns
        )
    )
    full = model.impute(gaps, method="mode")
    assert full.schema == other.schema and sum(full.null_count().row(0)) == 0
    rest = [k for k in range(len(y)) if k != 3]
    assert full[rest].equals(other[rest])
    assert model.sample(3)[0].schema == other.schema
    assert model.impute(gaps).schema["legs"] == polars.Float64  # an expectation lies between the integers


def test_accuracy_estimated_from_some_rows_counts_the_classes_as_they_are(rng):
    """A rare class and weights: the rows that are drawn weigh together what all rows do."""
    y = (rng.random(5000) < 0.05).astype(int)
    X, weight = rng.normal(size=(5000, 2)) + y[:, None], rng.random(5000)
    for w in (None, weight):
        some = stratified_sample(ArraySource(X, y, w), 100, rng)
        assert some.n_rows == 200
        total = np.bincount(y, w)
        np.testing.assert_allclose(np.bincount(some.y, some.weight), total)
    folds = weight[:, None] * (np.arange(5000)[:, None] % 2 == [0, 1])  # rows that a restart does not see have no say
    some = stratified_sample(ArraySource(X, y, folds), 100, rng)
    np.testing.assert_allclose(np.bincount(some.y, some.weight.mean(axis=1)), np.bincount(y, folds.mean(axis=1)))
    assert (np.sort(some.weight, axis=1)[:, 0] == 0).all()


def test_a_picture_of_completions_shows_what_the_model_says(rng):
    """Pixels that are bright in the most probable of three classes alone: on average over the classes they are dark."""
    y = np.repeat([0, 1, 2], [40, 30, 30])
    X = (rng.random((100, 6)) < np.where(y == 0, 0.95, 0.05)[:, None]).astype(int)
    model = LatentClassificationModel(1, kinds="binary", n_init=1, tol=1e-2, random_state=0).fit(X, y)
    shown = CompletionDisplay.from_estimator(model, X[0], shape=(3, 2), lines=[0, 1, 3], plot=False)
    rows = np.where(np.arange(6) < np.array([[0], [2], [6]]), X[0], np.nan)
    np.testing.assert_array_equal(shown.disclosed.reshape(3, 6), rows)
    np.testing.assert_allclose(shown.probabilities, model.predict_proba(rows), **EQUAL)
    np.testing.assert_allclose(shown.expected.reshape(3, 6), model.impute(rows), **EQUAL)
    probable = model.impute(rows, method="mode", condition="class")
    np.testing.assert_array_equal(shown.probable.reshape(3, 6), probable)
    assert (probable != model.impute(rows, method="mode")).any()  # or the law would say nothing


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_whoever_listens_sees_models_at_every_step_of_both_solvers(rng):
    X, y = rng.normal(size=(30, 2)), np.arange(30) % 2
    model = LatentClassificationModel(1, 1, objective="conditional", max_iter=2, random_state=0)
    notifier, seen = StepNotifier(), {}

    def look(step):
        seen[step.solver] = notifier.attributes_at(step.params())["_model"].log_proba(X)

    notifier.listeners.append(look)
    model._train(model._read_input(X, y, None), rng, notifier)
    assert len(seen) == 2 and all(np.isfinite(said).all() for said in seen.values())


@pytest.mark.parametrize("in_parts", [False, True])
def test_counts_are_as_spread_as_their_rows_weigh(in_parts, rng, monkeypatch):
    y, weight = np.arange(90) % 2, rng.integers(0, 4, size=90)
    X = np.where(weight[:, None] > 1, 2 * rng.poisson(4.0, (90, 2)), rng.poisson(4.0, (90, 2))) + y[:, None]
    again = np.repeat(np.arange(90), weight)
    model = LatentClassificationModel(1, 1, kinds="count", random_state=0)
    repeated = clone(model).fit(X[again], y[again])
    if in_parts:
        dask_array = pytest.importorskip("dask.array")
        monkeypatch.setattr(small_tables, "SMALL_TABLE_MIB", 0)
        X_in, y_in, w_in = (dask_array.from_array(a, chunks=(40, *a.shape[1:])) for a in (X, y, weight.astype(float)))
    else:
        X_in, y_in, w_in = X, y, weight.astype(float)
    weighted = clone(model).fit(X_in, y_in, sample_weight=w_in)
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-6)
    np.testing.assert_allclose(weighted.score_samples(X), repeated.score_samples(X), atol=1e-6)


@pytest.mark.parametrize("share", [0.0, 0.5])
@pytest.mark.parametrize("gaps", [0.0, 0.2])
def test_sizes_that_were_found_and_are_given_make_the_same_model(rng, share, gaps):
    X, y = load_iris(return_X_y=True)
    X = np.where(rng.random(X.shape) < gaps, np.nan, X)
    y = np.where(rng.random(y.size) < share, -1, y)
    found = LatentClassificationModel(unlabeled=-1, random_state=0).fit(X, y)
    given = LatentClassificationModel(found.n_latent_, found.n_components_, unlabeled=-1, random_state=0).fit(X, y)
    np.testing.assert_array_equal(found.predict_proba(X), given.predict_proba(X))
    np.testing.assert_array_equal(found.loadings_, given.loadings_)
